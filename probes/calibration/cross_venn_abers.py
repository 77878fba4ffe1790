"""Cross Venn–Abers prediction (Vovk, Petej, Fedorova; NIPS 2015, arXiv 1511.00213): several, put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import BadInput
from .base import Calibrator, Floats, checked_rows, checked_scores
from .steps import rising_edges, rising_values
from .venn_abers import VennAbers

_FOLDS, _CELLS = 5, 80


class CrossVennAbers(Calibrator):
    """Five inductive Venn–Abers predictors, each on a fifth of the rows, put together for log loss.

    With geometric means G over folds the probability is G(p1) / (G(1 - p0) + G(p1)); the interval goes from the mean p0
    to the mean p1, and holds the probability. It is smoother than one predictor on all rows, and its interval wider,
    as each fifth knows less.

    Deviations from the paper: there, each fifth is scored by a model fitted on the other four; here scores come in
    fitted out of fold already (`fit_head`). Fifths are dealt out along scores and, within a score, grades: each holds
    about the same share of both, whatever the order of the rows, and nothing is drawn.
    """

    name: ClassVar[str] = "cross_venn_abers"
    complexity: ClassVar[int] = 10

    def __init__(self) -> None:
        self.edges_: Floats = np.zeros(0)
        self.low_: Floats = np.zeros(1)
        self.values_: Floats = np.full(1, 0.5)
        self.high_: Floats = np.ones(1)

    def fit(self, scores: ArrayLike, correct: ArrayLike, weights: ArrayLike | None = None) -> Self:
        x, y, w = checked_rows(scores, correct, weights)
        present = w > 0.0
        x, y, w = x[present], y[present], w[present]
        fold = np.empty(x.size, dtype=np.int64)
        fold[np.lexsort((w, y, x))] = np.arange(x.size) % _FOLDS
        parts = [VennAbers(_CELLS).fit(x[fold == k], y[fold == k], w[fold == k]) for k in np.unique(fold)]
        self.edges_ = np.unique(np.concatenate([part.edges_ for part in parts]))
        # One score from each step of the curves: they lie still between edges, and a score at an edge is above it.
        steps = np.append(np.nextafter(self.edges_[:1], -np.inf), self.edges_) if self.edges_.size else np.zeros(1)
        ends = np.array([part.interval(steps) for part in parts])
        low, high = ends[:, 0], ends[:, 1]
        right, wrong = _geometric_mean(high), _geometric_mean(1.0 - low)
        self.values_ = np.maximum.accumulate(right / (right + wrong))
        self.low_ = np.maximum.accumulate(np.minimum(low.mean(axis=0), self.values_))
        self.high_ = np.maximum.accumulate(np.maximum(high.mean(axis=0), self.values_))
        return self

    def predict(self, scores: ArrayLike) -> Floats:
        return self.values_[self._step(scores)]

    def interval(self, scores: ArrayLike) -> tuple[Floats, Floats]:
        step = self._step(scores)
        return self.low_[step], self.high_[step]

    def _step(self, scores: ArrayLike) -> np.ndarray:
        return np.searchsorted(self.edges_, checked_scores(scores), side="right")

    def to_dict(self) -> dict[str, Any]:
        curves = {"low": self.low_.tolist(), "values": self.values_.tolist(), "high": self.high_.tolist()}
        return {"name": self.name, "edges": self.edges_.tolist(), **curves}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        calibrator = cls()
        calibrator.edges_ = rising_edges(data)
        calibrator.low_, calibrator.values_, calibrator.high_ = (
            rising_values(data, key, calibrator.edges_.size + 1) for key in ("low", "values", "high")
        )
        if (calibrator.low_ > calibrator.values_).any() or (calibrator.values_ > calibrator.high_).any():
            raise BadInput("stored cross Venn–Abers calibrator: values must lie between low and high")
        return calibrator


def _geometric_mean(values: Floats) -> Floats:
    """(steps,) over the folds (k, steps). No p1 is 0 and no p0 is 1: the call at hand has been added."""
    return np.exp(np.log(values).mean(axis=0))
