"""Platt scaling for a handful of labels: a prior holds the line where the rows cannot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from .base import Calibrator, Floats, checked_rows, checked_scores, logit, number, sigmoid, slope
from .likelihood import fit_logistic

_SLOPE_SD = 0.5
_INTERCEPT_SD = 1.0


class PlattPrior(Calibrator):
    """p = sigmoid(slope * (score - centre) + intercept), maximum a posteriori.

    slope ~ N(1, 0.5^2) (the fused log-odds are right as they are), cut at 0; intercept ~ N(logit(base rate), 1), the
    base rate smoothed as (N+ + 1)/(N + 2); centre is the mean score. For heads with fewer than 25 rows of the rarer
    class.
    """

    name: ClassVar[str] = "platt_prior"
    complexity: ClassVar[int] = 2

    def __init__(self) -> None:
        self.slope_ = 1.0
        self.intercept_ = 0.0
        self.centre_ = 0.0

    def fit(self, scores: ArrayLike, correct: ArrayLike, weights: ArrayLike | None = None) -> Self:
        x, y, w = checked_rows(scores, correct, weights)
        self.centre_ = float(np.average(x, weights=w))
        base = float(logit((w @ y + 1.0) / (w.sum() + 2.0)))
        mean = np.array([1.0, base])
        theta = fit_logistic(
            np.column_stack([x - self.centre_, np.ones_like(x)]),
            y,
            w,
            start=mean,
            lower=np.array([0.0, -50.0]),
            upper=np.array([50.0, 50.0]),
            prior_mean=mean,
            prior_precision=np.array([_SLOPE_SD**-2, _INTERCEPT_SD**-2]),
        )
        self.slope_, self.intercept_ = float(theta[0]), float(theta[1])
        return self

    def predict(self, scores: ArrayLike) -> Floats:
        return sigmoid(self.slope_ * (checked_scores(scores) - self.centre_) + self.intercept_)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "slope": self.slope_, "intercept": self.intercept_, "centre": self.centre_}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        calibrator = cls()
        calibrator.slope_ = slope(data, "slope")
        calibrator.intercept_ = number(data, "intercept")
        calibrator.centre_ = number(data, "centre")
        return calibrator
