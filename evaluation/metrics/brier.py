"""Brier score: mean squared distance between confidence and outcome; lower is better."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..estimate import Estimate
from ..inputs import Floats, check_probabilities, check_scored
from .bootstrap import Statistic, estimate
from .means import mean_statistic


def brier(confidence: ArrayLike, correct: ArrayLike) -> float:
    """Brier score of probabilities, shape (n,), against labels 0 or 1.

    Raises:
        BadInput: not probabilities, not labels, lengths differ, or no rows.
    """
    numbers, labels = check_scored(confidence, correct, probabilities=True)
    return float(np.mean((numbers - labels) ** 2))


def brier_statistic(confidence: Floats, labels: Floats) -> Statistic:
    """Brier score of resamples."""
    return mean_statistic((confidence - labels) ** 2)


def base_rate_statistic(labels: Floats, base_rate: float | None) -> Statistic:
    """Brier score of the constant forecast: a rate fitted elsewhere, or each resample's own (the best constant)."""
    if base_rate is not None:
        return mean_statistic((base_rate - labels) ** 2)

    def statistic(weights: Floats) -> Floats:
        rate = weights @ labels / weights.sum(axis=1)
        return rate * (1.0 - rate)

    return statistic


def check_base_rate(base_rate: float | None) -> float | None:
    """The rate, if it is None or in [0, 1].

    Raises:
        BadInput: it is neither.
    """
    return None if base_rate is None else float(check_probabilities("base_rate", [base_rate])[0])


def brier_minus_base_rate(
    confidence: ArrayLike,
    correct: ArrayLike,
    *,
    base_rate: float | None = None,
    groups: ArrayLike | None = None,
    seed: int = 0,
    resamples: int = 1000,
) -> Estimate:
    """Brier score minus that of a constant forecast on the same rows; below 0 is better than knowing nothing.

    Args:
        base_rate: the constant, fitted elsewhere (say, the share of right rows in the fitting data). None: the share
            of right rows here, which is the hardest constant to beat because it has seen the answers.

    Raises:
        BadInput: not probabilities, not labels, lengths differ, or no rows.
    """
    numbers, labels = check_scored(confidence, correct, probabilities=True)
    ours, constant = brier_statistic(numbers, labels), base_rate_statistic(labels, check_base_rate(base_rate))
    return estimate(
        "brier_minus_base_rate",
        lambda weights: ours(weights) - constant(weights),
        labels.size,
        undefined="no rows",
        groups=groups,
        seed=seed,
        resamples=resamples,
        bounds=(-1.0, 1.0),
    )
