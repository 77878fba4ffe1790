"""A model that answers by script, artefacts fitted on synthetic signals, and routers around them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from demur import Artefact, Call, Router, Settings
from demur.core.clock import ManualClock
from demur.core.database import Database
from demur.core.decision import Route, Stage
from demur.core.evidence import Captured, Document, Need
from demur.core.protocols import Fingerprint, Gate, Generation
from demur.core.response import Cost, Response, TokenTrace
from demur.core.run import Result
from demur.core.success_chance import SuccessChance
from demur.probes.binding import Binding, ModelBinding
from demur.probes.fit_head import fit_head
from demur.probes.head import Head
from demur.probes.signal_table import SignalTable
from demur.probes.success_chance import fit_success_chance

SURE, UNSURE = -0.02, -3.0
WHITE = frozenset({Need.TEXT, Need.LOGPROBS, Need.HIDDEN_STATES})
GREY = frozenset({Need.TEXT, Need.LOGPROBS})
FITTED_AT = datetime(2026, 1, 1, tzinfo=UTC)
PASSAGES = (Document(id="d1", text="Paris is the capital of France."),)


@dataclass
class ScriptedModel:
    """Gives the next of its replies (the last one for ever): (text, log-probability), or an exception to raise.

    Attributes:
        entropy: of the first token, read off before generating where the model is white.
        on_call: called with the call while the answer is being made.
        asked: the documents of every generation so far.
        stopped: how often the gate kept it from generating.
    """

    replies: Sequence[tuple[str, Any] | BaseException] = (("Paris", SURE),)
    name: str = "scripted"
    provides: frozenset[Need] = GREY
    entropy: float = 0.05
    cost: Cost = field(default_factory=lambda: Cost(money=0.5, tokens_in=7, tokens_out=3, seconds=0.25))
    on_call: Callable[[Call], None] | None = None
    asked: list[Sequence[Document]] = field(default_factory=list)
    stopped: int = 0

    def fingerprint(self) -> Fingerprint:
        return Fingerprint(self.name, f"weights of {self.name}", True, "template", "greedy")

    def generate(self, call: Call, *, documents: Any = (), capture: Any = None, gate: Gate | None = None) -> Generation:
        white = Need.HIDDEN_STATES in self.provides
        captured = Captured(prompt_entropy=self.entropy, prompt_tokens=5) if white else None
        if gate is not None and captured is not None and not gate(captured):
            self.stopped += 1
            cost = Cost(tokens_in=7)
            return Generation(Response(stopped_before_generating=True, cost=cost, model=self.name), captured)
        reply = self.replies[min(len(self.asked), len(self.replies) - 1)]
        self.asked.append(tuple(documents))
        if self.on_call is not None:
            self.on_call(call)
        if isinstance(reply, BaseException):
            raise reply
        text, logprobs = reply
        values = logprobs if isinstance(logprobs, tuple) or logprobs is None else (logprobs,)
        trace = None if values is None else TokenTrace(logprobs=values)
        return Generation(Response(text=text, trace=trace, cost=self.cost, model=self.name), captured)

    async def agenerate(self, call: Call, **options: Any) -> Generation:
        await asyncio.sleep(0)
        return self.generate(call, **options)


@dataclass
class ScriptedRetriever:
    """Gives its passages, or raises."""

    found: Any = PASSAGES
    asked: int = 0

    def retrieve(self, query: str, *, limit: int = 5) -> Any:
        self.asked += 1
        if isinstance(self.found, BaseException):
            raise self.found
        return self.found

    async def aretrieve(self, query: str, *, limit: int = 5) -> Any:
        return self.retrieve(query, limit=limit)


@cache
def fitted(arm: str, stage: Stage, signal: str, sign: float = -1.0) -> Head:
    """A head on one signal: surprise s, uniform on [0, 3], is the signal times `sign`; P(right) = sigmoid(5 - 4 s)."""
    draw = np.random.default_rng(11)
    surprise = draw.uniform(0.0, 3.0, 600)
    right = draw.random(600) < 1.0 / (1.0 + np.exp(4.0 * surprise - 5.0))
    table = SignalTable((signal,), sign * surprise[:, None])
    return fit_head(table, right.astype(float), groups=None, arm=arm, stage=stage, fitted_at=FITTED_AT, replicas=20)


@cache
def chance(route: Route, rate: float, target: str | None = None) -> SuccessChance:
    """The later route is right at `rate`, whatever the draft."""
    base = np.tile([0.2, 0.5, 0.8], 200)
    right = np.random.default_rng(5).random(600) < rate
    return fit_success_chance(base, right.astype(float), route=route, target=target)


def build_artefact(
    model: ScriptedModel,
    *,
    before: bool = False,
    retrieve: bool = True,
    retrieve_rate: float = 0.93,
    escalate: Mapping[str, ScriptedModel] | None = None,
    escalate_rate: float = 0.95,
    task: str = "default",
    extra: Mapping[str, Head] | None = None,
) -> Artefact:
    """Heads answer/after (and before, retrieve/after), chances of retrieving and escalating, bound to the model."""
    heads = {"answer/after": fitted("answer", Stage.AFTER, "token.mean_logprob")}
    if before and Need.HIDDEN_STATES in model.provides:
        heads["answer/before"] = fitted("answer", Stage.BEFORE, "prompt.entropy", 1.0)
    elif before:
        heads["answer/before"] = fitted("answer", Stage.BEFORE, "prompt.log_question_length", 1.0)
    chances = {}
    if retrieve:
        heads["retrieve/after"] = fitted("retrieve", Stage.AFTER, "token.mean_logprob")
        chances["retrieve"] = chance(Route.RETRIEVE, retrieve_rate)
    for name in escalate or {}:
        chances[f"escalate:{name}"] = chance(Route.ESCALATE, escalate_rate, name)
    binding = Binding(
        model=ModelBinding.of(model.fingerprint()),
        targets={name: ModelBinding.of(larger.fingerprint()) for name, larger in (escalate or {}).items()},
        task=task,
        extractor="whole",
        grader="alias",
        grader_version="1",
        data="synthetic",
        created_at=FITTED_AT,
    )
    return Artefact({**heads, **(extra or {})}, binding, chances)


@pytest.fixture
def scripted() -> type[ScriptedModel]:
    return ScriptedModel


@pytest.fixture
def retriever_of() -> type[ScriptedRetriever]:
    return ScriptedRetriever


@pytest.fixture
def artefact_for() -> Callable[..., Artefact]:
    return build_artefact


@pytest.fixture
def head_of() -> Callable[..., Head]:
    return fitted


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 11, 30, 12, 0, tzinfo=UTC))


@pytest.fixture
def make_router(tmp_path: Path, clock: ManualClock) -> Callable[..., Router]:
    """make_router(model, mode=..., costs=..., artefact options or artefact=None, router options)."""

    def make(
        model: ScriptedModel | None = None,
        *,
        mode: str = "enforce",
        costs: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        artefact: Any = "fitted",
        fit: Mapping[str, Any] | None = None,
        larger: Mapping[str, ScriptedModel] | None = None,
        database: Any = None,
        **options: Any,
    ) -> Router:
        prices = {"escalate": dict.fromkeys(larger or {}, 0.02), **(costs or {})}
        artefacts = []
        if artefact == "fitted" and model is not None:
            artefacts = [build_artefact(model, escalate=larger, **(fit or {}))]
        elif artefact is not None and artefact != "fitted":
            artefacts = [artefact]
        return Router(
            model,
            settings=Settings(mode=mode, costs=prices, **(settings or {})),
            artefacts=artefacts,
            larger=larger,
            database=database or Database(tmp_path / "demur.db"),
            clock=options.pop("clock", clock),
            seed=options.pop("seed", 3),
            **options,
        )

    return make


@pytest.fixture(params=["sync", "async"])
def go(request: pytest.FixtureRequest) -> Callable[..., Result[Any]]:
    """Carry a call through, by `run` or by `arun`."""

    def carry(router: Router, call: Call | str = "What is the capital of France?", **options: Any) -> Result[Any]:
        given = Call.ask(call) if isinstance(call, str) else call
        if request.param == "sync":
            return router.run(given, **options)
        return asyncio.run(router.arun(given, **options))

    return carry
