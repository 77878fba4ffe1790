"""A handful of answers that the confidence got wrong: where to look first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.text import printable
from .judged import Judged

EACH = 5
_TEXT, _ID = 200, 60


@dataclass(frozen=True)
class Example:
    """One answer; texts are cut and show nothing hidden."""

    confidence: str
    question: str
    response: str
    row: str


def surest_wrong(data: Judged) -> list[Example]:
    """The wrong answers with the highest confidence."""
    wrong = np.flatnonzero(data.correct == 0.0)
    return _examples(data, wrong[np.argsort(-data.confidence[wrong], kind="stable")][:EACH])


def least_sure_right(data: Judged) -> list[Example]:
    """The right answers with the lowest confidence."""
    right = np.flatnonzero(data.correct == 1.0)
    return _examples(data, right[np.argsort(data.confidence[right], kind="stable")][:EACH])


def _examples(data: Judged, places: np.ndarray) -> list[Example]:
    return [
        Example(
            f"{data.confidence[place]:.2f}",
            printable(data.questions[place], _TEXT),
            printable(data.responses[place], _TEXT),
            printable(data.ids[place], _ID),
        )
        for place in places
    ]
