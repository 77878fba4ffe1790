"""What the signals cost: in generations, passes, tokens and seconds, as far as it was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...core.response import Cost
from ..pipelines.table import GradedTable
from .judged import Judged


@dataclass(frozen=True)
class FamilyCost:
    """Signals that are read at the same place.

    Attributes:
        signals: how many of them these rows have.
        read: where they are read; extra: what they cost beside the answer itself.
    """

    family: str
    signals: int
    read: str
    extra: str


@dataclass(frozen=True)
class CostReport:
    """Attributes:
    families: by what they read.
    sentences: what an answer with all its signals took, and what judging it took.
    """

    families: tuple[FamilyCost, ...]
    sentences: tuple[str, ...]


_NONE = "no extra generation"
_READ = {
    "token": ("log-probabilities that come with the answer", _NONE),
    "trajectory": ("log-probabilities of all generated tokens, in their order", _NONE),
    "prefix": ("the state at marked places while the answer is written", _NONE),
    "prompt": ("the model's state when it has read the prompt", f"{_NONE}; known before the answer"),
    "lens": ("inner layers, put through the output layer, while the answer is written", _NONE),
    "fast_lens": ("inner layers on the likeliest tokens only", _NONE),
    "hidden": ("hidden states, put through a fitted probe", _NONE),
    "grounding": ("the passages that the answer was made from", f"{_NONE}; the passages are retrieved anyway"),
}
_OWN = ("handed in with the rows", "not known here: whoever hands them in knows")


def costs(data: Judged, rows: GradedTable, judging_seconds: float | None = None) -> CostReport:
    """Args:
    judging_seconds: what signals → confidence took for all rows together; None where it was not measured.
    """
    counts: dict[str, int] = {}
    for name in data.signals:
        first, dot, _ = name.partition(".")
        family = first if dot and first in _READ else ""
        counts[family] = counts.get(family, 0) + 1
    families = tuple(
        FamilyCost(family or "of your own", count, *_READ.get(family, _OWN))
        for family, count in sorted(counts.items(), key=lambda item: (item[0] == "", item[0]))
    )
    return CostReport(families, (*_answering(rows.costs), *_judging(judging_seconds, data.rows)))


def _answering(each: Sequence[Cost]) -> list[str]:
    if not each:
        return ["The answers came with the rows: what they cost is not known here."]
    seconds = np.array([cost.seconds for cost in each])
    out = np.array([cost.tokens_out for cost in each])
    into = np.array([cost.tokens_in for cost in each])
    said = (
        f"An answer, with everything that is read off the model meanwhile, used {np.median(into):.0f} prompt tokens "
        f"and {np.median(out):.0f} generated tokens (medians of {len(each):,})"
    )
    if seconds.max() <= 0.0:
        return [f"{said}; how long it took was not measured."]
    return [f"{said} and took {np.median(seconds):.2f} s, {np.quantile(seconds, 0.95):.2f} s in the slowest 5 in 100."]


def _judging(seconds: float | None, rows: int) -> list[str]:
    if seconds is None or not rows:
        return []
    each = 1000.0 * seconds / rows
    return [f"Turning the signals into a confidence took {each:.2g} ms an answer, in one batch of {rows:,}."]
