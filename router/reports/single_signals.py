"""Each signal alone: how well it tells right from wrong without any fusion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...evaluation.inputs import Floats
from ...evaluation.metrics.auroc import auroc_statistic
from ...evaluation.metrics.bootstrap import bootstrap
from ...evaluation.metrics.proportion import proportion

INTERVALS = 25
"""So many of the best signals get an interval."""
_WORK = 2_000_000


@dataclass(frozen=True)
class Alone:
    """One signal.

    Attributes:
        auroc: with the sign turned so that it is at least .5; `lower_is_surer` says whether it was turned. Which way
            round was read off the rows themselves.
        low, high: 95 % interval, None where none was drawn.
        n: rows that have the signal.
    """

    name: str
    auroc: float
    low: float | None
    high: float | None
    n: int
    lower_is_surer: bool

    def oriented(self, values: Floats) -> Floats:
        """The signal's values, higher is surer."""
        return -values if self.lower_is_surer else values


def alone(signals: Mapping[str, Floats], correct: Floats, groups: NDArray[np.integer], *, seed: int = 0) -> list[Alone]:
    """All signals for which AUROC is defined, best first.

    Args:
        signals: name → (n,), NaN where missing.
        correct: (n,) of 0 and 1.
    """
    found = [one for name, values in signals.items() if (one := _value(name, values, correct)) is not None]
    found.sort(key=lambda one: (-one.auroc, -one.n, one.name))
    return [
        _with_interval(one, signals[one.name], correct, groups, seed) if place < INTERVALS else one
        for place, one in enumerate(found)
    ]


def _value(name: str, values: Floats, correct: Floats) -> Alone | None:
    there = np.isfinite(values)
    if not there.any():
        return None
    area = float(auroc_statistic(values[there], correct[there])(np.ones((1, int(there.sum()))))[0])
    if not np.isfinite(area):
        return None
    return Alone(name, max(area, 1.0 - area), None, None, int(there.sum()), area < 0.5)


def _with_interval(one: Alone, values: Floats, correct: Floats, groups: NDArray[np.integer], seed: int) -> Alone:
    there = np.isfinite(values)
    if one.auroc == 1.0:  # every resample is perfect, too; the rarer class's count says how sure that is
        labels, codes = correct[there], groups[there]
        rarer = min(np.unique(codes[labels == label]).size for label in (0.0, 1.0))
        return replace(one, low=proportion(one.name, np.ones(rarer)).low, high=1.0)
    drawn = bootstrap(
        auroc_statistic(one.oriented(values[there]), correct[there]),
        one.n,
        groups=groups[there],
        seed=seed,
        resamples=int(np.clip(_WORK // one.n, 200, 1000)),
    )
    if drawn.low is None or drawn.high is None:
        return one
    return replace(one, low=min(drawn.low, one.auroc), high=max(drawn.high, one.auroc))
