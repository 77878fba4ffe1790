"""How the demo's rows are drawn: who is fitted on, who is tuned on, who is only shown.

One seeded shuffle of all TriviaQA ids. Rows that nearly repeat a fitted question are dropped from the other parts.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from demur.evaluation.near_duplicates import question_groups
from demur.router.pipelines.rows import QuestionRow

SEED = 20261130
FIT, TUNE = 1900, 315


@dataclass(frozen=True)
class Split:
    """fit: the first draft's heads. tune: heads and chances of later routes, and the look-ahead. pool: neither."""

    fit: list[QuestionRow]
    tune: list[QuestionRow]
    pool: list[QuestionRow]


def split(rows: list[QuestionRow]) -> Split:
    """Draw the three parts."""
    by_id = {row.id: row for row in rows}
    ids = sorted(by_id)
    random.Random(SEED).shuffle(ids)
    ordered = [by_id[each] for each in ids]
    groups = question_groups([row.question for row in ordered])
    parts: list[list[QuestionRow]] = []
    seen: set[int] = set()
    for begin, end in ((0, FIT), (FIT, FIT + TUNE), (FIT + TUNE, len(ordered))):
        part = [(row, int(group)) for row, group in zip(ordered[begin:end], groups[begin:end], strict=True)]
        part = [(row, group) for row, group in part if group not in seen]
        seen.update(group for _, group in part)
        parts.append([row for row, _ in part])
    return Split(*parts)
