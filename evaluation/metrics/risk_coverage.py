"""Selective prediction: how often the answered rows are wrong, as fewer and fewer are answered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import ConfigurationError
from ..inputs import Floats, check_scored
from .bootstrap import Statistic

# Coverages are counts over n; rounding must not cost the row that reaches the target exactly.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class RiskCoverage:
    """The curve, strictest threshold first; one point a distinct confidence, for ties cannot be told apart.

    Attributes:
        threshold: rows with at least this confidence are answered, shape (k,), descending.
        coverage: share of rows answered, shape (k,); the last is 1.
        risk: share of the answered rows that are wrong, shape (k,).
    """

    threshold: Floats
    coverage: Floats
    risk: Floats


def risk_coverage_curve(confidence: ArrayLike, correct: ArrayLike) -> RiskCoverage:
    """The risk–coverage curve of scores (any scale, higher is surer) for labels 0 or 1.

    Raises:
        BadInput: not finite, not labels, lengths differ, or no rows.
    """
    scores, labels = check_scored(confidence, correct, probabilities=False)
    curves = _Curves(scores, labels)
    coverage, risk, _ = curves.of(np.ones((1, labels.size)))
    return RiskCoverage(curves.threshold, coverage[0], risk[0])


def aurc(confidence: ArrayLike, correct: ArrayLike) -> float:
    """Area under the risk–coverage curve (arXiv 1805.08206): mean over rows of the risk at the row's own threshold.

    Without ties this is Geifman's mean of the risks among the k surest rows, k = 1 … n. Lower is better; a constant
    score has the overall error rate.

    Raises:
        BadInput: as `risk_coverage_curve`.
    """
    scores, labels = check_scored(confidence, correct, probabilities=False)
    return float(aurc_statistic(scores, labels)(np.ones((1, labels.size)))[0])


def answered_at_coverage(confidence: ArrayLike, coverage: float) -> NDArray[np.bool_]:
    """Which rows are answered at the strictest threshold that answers at least this share, shape (n,).

    Raises:
        ConfigurationError: coverage outside (0, 1].
        BadInput: confidence not finite or empty.
    """
    if not 0.0 < coverage <= 1.0:
        raise ConfigurationError(f"coverage={coverage} must lie in (0, 1]")
    scores, _ = check_scored(confidence, np.zeros(np.size(np.asarray(confidence))), probabilities=False)
    needed = int(np.ceil(coverage * scores.size - _ROUNDING * scores.size))
    return scores >= np.sort(scores)[::-1][max(needed, 1) - 1]


def selective_accuracy(confidence: ArrayLike, correct: ArrayLike, coverage: float) -> float:
    """Accuracy among the surest rows, at the strictest threshold that answers at least `coverage` of all rows.

    Raises:
        ConfigurationError: coverage outside (0, 1].
        BadInput: as `risk_coverage_curve`.
    """
    scores, labels = check_scored(confidence, correct, probabilities=False)
    return float(labels[answered_at_coverage(scores, coverage)].mean())


def coverage_at_risk(confidence: ArrayLike, correct: ArrayLike, risk: float) -> float:
    """The largest share of rows that some threshold answers at a risk of at most `risk`; 0 where none does.

    Describes these rows; for a promise about new ones use a threshold with a guarantee.

    Raises:
        ConfigurationError: risk outside [0, 1].
        BadInput: as `risk_coverage_curve`.
    """
    scores, labels = check_scored(confidence, correct, probabilities=False)
    return float(coverage_at_risk_statistic(scores, labels, risk)(np.ones((1, labels.size)))[0])


def aurc_statistic(scores: Floats, labels: Floats) -> Statistic:
    """AURC of resamples."""
    curves = _Curves(scores, labels)

    def statistic(weights: Floats) -> Floats:
        _, risk, rows = curves.of(weights)
        return (rows * risk).sum(axis=1) / rows.sum(axis=1)

    return statistic


def selective_accuracy_statistic(scores: Floats, labels: Floats, coverage: float) -> Statistic:
    """Selective accuracy of resamples, each at its own threshold."""
    if not 0.0 < coverage <= 1.0:
        raise ConfigurationError(f"coverage={coverage} must lie in (0, 1]")
    curves = _Curves(scores, labels)

    def statistic(weights: Floats) -> Floats:
        answered, risk, _ = curves.of(weights)
        first = (answered >= coverage - _ROUNDING).argmax(axis=1)
        return 1.0 - risk[np.arange(len(weights)), first]

    return statistic


def coverage_at_risk_statistic(scores: Floats, labels: Floats, risk: float) -> Statistic:
    """Coverage at risk of resamples."""
    if not 0.0 <= risk <= 1.0:
        raise ConfigurationError(f"risk={risk} must lie in [0, 1]")
    curves = _Curves(scores, labels)

    def statistic(weights: Floats) -> Floats:
        coverage, observed, _ = curves.of(weights)
        return np.where(observed <= risk + _ROUNDING, coverage, 0.0).max(axis=1)

    return statistic


class _Curves:
    """The rows in order of falling score, in blocks of equal score."""

    def __init__(self, scores: Floats, labels: Floats) -> None:
        self._order = np.argsort(-scores, kind="stable")
        ordered = scores[self._order]
        self._blocks = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        self._wrong = 1.0 - labels[self._order]
        self.threshold = ordered[self._blocks]

    def of(self, weights: Floats) -> tuple[Floats, Floats, Floats]:
        """Coverage, risk and rows of each block, shape (resamples, k); risk 0 before the first row drawn."""
        drawn = weights[:, self._order]
        rows = np.add.reduceat(drawn, self._blocks, axis=1)
        answered = np.cumsum(rows, axis=1)
        wrong = np.cumsum(np.add.reduceat(drawn * self._wrong, self._blocks, axis=1), axis=1)
        risk = np.divide(wrong, answered, out=np.zeros_like(wrong), where=answered > 0)
        return answered / answered[:, -1:], risk, rows
