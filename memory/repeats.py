"""The same question met again: what its earlier grades say about the answer at hand.

Our own addition to recall: XConf looks for calls that are *like* this one. Where the question itself was graded before,
the grade carries over to the extent that the answers agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ..evaluation.text import first_line, same_text

SAME_QUESTION = 0.85
"""Cosine of question embeddings from which two questions count as nearly the same (MiniLM)."""
MOST = 3.0
# A number with its sign: in the normal form of texts "1.5" and "15", "-5" and "5" are the same.
_NUMBER = re.compile(r"(?:(?<![\w.])-)?\d+(?:[.,]\d+)*")
_THOUSANDS = re.compile(r",(?=\d{3}(?!\d))")


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
            total += weight if same_answer(answer, truth) else -0.5 * weight
        if not one.is_right and same_answer(answer, one.answer):
            total -= weight
    return max(min(total, MOST), -MOST)


def same_answer(one: str, other: str) -> bool:
    """Equal in normal form, numbers and all; or the one is the whole first line of the longer other.

    Two texts of several lines are compared whole: "Sure:" and then 5 is not "Sure:" and then 7.
    """
    one, other = (text.replace("\u2212", "-") for text in (one, other))
    pairs = [(one, other)]
    if not (_is_long(one) and _is_long(other)):
        pairs.append((first_line(one), first_line(other)))
    return any(same_text(*pair) and _numbers(pair[0]) == _numbers(pair[1]) for pair in pairs)


def _is_long(text: str) -> bool:
    return len(text.strip().splitlines()) > 1


def _numbers(text: str) -> list[str]:
    return [_THOUSANDS.sub("", number) for number in _NUMBER.findall(text)]
