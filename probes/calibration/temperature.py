"""One number that softens or sharpens (arXiv 1706.04599)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import BadInput
from .base import Calibrator, Floats, checked_rows, checked_scores, number, sigmoid
from .likelihood import fit_logistic

_LIMIT = 20.0


class Temperature(Calibrator):
    """p = sigmoid(score / T), T in [1/20, 20] by maximum likelihood (convex in 1/T)."""

    name: ClassVar[str] = "temperature"
    complexity: ClassVar[int] = 1

    def __init__(self) -> None:
        self.temperature_ = 1.0

    def fit(self, scores: ArrayLike, correct: ArrayLike, weights: ArrayLike | None = None) -> Self:
        x, y, w = checked_rows(scores, correct, weights)
        one = np.ones(1)
        inverse = fit_logistic(x[:, None], y, w, start=one, lower=one / _LIMIT, upper=one * _LIMIT)
        self.temperature_ = float(1.0 / inverse[0])
        return self

    def predict(self, scores: ArrayLike) -> Floats:
        return sigmoid(checked_scores(scores) / self.temperature_)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "temperature": self.temperature_}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        calibrator = cls()
        calibrator.temperature_ = number(data, "temperature")
        if calibrator.temperature_ <= 0.0:
            raise BadInput(f"stored temperature {calibrator.temperature_} must be above 0")
        return calibrator
