"""Scaling-binning (Kumar, Liang, Ma; arXiv 1909.10155): a curve first, then bins of what it says."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from .base import checked_rows
from .platt import Platt
from .steps import StepCalibrator, bin_sums, equal_mass_edges

_BINS, _ROWS_A_BIN = 15, 20


class ScalingBinning(StepCalibrator):
    """Platt scaling, then the mean of *its* outputs in each of up to 15 bins of equal mass.

    So few distinct outputs that their calibration error can be measured, with the variance of the curve and not of the
    bins' shares. Deviation from the paper: curve and bins are fitted on the same rows, not on two halves of them.
    """

    name: ClassVar[str] = "scaling_binning"
    complexity: ClassVar[int] = 7

    def fit(self, scores: ArrayLike, correct: ArrayLike, weights: ArrayLike | None = None) -> Self:
        x, y, w = checked_rows(scores, correct, weights)
        present = w > 0.0
        x, y, w = x[present], y[present], w[present]
        said = Platt().fit(x, y, w).predict(x)
        self.edges_ = equal_mass_edges(x, w, max(1, min(_BINS, x.size // _ROWS_A_BIN)))
        self.values_ = np.maximum.accumulate(bin_sums(x, self.edges_, w * said) / bin_sums(x, self.edges_, w))
        return self
