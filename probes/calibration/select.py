"""Which calibrator: the simplest within one standard error of the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import BadInput
from .base import Calibrator, Floats, checked_rows
from .registry import make_calibrator


@dataclass(frozen=True)
class Selection:
    """What was chosen.

    Attributes:
        calibrator: the winner, fitted on all rows.
        out_of_fold: (n,) its probabilities, each from the rows of the other folds.
        brier: cross-fitted Brier score of every candidate.
    """

    calibrator: Calibrator
    out_of_fold: Floats
    brier: Mapping[str, float]


def select_calibrator(
    scores: ArrayLike,
    correct: ArrayLike,
    groups: NDArray[np.integer],
    folds: NDArray[np.integer],
    candidates: Sequence[str],
    weights: ArrayLike | None = None,
) -> Selection:
    """Cross-fit every candidate, compare by Brier score, take the simplest within one standard error.

    The standard error is that of the paired difference to the best candidate, with rows of one group counted
    together. Equal complexity: the lower Brier score.

    Args:
        scores, correct, weights: (n,).
        groups: (n,) ids; rows that share one are not independent.
        folds: (n,) fold numbers; a group lies in one fold.
        candidates: names in `CALIBRATORS`.

    Raises:
        BadInput: no candidates, lengths differ, or a group is split over folds.
    """
    if not candidates:
        raise BadInput("there are no calibrators to choose from")
    x, y, w = checked_rows(scores, correct, weights)
    group_codes = _codes(groups, folds, x.size)
    predicted = {name: _cross_fit(name, x, y, w, folds) for name in candidates}
    losses = {name: (p - y) ** 2 for name, p in predicted.items()}
    brier = {name: float(np.average(loss, weights=w)) for name, loss in losses.items()}
    best = min(candidates, key=lambda name: brier[name])
    close = [
        name
        for name in candidates
        if brier[name] - brier[best] <= clustered_standard_error(losses[name] - losses[best], w, group_codes)
    ]
    chosen = min(close, key=lambda name: (make_calibrator(name).complexity, brier[name]))
    return Selection(make_calibrator(chosen).fit(x, y, w), predicted[chosen], brier)


def clustered_standard_error(values: Floats, weights: Floats, groups: NDArray[np.integer]) -> float:
    """Standard error of the weighted mean of `values` (n,) where rows of one group go together.

    0 where there is only one group: nothing can be said, so nothing is excused.
    """
    mean = float(np.average(values, weights=weights))
    sums = np.bincount(groups, weights=weights * (values - mean))
    count = sums.size
    if count < 2:
        return 0.0
    return float(np.sqrt(count / (count - 1.0) * (sums @ sums)) / weights.sum())


def _cross_fit(name: str, x: Floats, y: Floats, w: Floats, folds: NDArray[np.integer]) -> Floats:
    predicted = np.empty_like(x)
    for fold in np.unique(folds):
        held_out = folds == fold
        calibrator = make_calibrator(name).fit(x[~held_out], y[~held_out], w[~held_out])
        predicted[held_out] = calibrator.predict(x[held_out])
    return predicted


def _codes(groups: NDArray[np.integer], folds: NDArray[np.integer], count: int) -> NDArray[np.integer]:
    if np.shape(groups) != (count,) or np.shape(folds) != (count,):
        raise BadInput(f"{count} rows need as many groups and folds; got {np.shape(groups)} and {np.shape(folds)}")
    if np.unique(folds).size < 2:
        raise BadInput("cross-fitting needs at least 2 folds")
    codes = np.unique(groups, return_inverse=True)[1]
    pairs = np.unique(np.column_stack([codes, folds]), axis=0)
    if len(pairs) != codes.max() + 1:
        raise BadInput("a group is split over folds; its rows would be fitted and tested on each other")
    return codes
