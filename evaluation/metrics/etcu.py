"""Expected tool-calling utility (ETCU, MICE, arXiv 2504.20168): the mean worth of executing above a threshold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ...core.utility import Utility
from ..inputs import Floats, check_scored
from .bootstrap import Statistic
from .means import mean_statistic

THRESHOLDS = tuple(step / 1000 for step in range(1, 1000))
"""τ of the area under the curve: .001 … .999."""

# A threshold worked out from what outcomes are worth is off by rounding; a confidence that is at it is not above it.
_ROUNDING = 1e-12


def utility(confidence: ArrayLike, correct: ArrayLike, worth: Utility) -> float:
    """Mean realised worth of answering iff the confidence is above the utility's threshold.

    Raises:
        BadInput: not probabilities, not labels, lengths differ, or no rows.
    """
    numbers, labels = check_scored(confidence, correct, probabilities=True)
    return float(worths(numbers, labels, [worth]).mean())


def etcu(confidence: ArrayLike, correct: ArrayLike, threshold: float) -> float:
    """ETCU at τ: a right call earns 1, a wrong one −τ/(1−τ), a withheld one 0; executed iff confidence > τ.

    In [−τ/(1−τ), 1]; 0 is never calling; higher is better.

    Raises:
        BadInput: not probabilities, not labels, lengths differ, or no rows.
        ConfigurationError: τ outside (0, 1).
    """
    return utility(confidence, correct, Utility.from_threshold(threshold))


def etcu_auc(confidence: ArrayLike, correct: ArrayLike) -> float:
    """Mean of ETCU over τ ∈ {.001, …, .999}; about BAS with the uniform weight.

    Raises:
        BadInput: not probabilities, not labels, lengths differ, or no rows.
    """
    numbers, labels = check_scored(confidence, correct, probabilities=True)
    return float(worths(numbers, labels, family()).mean())


def family(thresholds: Sequence[float] = THRESHOLDS) -> list[Utility]:
    """The utilities of these thresholds."""
    return [Utility.from_threshold(threshold) for threshold in thresholds]


def worths(confidence: Floats, labels: Floats, utilities: Sequence[Utility]) -> Floats:
    """Realised worth of every row, averaged over the utilities, shape (n,)."""
    ordered = sorted(utilities, key=lambda each: each.threshold)
    # Answered under the first k utilities (thresholds below the confidence), withheld under the rest.
    answered = np.searchsorted([each.threshold + _ROUNDING for each in ordered], confidence, side="left")
    worth = np.zeros_like(confidence)
    for right in (True, False):
        earned = _running_sum([each.realised(True, right) for each in ordered])
        withheld = _running_sum([each.realised(False, right) for each in ordered])
        summed = earned[answered] + withheld[-1] - withheld[answered]
        worth = np.where(labels == float(right), summed / len(ordered), worth)
    return worth


def _running_sum(values: Sequence[float]) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values)])


def etcu_statistic(confidence: Floats, labels: Floats, *, thresholds: Sequence[float] = THRESHOLDS) -> Statistic:
    """ETCU of resamples, averaged over the thresholds."""
    return mean_statistic(worths(confidence, labels, family(thresholds)))


def worst_etcu(thresholds: Sequence[float] = THRESHOLDS) -> float:
    """ETCU of a row that is certain and wrong: the lower end of the range."""
    return float(worths(np.ones(1), np.zeros(1), family(thresholds))[0])
