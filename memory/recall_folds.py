"""Recall for rows that something is to be fitted on: no row hears of itself, nor of what nearly repeats it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import BadInput
from .recall import NEIGHBOURS, Recall
from .recall_key import Experience, Floats
from .recall_probe import log_odds_of
from .recall_timeline import Timeline

SAME = 0.95
"""Cosine of question embeddings from which two rows count as near-duplicates."""

Times = Sequence[datetime | None]


def recall_out_of_fold(
    bank: Experience,
    folds: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    graded_at: Times | None = None,
    asked_at: Times | None = None,
    neighbours: int = NEIGHBOURS,
) -> Floats:
    """`recall.log_odds` of every row, shape (n,), each from a bank that it is not in (arXiv 2609.17708, made stricter).

    That bank lacks the row's whole fold, and whatever shares a group with a row of it or nearly repeats one (cosine ≥
    .95). Where times are given, it holds only what was graded at or before the moment the row was asked (a row without
    a time of grading never counts as earlier). Key, z-scores, PCA, κ and base rate come from that bank alone.

    There is no `recall.repeat` here: it lives on near-duplicates, which no row of a fold may hear of. A head learns
    it from the log, where it was stored before the call was graded.

    Args:
        folds: (n,) as in the fit that will read this; with one fold nothing could be recalled.
        groups: (n,) the same question, or near-duplicates, share one.
        graded_at, asked_at: (n,) each; both or neither. Where a row's asked_at is None, all of the bank speaks.

    Returns:
        NaN where nothing may speak about a row.

    Raises:
        BadInput: lengths differ, there is one fold only, or one kind of time is given without the other.
    """
    codes, names = _checked(bank, folds, groups, graded_at, asked_at)
    found = np.full(len(bank), np.nan)
    for fold in np.unique(codes):
        held_out = codes == fold
        others = np.flatnonzero(~held_out & ~_related(bank, names, held_out))
        if not others.size:
            continue
        if graded_at is not None and asked_at is not None:
            _recall_by_time(bank, np.flatnonzero(held_out), others, graded_at, asked_at, neighbours, found)
        else:
            recall = Recall(neighbours=neighbours).fit(bank.take(others))
            for row in np.flatnonzero(held_out):
                found[row] = log_odds_of(recall.estimate(bank, int(row)))
    return found


def _related(bank: Experience, names: NDArray[np.int64], held_out: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(n,) which rows share a group with a held-out row, or nearly repeat one."""
    nearest = (bank.questions @ bank.questions[held_out].T).max(axis=1)
    return np.isin(names, names[held_out]) | (nearest >= SAME)


def _recall_by_time(
    bank: Experience,
    rows: NDArray[np.int64],
    others: NDArray[np.int64],
    graded_at: Times,
    asked_at: Times,
    neighbours: int,
    found: Floats,
) -> None:
    moments = np.array([_seconds(graded_at[int(row)]) for row in others])
    order = np.argsort(moments, kind="stable")
    timeline = Timeline(neighbours=neighbours)
    timeline.put(bank.take(others[order]), moments[order])
    asked = [asked_at[int(row)] for row in rows]
    known = np.array([timeline.known(None if moment is None else moment.timestamp()) for moment in asked])
    # In the order of what they know, so that each key is fitted once.
    for place in np.argsort(known, kind="stable"):
        if known[place]:
            row = int(rows[place])
            found[row] = log_odds_of(timeline.estimate(bank, row, first=int(known[place])))


def _seconds(moment: datetime | None) -> float:
    return math.inf if moment is None else moment.timestamp()


def _checked(
    bank: Experience, folds: ArrayLike, groups: ArrayLike | None, graded_at: Times | None, asked_at: Times | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Folds and groups as arrays."""
    if (graded_at is None) != (asked_at is None):
        raise BadInput("give both graded_at and asked_at, or neither: the one is compared with the other")
    codes = np.asarray(folds)
    names = np.arange(len(bank)) if groups is None else np.asarray(groups)
    for what, size in (
        ("folds", codes.shape),
        ("groups", names.shape),
        ("graded_at", None if graded_at is None else (len(graded_at),)),
        ("asked_at", None if asked_at is None else (len(asked_at),)),
    ):
        if size not in (None, (len(bank),)):
            raise BadInput(f"{len(bank)} rows came with {what} of shape {size}; ({len(bank)},) is needed")
    if np.unique(codes).size < 2:
        raise BadInput("one fold only: every row would be recalled from an empty bank")
    return codes, np.unique(names, return_inverse=True)[1]
