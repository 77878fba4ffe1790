"""Heads for less access, beside the one that goes by everything: what falls to them when something was not captured."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import BadInput, NotEnoughLabels
from ...probes.access import Access, access_to, visible
from ...probes.calibration.select import clustered_standard_error
from ...probes.fit_head import fit_head
from ...probes.head import Head
from ...probes.signal_table import SignalTable


def lesser_heads(
    white: Head,
    table: SignalTable,
    correct: ArrayLike,
    groups: ArrayLike | None,
    *,
    method: str,
    calibrator: str | None = None,
    tools: Sequence[str | None] | None = None,
    seed: int,
    fitted_at: datetime | None,
) -> tuple[list[Head], list[str]]:
    """The grey head (log-probabilities and text) and the black one (text), as far as they make sense; and notes.

    There is none where it would see the same signals as the one above it, where nothing is visible, and where it knows
    no better than the base rate: then it is safer to say that too little is known than to say the base rate of every
    call (rule 1).

    Args:
        white: the head fitted on all of the table.
        table, correct, groups, tools: what it was fitted on.
    """
    heads: list[Head] = []
    notes: list[str] = []
    for access in (Access.GREY, Access.BLACK):
        key = f"{white.key}@{access.value}"
        seen = visible(table, access)
        if seen is None:
            notes.append(f"no head {key}: none of the signals is visible with {access.value}-box access")
            continue
        above = heads[-1] if heads else white
        if _within(seen, (*above.signal_names, *(f"hidden.{name}" for name in above.hidden_names))):
            continue  # it would be the same head again
        if not any(access_to(name) is access for name in _all_names(seen)):
            continue  # nothing that the next one does not see
        try:
            head = fit_head(
                seen,
                correct,
                groups,
                arm=white.arm,
                stage=white.stage,
                seed=seed,
                fitted_at=fitted_at,
                method=method,
                calibrator=calibrator,
                tools=tools,
                access=access,
            )
        except (NotEnoughLabels, BadInput) as error:
            notes.append(f"no head {key}: {error}")
            continue
        if knows_more_than_the_base_rate(head):
            heads.append(head)
        else:
            notes.append(f"no head {key}: out of fold it is no surer of anything than the base rate")
    return heads, notes


def _all_names(table: SignalTable) -> tuple[str, ...]:
    return (*table.names, *(f"hidden.{name}" for name in table.hidden))


def _within(table: SignalTable, names: Sequence[str]) -> bool:
    return set(names) <= set(_all_names(table))


def knows_more_than_the_base_rate(head: Head) -> bool:
    """Is its out-of-fold Brier score better than that of the base rate, by more than one standard error?"""
    rows = head.out_of_fold
    known = np.isfinite(rows.probability)
    right, weights = rows.correct[known], rows.weights[known]
    rate = float(np.average(right, weights=weights))
    gain = (rate - right) ** 2 - (rows.probability[known] - right) ** 2
    codes = np.unique(rows.groups[known], return_inverse=True)[1]
    return float(np.average(gain, weights=weights)) > clustered_standard_error(gain, weights, codes)
