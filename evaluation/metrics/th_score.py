"""TH-Score (arXiv 2508.06225): how accurate the rows of extreme confidence are, and how many there are."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import ConfigurationError
from ..inputs import Floats, check_scored
from .bootstrap import Statistic

BAND = 0.1


def th_score(confidence: ArrayLike, correct: ArrayLike, *, band: float = BAND) -> float:
    """(e^(accuracy − ½) − 1) · share, both over the rows with confidence > 1 − band or < band; 0 where there are none.

    In [e^(−½) − 1, e^(½) − 1] = [−.393, .649], higher is better. It ignores the direction in the low band: a wrong row
    at .01 is as bad as one at .99, and a right row at .01 as good. Never use it alone.

    Raises:
        BadInput: not probabilities, not labels, lengths differ, or no rows.
        ConfigurationError: band outside (0, ½].
    """
    numbers, labels = check_scored(confidence, correct, probabilities=True)
    return float(th_score_statistic(numbers, labels, band=band)(np.ones((1, labels.size)))[0])


def th_score_statistic(confidence: Floats, labels: Floats, *, band: float = BAND) -> Statistic:
    """TH-Score of resamples."""
    if not 0.0 < band <= 0.5:
        raise ConfigurationError(f"band={band} must lie in (0, 1/2]")
    extreme = ((confidence > 1.0 - band) | (confidence < band)).astype(np.float64)
    right = extreme * labels

    def statistic(weights: Floats) -> Floats:
        rows = weights @ extreme
        accuracy = np.divide(weights @ right, rows, out=np.full(len(weights), 0.5), where=rows > 0)
        return np.expm1(accuracy - 0.5) * rows / weights.sum(axis=1)

    return statistic
