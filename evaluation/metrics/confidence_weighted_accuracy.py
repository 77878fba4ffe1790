"""Confidence-weighted accuracy: how much of the confidence that was given was given to right rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import NotEnoughLabels
from ..inputs import Floats, check_scored
from .bootstrap import Statistic


def confidence_weighted_accuracy(confidence: ArrayLike, correct: ArrayLike) -> float:
    """Σ c·y / Σ c, in [0, 1], higher is better. A constant confidence has the accuracy itself; read it beside that.

    It does not see the level: halving all confidences changes nothing.

    Raises:
        BadInput: not probabilities, not labels, lengths differ, or no rows.
        NotEnoughLabels: all confidences are 0.
    """
    numbers, labels = check_scored(confidence, correct, probabilities=True)
    value = float(confidence_weighted_accuracy_statistic(numbers, labels)(np.ones((1, labels.size)))[0])
    if np.isnan(value):
        raise NotEnoughLabels("all confidences are 0: there is nothing to weigh by", have=0, need=1)
    return value


def confidence_weighted_accuracy_statistic(confidence: Floats, labels: Floats) -> Statistic:
    """The accuracy of resamples; NaN where all confidences drawn are 0."""
    earned = confidence * labels

    def statistic(weights: Floats) -> Floats:
        given = weights @ confidence
        return np.divide(weights @ earned, given, out=np.full(len(weights), np.nan), where=given > 0)

    return statistic
