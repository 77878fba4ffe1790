"""Does confidence rise along a conversation? Kendall's τ of confidence and turn (arXiv 2601.02179)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import NotEnoughLabels
from ..inputs import Floats, check_groups, check_same_length, check_scores
from .bootstrap import Statistic
from .clusters import cluster_weights
from .metric import Metric


def turn_trend(scores: ArrayLike, turns: ArrayLike, conversations: ArrayLike) -> float:
    """Mean over conversations of Kendall's τ-b between turn and score, in [−1, 1]; 1 is always rising.

    Where turns add information, rising is what confidence should do; control with filler turns, along which it should
    not. A conversation of constant score counts as 0 (τ-b itself is not defined there); one with fewer than two
    distinct turns is left out.

    Raises:
        BadInput: NaN or infinite values, lengths differ, a conversation is missing, or no rows.
        NotEnoughLabels: no conversation has two turns.
    """
    numbers, places = check_scores("scores", scores), check_scores("turns", turns)
    check_same_length(scores=numbers, turns=places)
    trends = _trends(numbers, places, check_groups(conversations, numbers.size))
    if np.isnan(trends).all():
        raise NotEnoughLabels("no conversation has two turns: there is no trend", have=0, need=1)
    return float(np.nanmean(trends))


def turn_trend_statistic(scores: Floats, turns: Floats, conversations: NDArray[np.intp]) -> Statistic:
    """The trend of resamples of whole conversations; NaN where none drawn has two turns."""
    trends = _trends(scores, turns, conversations)
    counted = (~np.isnan(trends)).astype(np.float64)
    of_conversations = cluster_weights(conversations, "conversation")

    def statistic(weights: Floats) -> Floats:
        drawn = of_conversations(weights)
        rows = drawn @ counted
        return np.divide(drawn @ np.nan_to_num(trends), rows, out=np.full(len(weights), np.nan), where=rows > 0)

    return statistic


def turn_trend_metric(turns: ArrayLike, conversations: ArrayLike) -> Metric:
    """The trend for `measure` and `paired_difference`; labels are not read; give conversations as groups, too."""
    places = check_scores("turns", turns)
    codes = check_groups(conversations, places.size)

    def build(scores: Floats, labels: Floats) -> Statistic:
        check_same_length(confidence=scores, turns=places, correct=labels)
        return turn_trend_statistic(scores, places, codes)

    return Metric(
        "turn_trend",
        build,
        probabilities=False,
        better="higher",
        undefined="no conversation has two turns",
        bounds=(-1.0, 1.0),
    )


def _trends(scores: Floats, turns: Floats, conversations: NDArray[np.intp]) -> Floats:
    from scipy.stats import kendalltau

    order = np.argsort(conversations, kind="stable")
    starts = np.flatnonzero(np.diff(conversations[order])) + 1
    found = np.full(int(conversations.max()) + 1, np.nan)
    for conversation, rows in enumerate(np.split(order, starts)):
        if np.unique(turns[rows]).size > 1:
            constant = scores[rows].min() == scores[rows].max()
            tau = (0.0,) if constant else kendalltau(turns[rows], scores[rows])
            found[conversation] = float(np.asarray(tau)[0])
    return found
