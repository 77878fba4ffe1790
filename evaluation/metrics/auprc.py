"""Area under the precision–recall curve: how purely right (or wrong) rows are found from one end of the scores."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import ConfigurationError, NotEnoughLabels
from ..inputs import Floats, check_scored
from .bootstrap import Statistic

Positive = Literal["right", "wrong"]


def auprc(scores: ArrayLike, correct: ArrayLike, *, positive: Positive = "right") -> float:
    """Average precision, Σ (Rₖ − Rₖ₋₁) Pₖ over distinct scores (Davis & Goadrich 2006; scikit-learn's definition, no
    interpolation), in (0, 1]. A constant score has the share of the positive class, which is what to compare with.

    Args:
        scores: any scale, higher is surer, shape (n,).
        positive: "right": right rows are sought from the surest down. "wrong": wrong rows from the least sure up.

    Raises:
        BadInput: NaN or infinite scores, not labels, lengths differ, or no rows.
        NotEnoughLabels: no row of the positive class.
        ConfigurationError: no such class.
    """
    numbers, labels = check_scored(scores, correct, probabilities=False)
    value = float(auprc_statistic(numbers, labels, positive=positive)(np.ones((1, labels.size)))[0])
    if np.isnan(value):
        raise NotEnoughLabels(f"AUPRC looks for {positive} rows; none of {labels.size} is {positive}", have=0, need=1)
    return value


def auprc_statistic(scores: Floats, labels: Floats, *, positive: Positive = "right") -> Statistic:
    """Average precision of resamples; NaN where one holds no row of the positive class."""
    if positive not in ("right", "wrong"):
        raise ConfigurationError(f"positive={positive!r} is neither 'right' nor 'wrong'")
    sought = labels if positive == "right" else 1.0 - labels
    order = np.argsort(-scores if positive == "right" else scores, kind="stable")
    ordered = scores[order]
    blocks = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    hits = sought[order]

    def statistic(weights: Floats) -> Floats:
        drawn = weights[:, order]
        found = np.add.reduceat(drawn * hits, blocks, axis=1)
        seen = np.cumsum(np.add.reduceat(drawn, blocks, axis=1), axis=1)
        total = np.cumsum(found, axis=1)
        precision = np.divide(total, seen, out=np.zeros_like(total), where=seen > 0)
        return np.divide(
            (found * precision).sum(axis=1), total[:, -1], out=np.full(len(weights), np.nan), where=total[:, -1] > 0
        )

    return statistic
