"""What calibrators of steps share: bins of equal mass, curves that rise, and how both are stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import BadInput
from .base import Calibrator, Floats, checked_scores


def equal_mass_edges(scores: Floats, weights: Floats, bins: int) -> Floats:
    """Rising edges between at most `bins` bins that hold about as much weight each; scores at an edge lie above it.

    Ties are never split, so there may be fewer bins.
    """
    order = np.argsort(scores, kind="stable")
    ordered, total = scores[order], np.cumsum(weights[order])
    cuts = np.searchsorted(total, total[-1] * np.arange(1, bins) / bins, side="left") + 1
    edges = np.unique(ordered[np.minimum(cuts, ordered.size - 1)])
    return edges[edges > ordered[0]]


def bin_sums(scores: Floats, edges: Floats, values: Floats) -> Floats:
    """Sum of the values (n,) in each of the bins."""
    bins = np.searchsorted(edges, scores, side="right")
    return np.asarray(np.bincount(bins, weights=values, minlength=edges.size + 1), dtype=np.float64)


def rising(values: Floats, weights: Floats) -> Floats:
    """The closest values that never fall, in weighted squares (pool adjacent violators, by scikit-learn)."""
    from sklearn.isotonic import isotonic_regression

    return np.asarray(isotonic_regression(values, sample_weight=np.maximum(weights, 1e-12)), dtype=np.float64)


def numbers(data: Mapping[str, Any], key: str, *, size: int | None = None) -> Floats:
    """A list of finite numbers out of a stored calibrator.

    Raises:
        BadInput: it is none, or holds another number of them.
    """
    try:
        array = np.asarray(data.get(key), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadInput(f"stored calibrator {data.get('name')!r}: {key} is not a list of numbers") from error
    if array.ndim != 1 or not np.isfinite(array).all() or (size is not None and array.size != size):
        raise BadInput(f"stored calibrator {data.get('name')!r}: {key} must be {size or 'some'} finite numbers")
    return array


def rising_edges(data: Mapping[str, Any], key: str = "edges") -> Floats:
    """Stored edges, which must rise."""
    edges = numbers(data, key)
    if (np.diff(edges) <= 0.0).any():
        raise BadInput(f"stored calibrator {data.get('name')!r}: {key} must rise")
    return edges


def rising_values(data: Mapping[str, Any], key: str, size: int) -> Floats:
    """Stored probabilities, which must not fall."""
    values = numbers(data, key, size=size)
    if values.size == 0 or (np.diff(values) < 0.0).any() or values[0] < 0.0 or values[-1] > 1.0:
        raise BadInput(f"stored calibrator {data.get('name')!r}: {key} must rise within [0, 1]")
    return values


class StepCalibrator(Calibrator):
    """The same probability for all scores of a bin.

    Attributes (after `fit`):
        edges_: rising, between the bins; a score at an edge lies above it.
        values_: one more than edges, rising within [0, 1].
    """

    def __init__(self) -> None:
        self.edges_: Floats = np.zeros(0)
        self.values_: Floats = np.full(1, 0.5)

    def predict(self, scores: ArrayLike) -> Floats:
        return self.values_[np.searchsorted(self.edges_, checked_scores(scores), side="right")]

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "edges": self.edges_.tolist(), "values": self.values_.tolist()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        calibrator = cls()
        calibrator.edges_ = rising_edges(data)
        calibrator.values_ = rising_values(data, "values", calibrator.edges_.size + 1)
        return calibrator
