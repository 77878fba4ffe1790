"""A model that does what it is told, and routers with the least around it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from demur import Artefact, Call, Router, Settings
from demur.core.decision import Route, Stage
from demur.core.evidence import Need
from demur.core.protocols import Fingerprint, Generation
from demur.core.response import Response, TokenTrace
from demur.probes.binding import Binding, ModelBinding
from demur.probes.fit_head import fit_head
from demur.probes.signal_table import SignalTable
from demur.probes.success_chance import fit_success_chance


class Puppet:
    """Answers with what `act(call, documents, gate)` gives back."""

    def __init__(self, act: Callable[..., Any], name: str = "puppet") -> None:
        self.act, self.name = act, name
        self.provides = frozenset({Need.TEXT, Need.LOGPROBS, Need.HIDDEN_STATES})

    def fingerprint(self) -> Fingerprint:
        return Fingerprint(self.name, f"weights of {self.name}", True, "template", "greedy")

    def generate(self, call: Call, *, documents: Any = (), capture: Any = None, gate: Any = None) -> Any:
        return self.act(call, documents, gate)

    async def agenerate(self, call: Call, *, documents: Any = (), capture: Any = None, gate: Any = None) -> Any:
        await asyncio.sleep(0)
        return self.act(call, documents, gate)


@cache
def _head(arm: str, stage: Stage, signal: str, sign: float) -> Any:
    draw = np.random.default_rng(11)
    surprise = draw.uniform(0.0, 3.0, 600)
    right = draw.random(600) < 1.0 / (1.0 + np.exp(4.0 * surprise - 5.0))
    table = SignalTable((signal,), sign * surprise[:, None])
    when = datetime(2026, 1, 1, tzinfo=UTC)
    return fit_head(table, right.astype(float), groups=None, arm=arm, stage=stage, fitted_at=when, replicas=10)


@cache
def _chance(route: Route, target: str | None) -> Any:
    right = np.random.default_rng(5).random(600) < 0.95
    return fit_success_chance(np.tile([0.2, 0.5, 0.8], 200), right.astype(float), route=route, target=target)


def _artefact(model: Puppet, larger: Mapping[str, Puppet], gated: bool) -> Artefact:
    heads = {f"{arm}/after": _head(arm, Stage.AFTER, "token.mean_logprob", -1.0) for arm in ("answer", "retrieve")}
    if gated:
        heads["answer/before"] = _head("answer", Stage.BEFORE, "prompt.entropy", 1.0)
    chances = {"retrieve": _chance(Route.RETRIEVE, None)}
    chances |= {f"escalate:{name}": _chance(Route.ESCALATE, name) for name in larger}
    binding = Binding(
        model=ModelBinding.of(model.fingerprint()),
        targets={name: ModelBinding.of(each.fingerprint()) for name, each in larger.items()},
        task="default",
        extractor="whole",
        grader="alias",
        grader_version="1",
        data="synthetic",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    return Artefact(heads, binding, chances)


@pytest.fixture
def puppet() -> type[Puppet]:
    return Puppet


@pytest.fixture
def says() -> Callable[..., Generation]:
    """says(text, logprob): a whole answer; -0.02 is sure, -3 is not."""

    def make(text: str = "Paris", logprob: float = -0.02) -> Generation:
        return Generation(Response(text=text, trace=TokenTrace(logprobs=(logprob,)), model="puppet"))

    return make


@pytest.fixture
def router(tmp_path: Path) -> Callable[..., Router]:
    """router(model, mode, gated=, larger=, ...): fitted where there is a model."""

    def make(
        model: Any = None,
        mode: str = "enforce",
        *,
        gated: bool = False,
        larger: Mapping[str, Puppet] | None = None,
        **options: Any,
    ) -> Router:
        artefacts = [_artefact(model, larger or {}, gated)] if isinstance(model, Puppet) else []
        prices = {"escalate": dict.fromkeys(larger or {}, 0.02)}
        options.setdefault("settings", Settings(mode=mode, costs=prices))
        options.setdefault("database", tmp_path / f"{mode}.db")
        return Router(model, artefacts=artefacts, larger=larger, seed=3, **options)

    return make


@pytest.fixture(params=["sync", "async"])
def go(request: pytest.FixtureRequest) -> Callable[..., Any]:
    def carry(router: Router, call: Any, **options: Any) -> Any:
        if request.param == "sync":
            return router.run(call, **options)
        return asyncio.run(router.arun(call, **options))

    return carry
