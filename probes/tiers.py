"""How much may be learned from how many labels: counted by the rarer class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.errors import NotEnoughLabels
from .fusion_settings import LOGISTIC, STACKED

FEWEST = 10
"""Below this many rows of the rarer class nothing is fitted."""

PREFERENCE: tuple[str, ...] = (
    # Only in heads learned from the log: all that the artefact knew in one number, and what experience says.
    "head.log_odds",
    "token.sum_logprob",
    "recall.log_odds",
    "token.min_logprob",
    "recall.repeat",
    "token.mean_logprob",
    "prompt.top_logprob",
    "token.mean_entropy",
    "token.mean_margin",
    "lens.log_rank.mean",
    "prompt.entropy",
    "token.first_logprob",
)
"""The order in which signals are taken when only three may be; signals not listed follow in the table's order.
Fixed beforehand: choosing by looking at 10-24 labels would choose noise."""


@dataclass(frozen=True)
class Tier:
    """What is allowed.

    Attributes:
        scalars: most scalar signals; None for no limit.
        components: principal components of each hidden vector; 0 leaves hidden states out.
        calibrators: candidates.
        method: how signals are fused where `fit_head` is left to choose.
    """

    name: str
    scalars: int | None
    components: int
    calibrators: tuple[str, ...]
    method: str = LOGISTIC


_PARAMETRIC = ("identity", "temperature", "platt", "beta")


def tier_for(correct: NDArray[np.float64]) -> Tier:
    """The tier of the grades (n,).

    10-24 rows of the rarer class: at most 3 scalars, Platt with a prior. 25-99: all scalars, parametric calibrators.
    100-199: hidden states through 8 components (about 12 rows of the rarer class a coefficient). From 200: 32
    components, from 500: 64 (more never helped by as much as it cost in time), isotonic and Venn–Abers. Left to
    choose, signals are fused by a logistic regression under 100 and by stacking from there on.

    Raises:
        NotEnoughLabels: fewer than 10; the message says which class and how many.
    """
    right, wrong = int(correct.sum()), int((1.0 - correct).sum())
    rarer, word = (right, "right") if right <= wrong else (wrong, "wrong")
    if rarer < FEWEST:
        raise NotEnoughLabels(
            f"{right} right and {wrong} wrong graded rows: {FEWEST} of each are needed, so {FEWEST - rarer} more "
            f"{word} ones. Grade more calls, or go on with the prior",
            have=rarer,
            need=FEWEST,
        )
    if rarer < 25:
        return Tier("under 25", 3, 0, ("platt_prior",))
    if rarer < 100:
        return Tier("under 100", None, 0, _PARAMETRIC)
    if rarer < 200:
        return Tier("under 200", None, 8, _PARAMETRIC, STACKED)
    return Tier("full", None, 32 if rarer < 500 else 64, (*_PARAMETRIC, "isotonic", "venn_abers"), STACKED)


def preferred(names: Sequence[str], limit: int | None) -> tuple[str, ...]:
    """At most `limit` of the names, by `PREFERENCE`; all, in the order given, where there is no limit."""
    if limit is None or len(names) <= limit:
        return tuple(names)
    rank = {name: place for place, name in enumerate(PREFERENCE)}
    ordered = sorted(range(len(names)), key=lambda column: (rank.get(names[column], len(rank)), column))
    return tuple(names[column] for column in sorted(ordered[:limit]))
