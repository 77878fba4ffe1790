"""Histogram binning (Zadrozny and Elkan, ICML 2001), kept rising."""

from __future__ import annotations

from typing import ClassVar, Self

from numpy.typing import ArrayLike

from .base import checked_rows
from .steps import StepCalibrator, bin_sums, equal_mass_edges, rising

_BINS, _ROWS_A_BIN = 15, 20
_PULL = 2.0


class Histogram(StepCalibrator):
    """The share of right rows in each of up to 15 bins of equal mass, at least 20 rows each.

    Deviations from the paper: a bin's share is drawn towards that of all rows by 2 pseudo-rows, so that a pure bin does
    not make anything certain; and neighbouring bins out of order are pooled, as every calibrator here rises with the
    score.
    """

    name: ClassVar[str] = "histogram"
    complexity: ClassVar[int] = 8

    def fit(self, scores: ArrayLike, correct: ArrayLike, weights: ArrayLike | None = None) -> Self:
        x, y, w = checked_rows(scores, correct, weights)
        present = w > 0.0
        x, y, w = x[present], y[present], w[present]
        self.edges_ = equal_mass_edges(x, w, max(1, min(_BINS, x.size // _ROWS_A_BIN)))
        mass, right = bin_sums(x, self.edges_, w), bin_sums(x, self.edges_, w * y)
        rate = (float(w @ y) + 0.5) / (float(w.sum()) + 1.0)
        self.values_ = rising((right + _PULL * rate) / (mass + _PULL), mass)
        return self
