"""Area under the ROC curve: the chance that a right row scores above a wrong one, ties counted half."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import NotEnoughLabels
from ..inputs import Floats, check_scored
from .bootstrap import Statistic


def auroc(scores: ArrayLike, correct: ArrayLike) -> float:
    """AUROC of finite scores (any scale, higher is surer), shape (n,), for labels 0 or 1.

    Raises:
        BadInput: NaN or infinite scores (the message names the index), lengths differ, or no rows.
        NotEnoughLabels: one class only; AUROC is not defined.
    """
    numbers, labels = check_scored(scores, correct, probabilities=False)
    if labels.min() == labels.max():
        raise NotEnoughLabels(
            f"AUROC needs right and wrong rows; all {labels.size} are {'right' if labels[0] else 'wrong'}",
            have=0,
            need=1,
        )
    return float(auroc_statistic(numbers, labels)(np.ones((1, labels.size)))[0])


def auroc_statistic(scores: Floats, labels: Floats) -> Statistic:
    """AUROC of resamples; NaN where one holds one class only."""
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    blocks = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    right = labels[order]

    def statistic(weights: Floats) -> Floats:
        sorted_weights = weights[:, order]
        rights = np.add.reduceat(sorted_weights * right, blocks, axis=1)
        wrongs = np.add.reduceat(sorted_weights * (1.0 - right), blocks, axis=1)
        below = np.cumsum(wrongs, axis=1) - wrongs / 2.0
        pairs = rights.sum(axis=1) * wrongs.sum(axis=1)
        won = (rights * below).sum(axis=1)
        return np.divide(won, pairs, out=np.full(len(weights), np.nan), where=pairs > 0)

    return statistic
