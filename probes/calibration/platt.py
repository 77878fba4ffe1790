"""A line in log-odds (Platt 1999)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from .base import Calibrator, Floats, checked_rows, checked_scores, number, sigmoid, slope
from .likelihood import fit_logistic

_MOST = 50.0


class Platt(Calibrator):
    """p = sigmoid(slope * score + intercept), by maximum likelihood on Platt's smoothed targets.

    Targets are (N+ + 1)/(N+ + 2) for right and 1/(N- + 2) for wrong rows, N weighted. Deviation from the paper: the
    slope is never negative, so that a head that learned nothing cannot turn the order of its scores round.
    """

    name: ClassVar[str] = "platt"
    complexity: ClassVar[int] = 2

    def __init__(self) -> None:
        self.slope_ = 1.0
        self.intercept_ = 0.0

    def fit(self, scores: ArrayLike, correct: ArrayLike, weights: ArrayLike | None = None) -> Self:
        x, y, w = checked_rows(scores, correct, weights)
        # Centre and scale first: the optimiser wants columns of order one, the scores may have any scale.
        centre, spread = float(x.mean()), float(x.std()) or 1.0
        features = np.column_stack([(x - centre) / spread, np.ones_like(x)])
        theta = fit_logistic(
            features,
            smoothed_targets(y, w),
            w,
            start=np.array([1.0, 0.0]),
            lower=np.array([0.0, -_MOST]),
            upper=np.array([_MOST, _MOST]),
        )
        self.slope_ = float(theta[0] / spread)
        self.intercept_ = float(theta[1] - theta[0] * centre / spread)
        return self

    def predict(self, scores: ArrayLike) -> Floats:
        return sigmoid(self.slope_ * checked_scores(scores) + self.intercept_)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "slope": self.slope_, "intercept": self.intercept_}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        calibrator = cls()
        calibrator.slope_ = slope(data, "slope")
        calibrator.intercept_ = number(data, "intercept")
        return calibrator


def smoothed_targets(correct: Floats, weights: Floats) -> Floats:
    """Platt's targets: never quite 0 or 1, so that separable rows do not send the slope to infinity."""
    right = float(weights @ correct)
    wrong = float(weights @ (1.0 - correct))
    return np.where(correct == 1.0, (right + 1.0) / (right + 2.0), 1.0 / (wrong + 2.0))
