"""How far the world has moved from the one that a task's head was fitted on: what is told about it."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from ...core.record import Record
from ...evaluation.estimate import Estimate


class FittedRate(NamedTuple):
    """The share of right answers, weighed, among the rows that a head was fitted on, and which head that is."""

    rate: float
    head: str


class Shift(Record):
    """What became of a task's first drafts since its head was fitted.

    Attributes:
        fitted: share of right rows at fit time; None where nothing is fitted. `head` says what was.
        recent: the same among the newest graded answers, each weighed by 1 / its chance of being graded; None where
            there is none that can be weighed. `unweighable` of them cannot be.
        mean_fused, mean_said, mean_observed: of the recent answers that were judged: what the head said, what went
            into the decision after online calibration, and how many were right, all weighed; None where none was.
        smece_before, smece_after: smooth calibration error of the same two; None with fewer than 20.
        outcomes: that online calibration has learned from.
        behind: changes of outcomes that are not learned yet.
        learned_at: when online calibration learned last.
        warning: in plain words, where the base rate has shifted.
    """

    fitted: float | None = None
    head: str = ""
    recent: Estimate | None = None
    unweighable: int = 0
    mean_fused: float | None = None
    mean_said: float | None = None
    mean_observed: float | None = None
    smece_before: float | None = None
    smece_after: float | None = None
    outcomes: int = 0
    behind: int = 0
    learned_at: datetime | None = None
    warning: str | None = None
