"""Routers in each mode, and an artefact by which answers of log-probability -0.02 are right and of -3 wrong."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from demur import Artefact, Router, Settings
from demur.core.decision import Route, Stage
from demur.core.protocols import Fingerprint
from demur.probes.binding import Binding, ModelBinding
from demur.probes.fit_head import fit_head
from demur.probes.signal_table import SignalTable
from demur.probes.success_chance import fit_success_chance


@cache
def fitted(task: str) -> Artefact:
    draw = np.random.default_rng(11)
    surprise = draw.uniform(0.0, 3.0, 600)
    right = draw.random(600) < 1.0 / (1.0 + np.exp(4.0 * surprise - 5.0))
    table = SignalTable(("token.mean_logprob",), -surprise[:, None])
    when = datetime(2026, 1, 1, tzinfo=UTC)
    heads = {
        f"{arm}/after": fit_head(
            table, right.astype(float), groups=None, arm=arm, stage=Stage.AFTER, fitted_at=when, replicas=20
        )
        for arm in ("answer", "retrieve")
    }
    base, later = np.tile([0.2, 0.5, 0.8], 200), draw.random(600) < 0.95
    chances = {
        "retrieve": fit_success_chance(base, later.astype(float), route=Route.RETRIEVE),
        "escalate:big": fit_success_chance(base, later.astype(float), route=Route.ESCALATE, target="big"),
    }
    model = ModelBinding.of(Fingerprint("f", "function:f", False, "", ""))
    binding = Binding(
        model=model,
        task=task,
        extractor="whole",
        grader="alias",
        grader_version="1",
        data="synthetic",
        created_at=when,
    )
    return Artefact(heads, binding, chances)


@pytest.fixture
def router(tmp_path: Path) -> Callable[..., Router]:
    """router(mode, fit=True, **router options): with costs that let unsure answers go to a human."""

    def make(mode: str = "enforce", *, fit: bool = True, settings: dict[str, Any] | None = None, **options: Any) -> Any:
        return Router(
            settings=Settings(**{"mode": mode, **(settings or {})}),
            artefacts=[fitted("default")] if fit else [],
            database=tmp_path / f"{mode}.db",
            seed=3,
            **options,
        )

    return make
