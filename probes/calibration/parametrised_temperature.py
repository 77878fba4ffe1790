"""A temperature that depends on the score (after parametrised temperature scaling, arXiv 2102.12182)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import BadInput
from .base import Calibrator, Floats, checked_rows, checked_scores, sigmoid
from .likelihood import fit_logistic
from .steps import numbers, rising_edges

_SEGMENTS = 4
_MOST = 20.0
_PRECISION = 1.0


class ParametrisedTemperature(Calibrator):
    """p = sigmoid(score / T(|score|)): how far the score is from even says how much it must be softened.

    The paper learns T by a small network on the sorted logits, which of two classes is |score|. Deviation: |score| / T
    is a rising broken line of 4 pieces, knots at its quartiles, so that the order of scores stays and few rows will do.
    Slopes are drawn towards 1, that is T = 1. Like a temperature, it leaves even scores even: it cannot move a base
    rate.
    """

    name: ClassVar[str] = "parametrised_temperature"
    complexity: ClassVar[int] = 5

    def __init__(self) -> None:
        self.knots_: Floats = np.zeros(0)
        self.slopes_: Floats = np.ones(1)

    def fit(self, scores: ArrayLike, correct: ArrayLike, weights: ArrayLike | None = None) -> Self:
        x, y, w = checked_rows(scores, correct, weights)
        size = np.abs(x[w > 0.0])
        knots = np.unique(np.quantile(size, np.arange(1, _SEGMENTS) / _SEGMENTS))
        self.knots_ = knots[knots > 0.0]
        one = np.ones(self.knots_.size + 1)
        self.slopes_ = fit_logistic(
            self._pieces(x),
            y,
            w,
            start=one,
            lower=0.0 * one,
            upper=_MOST * one,
            prior_mean=one,
            prior_precision=_PRECISION * one,
        )
        return self

    def predict(self, scores: ArrayLike) -> Floats:
        return sigmoid(self._pieces(checked_scores(scores)) @ self.slopes_)

    def _pieces(self, x: Floats) -> Floats:
        """(n, pieces): how much of |x| lies on each piece, with the sign of x."""
        starts = np.concatenate([[0.0], self.knots_])
        lengths = np.append(np.diff(starts), np.inf)
        return np.sign(x)[:, None] * np.clip(np.abs(x)[:, None] - starts, 0.0, lengths)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "knots": self.knots_.tolist(), "slopes": self.slopes_.tolist()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        calibrator = cls()
        calibrator.knots_ = rising_edges(data, "knots")
        calibrator.slopes_ = numbers(data, "slopes", size=calibrator.knots_.size + 1)
        if (calibrator.slopes_ < 0.0).any() or (calibrator.knots_ <= 0.0).any():
            raise BadInput("stored parametrised temperature: slopes must not be negative, knots lie above 0")
        return calibrator
