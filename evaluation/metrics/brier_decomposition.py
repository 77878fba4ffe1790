"""The Brier score in parts (Murphy 1973): Brier = reliability − resolution + uncertainty, without bins (CORP)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..inputs import Floats, check_scored
from .bootstrap import Statistic
from .brier import base_rate_statistic, brier_statistic


@dataclass(frozen=True)
class BrierDecomposition:
    """Parts that add up: reliability − resolution + uncertainty is the Brier score, exactly.

    Attributes:
        reliability: what recalibration would gain (miscalibration), ≥ 0, lower is better.
        resolution: how much the recalibrated confidences beat the base rate (discrimination), ≥ 0, higher is better.
        uncertainty: ȳ(1 − ȳ), of the rows and not of the score; at most ¼.
    """

    reliability: float
    resolution: float
    uncertainty: float


def brier_decomposition(confidence: ArrayLike, correct: ArrayLike) -> BrierDecomposition:
    """CORP: the recalibrated confidences are the isotonic regression of the labels on the confidences (Dimitriadis,
    Gneiting & Jordan 2021, PNAS 118(8); arXiv 2008.03033), so there are no bins to choose and the parts add up.

    Isotonic regression fits the noise too: on finitely many rows reliability is above 0 for a calibrated forecaster
    (and resolution as much too high). For an error that is 0 on average when calibrated see `debiased_squared_ece`.

    Raises:
        BadInput: not probabilities, not labels, lengths differ, or no rows.
    """
    numbers, labels = check_scored(confidence, correct, probabilities=True)
    once = np.ones((1, labels.size))
    return BrierDecomposition(
        reliability=float(brier_reliability_statistic(numbers, labels)(once)[0]),
        resolution=float(brier_resolution_statistic(numbers, labels)(once)[0]),
        uncertainty=float(brier_uncertainty_statistic(numbers, labels)(once)[0]),
    )


def brier_reliability_statistic(confidence: Floats, labels: Floats) -> Statistic:
    """Reliability of resamples, each recalibrated anew: Brier − uncertainty + resolution, and never below 0."""
    score = brier_statistic(confidence, labels)
    uncertainty = base_rate_statistic(labels, None)
    resolution = brier_resolution_statistic(confidence, labels)

    def statistic(weights: Floats) -> Floats:
        return np.maximum(score(weights) - uncertainty(weights) + resolution(weights), 0.0)

    return statistic


def brier_resolution_statistic(confidence: Floats, labels: Floats) -> Statistic:
    """Resolution of resamples, each recalibrated anew: mean squared recalibrated confidence minus squared base rate
    (a fit of means has Σ fit·y = Σ fit²)."""
    order = np.argsort(confidence, kind="stable")
    ordered, right = confidence[order], labels[order]
    blocks = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))

    def statistic(weights: Floats) -> Floats:
        drawn = weights[:, order]
        rows = np.add.reduceat(drawn, blocks, axis=1)
        rights = np.add.reduceat(drawn * right, blocks, axis=1)
        squares = np.array([_recalibrated_square(*each) for each in zip(rows, rights, strict=True)])
        total = rows.sum(axis=1)
        return np.maximum(squares / total - (rights.sum(axis=1) / total) ** 2, 0.0)

    return statistic


def brier_uncertainty_statistic(confidence: Floats, labels: Floats) -> Statistic:
    """Uncertainty of resamples."""
    return base_rate_statistic(labels, None)


def _recalibrated_square(rows: Floats, rights: Floats) -> float:
    """Σ rows · fit² of one resample."""
    from scipy.optimize import isotonic_regression

    drawn = rows > 0
    counts = rows[drawn]
    fit = isotonic_regression(rights[drawn] / counts, weights=counts).x
    return float(counts @ fit**2)
