"""Scaling-binning (Kumar, Liang, Ma; arXiv 1909.10155): a curve first, then bins of what it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from .base import Calibrator, Floats, checked_rows, checked_scores
from .platt import Platt
from .steps import bin_sums, equal_mass_edges, rising_edges, rising_values

_BINS, _ROWS_A_BIN = 15, 20


class ScalingBinning(Calibrator):
    """Platt scaling, then the mean of *its* outputs in each of up to 15 bins of equal mass.

    So few distinct outputs that their calibration error can be measured, with the variance of the curve and not of the
    bins' shares. Deviation from the paper: curve and bins are fitted on the same rows, not on two halves of them.
    """

    name: ClassVar[str] = "scaling_binning"
    complexity: ClassVar[int] = 7

    def __init__(self) -> None:
        self.edges_: Floats = np.zeros(0)
        self.values_: Floats = np.full(1, 0.5)

    def fit(self, scores: ArrayLike, correct: ArrayLike, weights: ArrayLike | None = None) -> Self:
        x, y, w = checked_rows(scores, correct, weights)
        present = w > 0.0
        x, y, w = x[present], y[present], w[present]
        said = Platt().fit(x, y, w).predict(x)
        self.edges_ = equal_mass_edges(x, w, max(1, min(_BINS, x.size // _ROWS_A_BIN)))
        self.values_ = np.maximum.accumulate(bin_sums(x, self.edges_, w * said) / bin_sums(x, self.edges_, w))
        return self

    def predict(self, scores: ArrayLike) -> Floats:
        return self.values_[np.searchsorted(self.edges_, checked_scores(scores), side="right")]

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "edges": self.edges_.tolist(), "values": self.values_.tolist()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        calibrator = cls()
        calibrator.edges_ = rising_edges(data)
        calibrator.values_ = rising_values(data, "values", calibrator.edges_.size + 1)
        return calibrator
