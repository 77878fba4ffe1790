"""The weighted mean of a row-wise loss, for the bootstrap."""

from __future__ import annotations

from ..inputs import Floats
from .bootstrap import Statistic


def mean_statistic(losses: Floats) -> Statistic:
    """Mean loss of each resample."""

    def statistic(weights: Floats) -> Floats:
        return weights @ losses / weights.sum(axis=1)

    return statistic
