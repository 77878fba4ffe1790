"""InfoECE (arXiv 2601.02179): calibration along a conversation, over how much of it has been said."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import BadInput
from ..inputs import Floats, check_groups, check_probabilities, check_same_length, check_scored, check_scores
from .binned_ece import equal_width_bins
from .bootstrap import Statistic
from .metric import Metric

BINS = 10


def normalised_positions(turns: ArrayLike, conversations: ArrayLike) -> Floats:
    """Turn over the last turn of its conversation, in (0, 1], shape (n,).

    Args:
        turns: counted from 1, shape (n,).

    Raises:
        BadInput: a turn below 1, lengths differ, or a conversation is missing.
    """
    numbers = check_scores("turns", turns)
    codes = check_groups(conversations, numbers.size)
    if numbers.min() < 1.0:
        raise BadInput(f"turns[{numbers.argmin()}] is {numbers.min():g}; turns count from 1")
    last = np.zeros(int(codes.max()) + 1)
    np.maximum.at(last, codes, numbers)
    return numbers / last[codes]


def info_ece(confidence: ArrayLike, correct: ArrayLike, positions: ArrayLike, *, bins: int = BINS) -> float:
    """Mean of |accuracy − mean confidence| over bins of normalised turn position, each bin counting the same.

    In [0, 1], 0 is best. Rows of the same bin are averaged whatever their confidence, so over- and underconfident rows
    at the same place cancel; a constant at each place's accuracy is perfect. Bins without rows are left out.

    Args:
        confidence, correct: of the answer at each turn, shape (n,).
        positions: `normalised_positions`, in [0, 1]; bins are ((b−1)/B, b/B], 0 in the first.

    Raises:
        BadInput: not probabilities, not labels, positions outside [0, 1], lengths differ, or no rows.
        ConfigurationError: bins < 1.
    """
    numbers, labels = check_scored(confidence, correct, probabilities=True)
    places = check_probabilities("positions", positions)
    check_same_length(confidence=numbers, positions=places)
    return float(info_ece_statistic(numbers, labels, places, bins=bins)(np.ones((1, labels.size)))[0])


def info_ece_statistic(confidence: Floats, labels: Floats, positions: Floats, *, bins: int = BINS) -> Statistic:
    """InfoECE of resamples; draw whole conversations (groups)."""
    member = np.eye(bins)[equal_width_bins(positions, bins)]
    gaps = member * (confidence - labels)[:, None]

    def statistic(weights: Floats) -> Floats:
        rows = weights @ member
        error = np.divide(np.abs(weights @ gaps), rows, out=np.zeros_like(rows), where=rows > 0)
        return error.sum(axis=1) / (rows > 0).sum(axis=1)

    return statistic


def info_ece_metric(positions: ArrayLike, *, bins: int = BINS) -> Metric:
    """InfoECE at these positions, for `measure` and `paired_difference`; give conversations as groups.

    Raises:
        BadInput: positions outside [0, 1].
    """
    places = check_probabilities("positions", positions)

    def build(confidence: Floats, labels: Floats) -> Statistic:
        check_same_length(confidence=confidence, positions=places)
        return info_ece_statistic(confidence, labels, places, bins=bins)

    return Metric("info_ece", build, probabilities=True, better="lower", method="centred")
