"""Synthetic rows whose chance of being right is known, and a head fitted on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pytest

from demur.core.decision import Stage
from demur.probes.fit_head import fit_head
from demur.probes.head import Head
from demur.probes.signal_table import SignalTable


@dataclass(frozen=True)
class Rows:
    """n rows: the table, whether each was right, and the true chance of that."""

    table: SignalTable
    correct: np.ndarray
    chance: np.ndarray


def _rows(
    n: int, *, seed: int = 0, scalars: int = 5, width: int = 0, missing: float = 0.0, strength: float = 1.0
) -> Rows:
    """Log-odds = strength * (1.2 z0 - 0.8 z1 + u) + 0.4; z correlated, u along one hidden direction (if width > 0)."""
    draw = np.random.default_rng(seed)
    common = draw.normal(size=(n, 1))
    z = 0.6 * common + 0.8 * draw.normal(size=(n, scalars))
    log_odds = 1.2 * z[:, 0] - 0.8 * z[:, 1]
    hidden = {}
    if width:
        block = draw.normal(size=(n, width))
        block[:, :2] *= 3.0
        log_odds = log_odds + 0.4 * block[:, 0]
        hidden["answer_mean.L1"] = block.astype(np.float32)
    chance = 1.0 / (1.0 + np.exp(-(strength * log_odds + 0.4)))
    correct = draw.random(n) < chance
    values = z * 7.0 - 3.0
    values[draw.random(values.shape) < missing] = np.nan
    return Rows(SignalTable(tuple(f"s{i}" for i in range(scalars)), values, hidden), correct, chance)


@pytest.fixture(scope="session")
def rows() -> Callable[..., Rows]:
    """`rows(n, seed=, scalars=, width=, missing=, strength=)`."""
    return _rows


@pytest.fixture(scope="session")
def fitted(rows: Callable[..., Rows]) -> tuple[Head, Rows]:
    """A head of the highest tier with one hidden vector and 5 % missing values, and its rows."""
    data = rows(700, seed=3, width=24, missing=0.05)
    head = fit_head(
        data.table,
        data.correct,
        np.arange(700) // 2,
        arm="answer",
        stage=Stage.AFTER,
        replicas=20,
        fitted_at=datetime(2026, 11, 1, tzinfo=UTC),
    )
    return head, data
