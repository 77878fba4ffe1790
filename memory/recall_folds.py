"""Recall for rows that something is to be fitted on: no row hears of itself, nor of what nearly repeats it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import BadInput
from .recall import Recall
from .recall_key import Experience, Floats
from .recall_probe import log_odds_of

SAME = 0.95
"""Cosine of question embeddings from which two rows count as near-duplicates."""


def recall_out_of_fold(
    bank: Experience,
    folds: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    graded_at: Sequence[datetime | None] | None = None,
    asked_at: Sequence[datetime | None] | None = None,
    neighbours: int = 50,
) -> Floats:
    """`recall.log_odds` of every row, shape (n,), each from a bank that it is not in.

    That bank lacks the row's whole fold, its group, and its near-duplicates (cosine ≥ .95). Where times are given, it
    holds only what was graded before the row was asked as well. Key, z-scores, PCA and base rate are fitted on the
    fold's bank alone.

    Args:
        folds: (n,) as in the fit that will read this; with one fold nothing could be recalled.
        groups: (n,) the same question, or near-duplicates, share one.

    Returns:
        NaN where nothing may speak about a row.

    Raises:
        BadInput: lengths differ, or there is one fold only.
    """
    codes = np.asarray(folds)
    if codes.shape != (len(bank),):
        raise BadInput(f"{len(bank)} rows came with folds of shape {codes.shape}; ({len(bank)},) is needed")
    if np.unique(codes).size < 2:
        raise BadInput("one fold only: every row would be recalled from an empty bank")
    names = np.arange(len(bank)) if groups is None else np.asarray(groups)
    found = np.full(len(bank), np.nan)
    for fold in np.unique(codes):
        others = np.flatnonzero(codes != fold)
        recall = Recall(neighbours=neighbours).fit(bank.take(others))
        for row in np.flatnonzero(codes == fold):
            allowed = names[others] != names[row]
            allowed &= bank.questions[others] @ bank.questions[row] < SAME
            if graded_at is not None and asked_at is not None:
                allowed &= _before(graded_at, others, asked_at[int(row)])
            if allowed.any():
                found[row] = log_odds_of(recall.estimate(bank, int(row), allowed=allowed))
    return found


def _before(
    graded_at: Sequence[datetime | None], rows: NDArray[np.int64], moment: datetime | None
) -> NDArray[np.bool_]:
    """Which of these rows were graded at or before the moment; all where it, or their own time, is not known."""
    if moment is None:
        return np.ones(rows.size, dtype=np.bool_)
    return np.array([(at := graded_at[int(row)]) is None or at <= moment for row in rows])
