"""Excess AURC: how much of the area under the risk–coverage curve is the score's own fault."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..inputs import Floats, check_scored
from .bootstrap import Statistic
from .risk_coverage import aurc_statistic


def excess_aurc(confidence: ArrayLike, correct: ArrayLike) -> float:
    """AURC minus that of the best order with the same accuracy (E-AURC, arXiv 1805.08206); 0 is best.

    The best order has all right rows first, none tied: with r of n right its AURC is Σ_{k>r} (k − r)/k / n. As in
    `aurc`, rows of equal confidence are answered together, so ties cost: a score that says only 1 for right and 0 for
    wrong is not at 0.

    Raises:
        BadInput: not finite, not labels, lengths differ, or no rows.
    """
    scores, labels = check_scored(confidence, correct, probabilities=False)
    # Rounding must not make the best order better than itself.
    return max(0.0, float(excess_aurc_statistic(scores, labels)(np.ones((1, labels.size)))[0]))


def excess_aurc_statistic(scores: Floats, labels: Floats) -> Statistic:
    """Excess AURC of resamples, each against the best order of its own rows."""
    area = aurc_statistic(scores, labels)

    def statistic(weights: Floats) -> Floats:
        return area(weights) - best_aurc(weights @ labels, weights.sum(axis=1))

    return statistic


def best_aurc(right: Floats, rows: Floats) -> Floats:
    """AURC of the best order of `rows` rows of which `right` are right: 1 − r/n − r/n (H_n − H_r), H harmonic."""
    from scipy.special import digamma

    share = right / rows
    return 1.0 - share - share * (digamma(rows + 1.0) - digamma(right + 1.0))
