"""Dirichlet calibration (Kull et al., arXiv 1910.12656) of two classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from .base import Calibrator, Floats, checked_rows, checked_scores, number, sigmoid, slope
from .beta import log_parts
from .likelihood import fit_logistic

_MOST = 50.0
_PRECISION = 1.0


class Dirichlet(Calibrator):
    """logit p = a ln q - b ln(1 - q) + c, q = sigmoid(score), drawn towards q itself (a = b = 1, c = 0).

    With two classes the paper's map is that of beta calibration, and its off-diagonal penalty (ODIR) reaches the
    intercept only: what is pushed out of the off-diagonal weights goes to the free diagonal. So the paper's other
    penalty is taken, the L2 one on the distance to the identity, of strength 1 in units of one row. Deviation: a and b
    are not negative, so that the order of scores stays.
    """

    name: ClassVar[str] = "dirichlet"
    complexity: ClassVar[int] = 4

    def __init__(self) -> None:
        self.a_ = 1.0
        self.b_ = 1.0
        self.c_ = 0.0

    def fit(self, scores: ArrayLike, correct: ArrayLike, weights: ArrayLike | None = None) -> Self:
        x, y, w = checked_rows(scores, correct, weights)
        identity = np.array([1.0, 1.0, 0.0])
        theta = fit_logistic(
            np.column_stack([*log_parts(x), np.ones_like(x)]),
            y,
            w,
            start=identity,
            lower=np.array([0.0, 0.0, -_MOST]),
            upper=np.full(3, _MOST),
            prior_mean=identity,
            prior_precision=np.full(3, _PRECISION),
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
