"""Log loss: mean negative log-likelihood of the outcomes, in nats; lower is better."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..inputs import Floats, check_scored
from .bootstrap import Statistic
from .means import mean_statistic

CLIP = float(np.finfo(np.float64).eps)
"""Confidences are kept this far from 0 and 1, as in scikit-learn. It sets what a certain and wrong row costs: 36."""


def log_losses(confidence: Floats, labels: Floats, clip: float = CLIP) -> Floats:
    """Loss of every row, shape (n,)."""
    kept = np.clip(confidence, clip, 1.0 - clip)
    return -np.where(labels == 1.0, np.log(kept), np.log1p(-kept))


def log_loss(confidence: ArrayLike, correct: ArrayLike, *, clip: float = CLIP) -> float:
    """Log loss of probabilities, shape (n,), against labels 0 or 1.

    Raises:
        BadInput: not probabilities, not labels, lengths differ, or no rows.
    """
    return float(log_losses(*check_scored(confidence, correct, probabilities=True), clip).mean())


def log_loss_statistic(confidence: Floats, labels: Floats) -> Statistic:
    """Log loss of resamples."""
    return mean_statistic(log_losses(confidence, labels))
