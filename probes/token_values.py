"""Numbers read off a token trace: all of them usable, or what is wrong with the first that is not."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..core.response import TopToken

ROUNDING = 0.01
"""bfloat16 can put log-probabilities, entropies and divergences this far on the wrong side of zero."""


def total(values: Sequence[float]) -> float:
    """Their exact sum, rounded once; infinite where it is beyond floats."""
    try:
        return math.fsum(values)
    except OverflowError:
        return sum(values)


def checked_logprobs(values: Sequence[float | None]) -> tuple[list[float], str]:
    """The values (nats), or an empty list and what is wrong with the first bad one."""
    checked: list[float] = []
    for offset, value in enumerate(values):
        if value is None or not math.isfinite(value) or value > ROUNDING:
            return [], f"log-probability of token {offset} is {value}"
        checked.append(float(value))
    return checked, ""


def checked_spreads(
    values: Sequence[float | None], what: str, *, where: str = "answer token", first: int = 0
) -> tuple[list[float], str]:
    """Entropies or divergences (nats, not negative), or an empty list and what is wrong with the first bad one.

    Args:
        what: the field's word for one of them.
        where: what a position is called in the reason.
        first: number of the first position.
    """
    checked: list[float] = []
    for offset, value in enumerate(values):
        if value is None or not math.isfinite(value) or value < -ROUNDING:
            return [], f"{what} of {where} {first + offset} is {value}"
        checked.append(float(value))
    return checked, ""


def likeliest(
    positions: Sequence[tuple[TopToken, ...]], count: int, *, where: str = "answer token", first: int = 0
) -> tuple[list[list[float]], str]:
    """The `count` largest log-probabilities of each position, descending; or an empty list and what is wrong.

    `where` and `first` as in `checked_spreads`.
    """
    if not positions:
        return [], "the trace has no top tokens"
    rows: list[list[float]] = []
    for offset, position in enumerate(positions):
        if len(position) < count:
            return [], f"{where} {first + offset} lists {len(position)} top tokens, {count} are needed"
        values, problem = checked_logprobs([token.logprob for token in position])
        if problem:
            return [], f"{where} {first + offset}, top list: {problem}"
        rows.append(sorted(values, reverse=True)[:count])
    return rows, ""


def renormalised_entropy(logprobs: Sequence[float]) -> float:
    """Entropy (nats) of these log-probabilities, the largest first, as if they were all there is."""
    weights = [math.exp(value - logprobs[0]) for value in logprobs]
    total = math.fsum(weights)
    return -math.fsum(w / total * math.log(w / total) for w in weights if w > 0.0)
