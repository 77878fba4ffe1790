"""The same question met again: what its earlier grades say about the answer at hand.

Our own addition to recall: XConf looks for calls that are *like* this one. Where the question itself was graded before,
the grade carries over to the extent that the answers agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..evaluation.text import first_line, same_text

SAME_QUESTION = 0.85
"""Cosine of question embeddings from which two questions count as nearly the same (MiniLM)."""
MOST = 3.0


class Earlier(NamedTuple):
    """An earlier answer to a similar question.

    Attributes:
        similarity: cosine of the questions.
        corrected: the right answer, where whoever graded wrote it down.
    """

    similarity: float
    answer: str
    is_right: bool
    corrected: str | None = None


def repeat_support(answer: str, earlier: Iterable[Earlier], *, same_question: float = SAME_QUESTION) -> float:
    """Signed evidence for `answer`, in [−3, 3]; 0 where no earlier question is similar enough.

    Each earlier answer speaks with weight 1 at the threshold, rising to 2 for the very same question:

    - it was right, or was corrected, and is the same as this one: for it; another one: against it;
    - it was wrong and is the same: against it; another one: nothing (there are many ways to be wrong).

    Questions may have several right answers, so a differing right answer speaks at half the weight.
    """
    total = 0.0
    for one in earlier:
        if one.similarity < same_question:
            continue
        closeness = min((one.similarity - same_question) / (1.0 - same_question), 1.0)
        weight = 1.0 + closeness
        truth = one.answer if one.is_right else one.corrected
        if truth is not None:
            total += weight if _same(answer, truth) else -0.5 * weight
        if not one.is_right and _same(answer, one.answer):
            total -= weight
    return max(min(total, MOST), -MOST)


def _same(one: str, other: str) -> bool:
    return same_text(first_line(one), first_line(other))
