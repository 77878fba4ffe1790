"""Beta calibration (Kull, Silva Filho, Flach; AISTATS 2017): a different bend at each end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from .base import Calibrator, Floats, checked_rows, checked_scores, number, sigmoid, slope
from .likelihood import fit_logistic
from .platt import smoothed_targets

_MOST = 50.0


class Beta(Calibrator):
    """logit p = a ln q - b ln(1 - q) + c with q = sigmoid(score), a and b not negative.

    Deviation from the paper: fitted on Platt's smoothed targets, so that separable rows have a finite answer.
    """

    name: ClassVar[str] = "beta"
    complexity: ClassVar[int] = 3

    def __init__(self) -> None:
        self.a_ = 1.0
        self.b_ = 1.0
        self.c_ = 0.0

    def fit(self, scores: ArrayLike, correct: ArrayLike, weights: ArrayLike | None = None) -> Self:
        x, y, w = checked_rows(scores, correct, weights)
        theta = fit_logistic(
            np.column_stack([*log_parts(x), np.ones_like(x)]),
            smoothed_targets(y, w),
            w,
            start=np.array([1.0, 1.0, 0.0]),
            lower=np.array([0.0, 0.0, -_MOST]),
            upper=np.array([_MOST, _MOST, _MOST]),
        )
        self.a_, self.b_, self.c_ = (float(value) for value in theta)
        return self

    def predict(self, scores: ArrayLike) -> Floats:
        right, wrong = log_parts(checked_scores(scores))
        return sigmoid(self.a_ * right + self.b_ * wrong + self.c_)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "a": self.a_, "b": self.b_, "c": self.c_}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        calibrator = cls()
        calibrator.a_, calibrator.b_ = slope(data, "a"), slope(data, "b")
        calibrator.c_ = number(data, "c")
        return calibrator


def log_parts(scores: Floats) -> tuple[Floats, Floats]:
    """ln q and -ln(1 - q) of q = sigmoid(score), exact far out; both rise with the score."""
    return -np.logaddexp(0.0, -scores), np.logaddexp(0.0, scores)
