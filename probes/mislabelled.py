"""Outcomes that look mislabelled: confident learning (Northcutt, Jiang, Chuang; arXiv 1911.00068)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import BadInput, NotEnoughLabels
from .calibration.base import Floats, checked_grades

_ENOUGH = 20
"""Rows of each class from which on a group has thresholds of its own."""


@dataclass(frozen=True)
class Suspect:
    """A row whose grade the confidence contradicts.

    Attributes:
        row: its place among the rows given.
        correct: the grade that is doubted.
        probability: of being right, out of fold.
        self_confidence: probability of the grade it has; the lower, the likelier the grade is wrong.
        threshold: mean probability of the *other* grade among the rows that have it, which this row reaches.
    """

    row: int
    correct: bool
    probability: float
    self_confidence: float
    threshold: float


def suspected_mislabels(
    probability: ArrayLike,
    correct: ArrayLike,
    groups: Sequence[str | None] | None = None,
    *,
    most: int | None = None,
) -> list[Suspect]:
    """Rows that count into an off-diagonal cell of the confident joint, the most doubtful first.

    The threshold of a class is the mean probability of that class among the rows graded so. A row is suspected where
    the *other* class reaches its threshold and its own does not (the paper counts rows that reach several thresholds to
    the likeliest class; with two classes such a row counts here to its own grade unless the other is likelier), and the
    other class is the likelier one [deviation: where a confidence tells little, half of all rows reach a mean].

    These are rows to look at again, not rows to drop: a confident and wrong model looks just the same.

    Args:
        probability: (n,) calibrated probabilities of being right that did not see the row's grade; NaN is left out.
        correct: (n,) grades.
        groups: (n,) tools or tasks: one with 20 rows of each class has thresholds of its own [deviation], so that the
            sure answers of an easy one do not make those of a hard one look wrong. None: no group.
        most: list at most so many.

    Raises:
        BadInput: lengths differ, or not probabilities.
        NotEnoughLabels: one class only among the usable rows.
    """
    p = np.asarray(probability, dtype=np.float64)
    if p.ndim != 1:
        raise BadInput(f"probability has shape {p.shape}; (n,) is needed")
    y = checked_grades(correct, p.size) == 1.0
    known = np.isfinite(p)
    if not ((p[known] >= 0.0) & (p[known] <= 1.0)).all():
        raise BadInput("probabilities must lie in [0, 1]")
    right, wrong = known & y, known & ~y
    if not right.any() or not wrong.any():
        raise NotEnoughLabels(
            f"{int(right.sum())} right and {int(wrong.sum())} wrong rows with a probability: both are needed",
            have=0,
            need=1,
        )
    of_right, of_wrong = _thresholds(p, right, wrong, groups)
    reaches_right, reaches_wrong = p >= of_right, 1.0 - p >= of_wrong
    looks_right = reaches_right & (~reaches_wrong | (p > 0.5))
    looks_wrong = reaches_wrong & (~reaches_right | (p < 0.5))
    doubted = known & np.where(y, looks_wrong, looks_right)
    own = np.where(y, p, 1.0 - p)
    doubted &= own < 0.5
    order = sorted(np.flatnonzero(doubted), key=lambda row: (own[row], row))
    reached = np.where(y, of_wrong, of_right)
    return [
        Suspect(int(row), bool(y[row]), float(p[row]), float(own[row]), float(reached[row])) for row in order[:most]
    ]


def _thresholds(
    p: Floats, right: NDArray[np.bool_], wrong: NDArray[np.bool_], groups: Sequence[str | None] | None
) -> tuple[Floats, Floats]:
    """(n,) the mean of p over right rows and of 1 - p over wrong ones, by the row's group where that has enough."""
    of_right, of_wrong = np.full(p.size, p[right].mean()), np.full(p.size, (1.0 - p[wrong]).mean())
    if groups is None:
        return of_right, of_wrong
    if len(groups) != p.size:
        raise BadInput(f"{p.size} rows came with {len(groups)} groups; give one a row, None for none")
    named = np.array([group or "" for group in groups])
    for group in np.unique(named[named != ""]):
        rows = named == group
        if min((rows & right).sum(), (rows & wrong).sum()) >= _ENOUGH:
            of_right[rows], of_wrong[rows] = p[rows & right].mean(), (1.0 - p[rows & wrong]).mean()
    return of_right, of_wrong
