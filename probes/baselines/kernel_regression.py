"""Nadaraya-Watson kernel regression of being right on raw confidence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.errors import ConfigurationError
from .base import Baseline, Floats, unfitted
from .raw_confidence import SUM_LOGPROB, as_probability

BANDWIDTHS = tuple(float(width) for width in np.geomspace(0.005, 0.5, 20))
_MOST_ROWS = 2_000
"""Rows that the bandwidth is chosen on, drawn with `seed` where there are more: the choice costs their square."""
_BLOCK = 2_000_000


class KernelRegression(Baseline):
    """A Gaussian-kernel weighted mean of the fitted rows' grades (a baseline of MICE, arXiv 2504.20168).

    The bandwidth has the lowest leave-one-out squared error; of equals the widest. Far from every fitted row the
    nearest ones decide.

    Args:
        column, log: as of `RawConfidence`.
        bandwidths: to choose from, on the scale of probabilities; one is used as it is.

    Attributes (after `fit`):
        bandwidth_; errors_: (bandwidths,) leave-one-out mean squared errors (NaN where there was no choice).
    """

    name = "kernel"

    def __init__(
        self, column: str = SUM_LOGPROB, *, log: bool = True, bandwidths: Sequence[float] = BANDWIDTHS, seed: int = 0
    ) -> None:
        super().__init__((column,))
        if not bandwidths or not all(np.isfinite(width) and width > 0.0 for width in bandwidths):
            raise ConfigurationError(f"bandwidths={tuple(bandwidths)[:20]} must be finite numbers above 0")
        self.log = log
        self.bandwidths = tuple(sorted(bandwidths))
        self.seed = seed

    def _fit(self, block: Floats, correct: Floats) -> None:
        self.scores_ = as_probability(block[:, 0], self.columns[0], log=self.log)
        self.correct_ = correct
        self.errors_ = np.full(len(self.bandwidths), np.nan)
        if len(self.bandwidths) == 1 or correct.size < 2:
            self.bandwidth_ = self.bandwidths[-1]
            return
        chosen = np.arange(correct.size)
        if correct.size > _MOST_ROWS:
            chosen = np.random.default_rng(self.seed).choice(correct.size, _MOST_ROWS, replace=False)
        x, y = self.scores_[chosen], correct[chosen]
        self.errors_ = np.array(
            [np.mean((_smoothed(x, x, y, width, leave_out=True) - y) ** 2) for width in self.bandwidths]
        )
        widest = np.flatnonzero(self.errors_ <= self.errors_.min() + 1e-12)[-1]
        self.bandwidth_ = self.bandwidths[int(widest)]

    def _predict(self, block: Floats) -> Floats:
        if not hasattr(self, "bandwidth_"):
            raise unfitted(self)
        at = as_probability(block[:, 0], self.columns[0], log=self.log)
        return _smoothed(at, self.scores_, self.correct_, self.bandwidth_)


def _smoothed(at: Floats, x: Floats, y: Floats, width: float, *, leave_out: bool = False) -> Floats:
    """Weighted means of y at each point; with `leave_out`, `at` is x and each point is left out of its own mean."""
    found = np.empty(at.size)
    step = max(1, _BLOCK // x.size)
    for start in range(0, at.size, step):
        some = slice(start, min(start + step, at.size))
        exponents = -0.5 * ((at[some, None] - x[None, :]) / width) ** 2
        if leave_out:
            exponents[np.arange(some.stop - start), np.arange(start, some.stop)] = -np.inf
        weights = np.exp(exponents - exponents.max(axis=1, keepdims=True))
        found[some] = weights @ y / weights.sum(axis=1)
    return found
