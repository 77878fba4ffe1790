"""Take the fused log-odds at their word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike

from .base import Calibrator, Floats, checked_rows, checked_scores, sigmoid


class Identity(Calibrator):
    """p = sigmoid(score)."""

    name: ClassVar[str] = "identity"
    complexity: ClassVar[int] = 0

    def fit(self, scores: ArrayLike, correct: ArrayLike, weights: ArrayLike | None = None) -> Self:
        checked_rows(scores, correct, weights)
        return self

    def predict(self, scores: ArrayLike) -> Floats:
        return sigmoid(checked_scores(scores))

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls()
