"""Any rising curve (pool adjacent violators)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from .base import Calibrator, Floats, checked_rows, checked_scores
from .steps import rising_edges, rising_values


class Isotonic(Calibrator):
    """Isotonic regression of grades on scores, linear between the knots, constant beyond them.

    Fitted by scikit-learn, evaluated by numpy. Values are kept within [1/(n+2), 1 - 1/(n+2)]: a pure run at the end
    of n rows does not make anything certain.
    """

    name: ClassVar[str] = "isotonic"
    complexity: ClassVar[int] = 10

    def __init__(self) -> None:
        self.knots_: Floats = np.zeros(1)
        self.values_: Floats = np.full(1, 0.5)

    def fit(self, scores: ArrayLike, correct: ArrayLike, weights: ArrayLike | None = None) -> Self:
        from sklearn.isotonic import IsotonicRegression

        x, y, w = checked_rows(scores, correct, weights)
        # A weight of zero is a row that is not there; scikit-learn would still make a knot of it.
        present = w > 0.0
        model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
        model.fit(x[present], y[present], sample_weight=w[present])
        edge = 1.0 / (x.size + 2.0)
        self.knots_ = np.asarray(model.X_thresholds_, dtype=np.float64)
        self.values_ = np.clip(np.asarray(model.y_thresholds_, dtype=np.float64), edge, 1.0 - edge)
        return self

    def predict(self, scores: ArrayLike) -> Floats:
        return np.interp(checked_scores(scores), self.knots_, self.values_)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "knots": self.knots_.tolist(), "values": self.values_.tolist()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        calibrator = cls()
        calibrator.knots_ = rising_edges(data, "knots")
        calibrator.values_ = rising_values(data, "values", calibrator.knots_.size)
        return calibrator
