"""What every calibrator is: fit on scores and grades, predict probabilities, survive JSON."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import BadInput

Floats = NDArray[np.float64]


class Calibrator(ABC):
    """A monotone map from a score in log-odds to a probability.

    Attributes:
        name: as stored in artefacts.
        complexity: rank for "the simplest within one standard error"; small is simple.
    """

    name: ClassVar[str]
    complexity: ClassVar[int]

    @abstractmethod
    def fit(self, scores: ArrayLike, correct: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Fit on scores (n,), grades (n,) of 0 and 1, and weights (n,) >= 0.

        Raises:
            BadInput: lengths differ, or a value is not usable.
        """

    @abstractmethod
    def predict(self, scores: ArrayLike) -> Floats:
        """Probabilities (n,) of being right, non-decreasing in the score."""

    def interval(self, scores: ArrayLike) -> tuple[Floats, Floats] | None:
        """Lower and upper probabilities (n,), of calibrators that give them."""
        return None

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The fitted state as JSON values, `name` included."""

    @classmethod
    @abstractmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Back from `to_dict`; raises BadInput where a value is missing or not finite."""


def sigmoid(log_odds: ArrayLike) -> Floats:
    """1 / (1 + exp(-x)) without overflow."""
    x = np.asarray(log_odds, dtype=np.float64)
    small = np.exp(-np.abs(x))
    return np.where(x >= 0.0, 1.0 / (1.0 + small), small / (1.0 + small))


def logit(probability: ArrayLike, edge: float = 1e-9) -> Floats:
    """ln(p / (1 - p)) with p kept `edge` away from 0 and 1."""
    p = np.clip(np.asarray(probability, dtype=np.float64), edge, 1.0 - edge)
    return np.log(p) - np.log1p(-p)


def checked_scores(scores: ArrayLike) -> Floats:
    """Scores as (n,) float64, or BadInput."""
    array = np.asarray(scores, dtype=np.float64)
    if array.ndim != 1:
        raise BadInput(f"scores have shape {array.shape}; (n,) is needed")
    if not np.isfinite(array).all():
        raise BadInput(f"score {int(np.flatnonzero(~np.isfinite(array))[0])} is not finite; leave such rows out")
    return array


def checked_rows(scores: ArrayLike, correct: ArrayLike, weights: ArrayLike | None) -> tuple[Floats, Floats, Floats]:
    """Scores, grades and weights (scaled to mean 1), each (n,) float64, or BadInput."""
    x = checked_scores(scores)
    y = checked_grades(correct, x.size)
    return x, y, checked_weights(weights, x.size)


def checked_grades(correct: ArrayLike, count: int) -> Floats:
    """Grades as (n,) of 0.0 and 1.0, or BadInput."""
    y = np.asarray(correct, dtype=np.float64)
    if y.shape != (count,):
        raise BadInput(f"{count} rows need ({count},) grades; got shape {y.shape}")
    if count == 0:
        raise BadInput("there are no graded rows")
    bad = ~np.isin(y, (0.0, 1.0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise BadInput(f"grade {y[row]} in row {row} is neither right (1) nor wrong (0); leave ungraded rows out")
    return y


def checked_weights(weights: ArrayLike | None, count: int) -> Floats:
    """Weights as (n,) with mean 1, or BadInput."""
    if weights is None:
        return np.ones(count)
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (count,):
        raise BadInput(f"{count} rows need ({count},) weights; got shape {w.shape}")
    if not np.isfinite(w).all() or (w < 0.0).any() or w.sum() <= 0.0:
        raise BadInput("weights must be finite, not negative, and not all zero")
    return w * (count / w.sum())


def number(data: Mapping[str, Any], key: str) -> float:
    """A finite number out of a stored calibrator, or BadInput."""
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise BadInput(f"stored calibrator {data.get('name')!r}: {key}={value!r} is not a finite number")
    return float(value)


def slope(data: Mapping[str, Any], key: str) -> float:
    """A finite number >= 0: a negative one would turn the order round."""
    value = number(data, key)
    if value < 0.0:
        raise BadInput(f"stored calibrator {data.get('name')!r}: {key}={value} must not be negative")
    return value
