"""Histogram regression: the share of right rows in each bin of raw confidence."""

from __future__ import annotations

import numpy as np

from ...core.errors import ConfigurationError
from .base import Baseline, Floats, unfitted
from .raw_confidence import SUM_LOGPROB, as_probability


class HistogramRegression(Baseline):
    """Equal-width bins on [0, 1] of raw confidence; the share of right rows in each (arXiv 2504.20168: 25 bins).

    A bin without a fitted row gives the share over all rows: the paper does not say [proposal].

    Args:
        column, log: as of `RawConfidence`.
        bins: at least 1.

    Attributes (after `fit`):
        shares_: (bins,); counts_: (bins,) fitted rows.
    """

    name = "histogram"

    def __init__(self, column: str = SUM_LOGPROB, *, log: bool = True, bins: int = 25) -> None:
        super().__init__((column,))
        if bins < 1:
            raise ConfigurationError(f"bins={bins} must be at least 1")
        self.log = log
        self.bins = bins

    def _fit(self, block: Floats, correct: Floats) -> None:
        places = self._places(block)
        self.counts_ = np.bincount(places, minlength=self.bins)
        right = np.bincount(places, weights=correct, minlength=self.bins)
        self.shares_ = np.where(self.counts_ > 0, right / np.maximum(self.counts_, 1), correct.mean())

    def _predict(self, block: Floats) -> Floats:
        if not hasattr(self, "shares_"):
            raise unfitted(self)
        return self.shares_[self._places(block)]

    def _places(self, block: Floats) -> np.ndarray:
        raw = as_probability(block[:, 0], self.columns[0], log=self.log)
        return np.minimum((raw * self.bins).astype(np.intp), self.bins - 1)
