"""Which way the standard signals point, for fits that hold them to it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..core.signal import Direction
from .signal_table import SignalTable

_HIGHER, _LOWER = Direction.HIGHER_IS_SURER, Direction.LOWER_IS_SURER

_STANDARD: tuple[tuple[str, Direction], ...] = (
    (r"token\.(mean|min|sum|first|median)_logprob", _HIGHER),
    (r"token\.(mean|min|first)_margin", _HIGHER),
    (r"token\.(confidence_as_reward|self_certainty)", _HIGHER),
    (r"token\.(perplexity|low_share|count)", _LOWER),
    (r"token\.(mean|max)_entropy(_top\d+)?", _LOWER),
    (r"(fast_|prompt_)?lens\.(agreement|logprob)\..+", _HIGHER),
    (r"(fast_|prompt_)?lens\.(entropy|kl|log_rank)\..+", _LOWER),
    (r"prompt\.(entropy|log_tokens|log_question_length)", _LOWER),
    (r"prompt\.(top_logprob|question_(mean|min|sum|tail)_logprob)", _HIGHER),
    (r"trajectory\.(lowest_window|bottom_share|tail)(_kl)?", _HIGHER),
    (r"trajectory\.mean_logprob", _HIGHER),
    (r"trajectory\.log_tokens", _LOWER),
    (r"grounding\.(recall|retrieval_margin|similarity|adjusted_logprob|copied_share)", _HIGHER),
    (r"prefix\.(last|lowest)", _HIGHER),
    (r"evidence\.entailment", _HIGHER),
    (r"(evidence|samples)\.contradiction", _LOWER),
    # Log-odds of being right, whoever fitted them.
    (r"hidden\..+", _HIGHER),
    (r"head\.log_odds", _HIGHER),
    (r"recall\.log_odds", _HIGHER),
)
"""By name; the directions that the probes give with their scores. What compares a beginning with an end (consilience,
slopes) is left out: it points that way for traces of one question, not for calls of many."""


def standard_direction(name: str) -> Direction | None:
    """Which way a signal of Demur's own points; None where none is stated here."""
    return next((direction for pattern, direction in _STANDARD if re.fullmatch(pattern, name)), None)


def stated_directions(table: SignalTable) -> dict[str, Direction]:
    """The directions of a table's signals as far as they are known: those of Demur's own signals, and `lower` where
    the table says so. A table's `higher` is also what it says when nobody told it, so it states nothing."""
    found: dict[str, Direction] = {}
    for name, direction in zip(table.names, table.directions, strict=True):
        known = standard_direction(name) or (direction if direction is _LOWER else None)
        if known is not None:
            found[name] = known
    return found


def signs_of(names: Sequence[str], directions: Mapping[str, Direction] | None) -> NDArray[np.int64]:
    """1 where higher is surer, -1 where lower is, 0 where it may be either.

    Args:
        directions: by name; those it lacks, and all where it is None, are Demur's own.
    """
    told = directions or {}
    found = [told.get(name) or standard_direction(name) for name in names]
    return np.array([0 if one is None else 1 if one is _HIGHER else -1 for one in found], dtype=np.int64)
