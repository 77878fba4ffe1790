"""Venn–Abers prediction (Vovk and Petej, UAI 2014; arXiv 1211.0025): two probabilities, one of which is calibrated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import BadInput
from .base import Calibrator, Floats, checked_rows, checked_scores
from .steps import bin_sums, equal_mass_edges, rising, rising_edges, rising_values

_CELLS = 200


class VennAbers(Calibrator):
    """Isotonic regression twice, with the call at hand added to the rows as wrong (p0) and as right (p1).

    The probability is p1 / (1 - p0 + p1), the one that loses least in log loss (Vovk, Petej, Fedorova,
    arXiv 1511.00213); [p0, p1] is the interval, wide where rows are few. It needs no assumption but that rows are
    exchangeable.

    Where there are more than 200 distinct scores, rows are first gathered in 200 cells of equal mass [deviation], so
    that both curves are worked out once, when it is fitted, and stored: a call then costs one look-up.
    """

    name: ClassVar[str] = "venn_abers"
    complexity: ClassVar[int] = 9

    def __init__(self, cells: int = _CELLS) -> None:
        self.cells = cells
        self.edges_: Floats = np.zeros(0)
        self.low_: Floats = np.zeros(1)
        self.high_: Floats = np.ones(1)

    def fit(self, scores: ArrayLike, correct: ArrayLike, weights: ArrayLike | None = None) -> Self:
        x, y, w = checked_rows(scores, correct, weights)
        present = w > 0.0
        x, y, w = x[present], y[present], w[present]
        distinct = np.unique(x)
        if distinct.size > self.cells:
            self.edges_ = equal_mass_edges(x, w, self.cells)
        else:
            # A cell for each score: a new one between two goes with the nearer.
            self.edges_ = (distinct[1:] + distinct[:-1]) / 2.0
        mass, right = bin_sums(x, self.edges_, w), bin_sums(x, self.edges_, w * y)
        ends = [[_with(mass, right, cell, label) for cell in range(mass.size)] for label in (0.0, 1.0)]
        self.low_, self.high_ = (np.maximum.accumulate(np.array(curve)) for curve in ends)
        return self

    def predict(self, scores: ArrayLike) -> Floats:
        low, high = self.interval(scores)
        return high / (1.0 - low + high)

    def interval(self, scores: ArrayLike) -> tuple[Floats, Floats]:
        cell = np.searchsorted(self.edges_, checked_scores(scores), side="right")
        return self.low_[cell], self.high_[cell]

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "edges": self.edges_.tolist(),
            "low": self.low_.tolist(),
            "high": self.high_.tolist(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        calibrator = cls()
        calibrator.edges_ = rising_edges(data)
        calibrator.low_ = rising_values(data, "low", calibrator.edges_.size + 1)
        calibrator.high_ = rising_values(data, "high", calibrator.edges_.size + 1)
        if (calibrator.low_ > calibrator.high_).any():
            raise BadInput("stored Venn–Abers calibrator: low must not lie above high")
        return calibrator


def _with(mass: Floats, right: Floats, cell: int, label: float) -> float:
    """What isotonic regression says of one more row of weight 1 in this cell."""
    more, truth = mass.copy(), right.copy()
    more[cell] += 1.0
    truth[cell] += label
    # Scores that differ by less than a rounding error can leave a cell empty: it weighs nothing.
    share = np.divide(truth, more, out=np.full_like(more, 0.5), where=more > 0.0)
    return float(np.clip(rising(share, more)[cell], 0.0, 1.0))
