"""Behavioral Alignment Score (BAS, arXiv 2604.03216): the worth of acting on the confidence, over all risk levels."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import ConfigurationError
from ..inputs import Floats, check_scored
from .bootstrap import Statistic
from .means import mean_statistic

CLIP = 1e-4
"""ε: confidences are kept this far from 0 and 1. It sets what a certain and wrong row costs (1 − ε + ln ε = −8.21 for
the uniform weight) and so rules the score of an overconfident model: always say it with the score."""

RiskWeight = Literal["uniform", "linear", "quadratic"]
"""w(t) over risk levels t: 1, 2t, 3t²; the later two weigh high stakes more. Each integrates to 1."""


def bas(confidence: ArrayLike, correct: ArrayLike, *, weight: RiskWeight = "uniform", clip: float = CLIP) -> float:
    """Mean over rows of ∫₀ˢ w(t) u(t) dt, with u = 1 for a right row and −t/(1−t) for a wrong one: at every risk
    level t below the confidence s the row is answered. In (−∞, 1]; 0 is never answering; higher is better.

    Raises:
        BadInput: not probabilities, not labels, lengths differ, or no rows.
        ConfigurationError: no such weight, or clip outside (0, ½).
    """
    numbers, labels = check_scored(confidence, correct, probabilities=True)
    return float(bas_scores(numbers, labels, weight=weight, clip=clip).mean())


def bas_scores(confidence: Floats, labels: Floats, *, weight: RiskWeight = "uniform", clip: float = CLIP) -> Floats:
    """Score of every row, shape (n,)."""
    if not 0.0 < clip < 0.5:
        raise ConfigurationError(f"clip={clip} must lie strictly between 0 and 1/2")
    s = np.clip(confidence, clip, 1.0 - clip)
    log_rest = np.log1p(-s)
    if weight == "uniform":
        right, wrong = s, s + log_rest
    elif weight == "linear":
        right, wrong = s**2, s**2 + 2.0 * s + 2.0 * log_rest
    elif weight == "quadratic":
        right, wrong = s**3, s**3 + 1.5 * s**2 + 3.0 * s + 3.0 * log_rest
    else:
        raise ConfigurationError(f"weight={weight!r} is not one of uniform, linear, quadratic")
    return np.where(labels == 1.0, right, wrong)


def bas_statistic(
    confidence: Floats, labels: Floats, *, weight: RiskWeight = "uniform", clip: float = CLIP
) -> Statistic:
    """BAS of resamples."""
    return mean_statistic(bas_scores(confidence, labels, weight=weight, clip=clip))


def worst_bas(weight: RiskWeight, clip: float = CLIP) -> float:
    """The score of a row that is certain and wrong: the lower end of the range at this clip."""
    return float(bas_scores(np.ones(1), np.zeros(1), weight=weight, clip=clip)[0])
