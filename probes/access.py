"""How far a model lets itself be looked into, and what can be seen from there."""

from __future__ import annotations

import re
from dataclasses import replace
from enum import StrEnum

from .signal_table import SignalTable


class Access(StrEnum):
    """White: open weights; grey: log-probabilities of the tokens; black: text only. Each sees what the next sees."""

    WHITE = "white"
    GREY = "grey"
    BLACK = "black"


_WHITE = re.compile(
    r"(fast_|prompt_)?lens\.|(fast_)?mice\.|convergence\.|semantic\."
    # Captured while the prompt is read; only the length of the question is text.
    r"|prompt\.(?!log_question_length$)"
    # Over the whole vocabulary, which no interface for log-probabilities shows.
    r"|token\.(mean_entropy|max_entropy|self_certainty)$|trajectory\..+_kl$"
)
_GREY = re.compile(r"token\.|trajectory\.|prefix\.|grounding\.(adjusted_logprob|copied_share)$")
_BLACK_VECTORS = ("question.", "answer_text.")
"""Embeddings of text by a model of their own; every other vector is a hidden state."""


def access_to(name: str) -> Access:
    """What it takes to see a scalar signal, or the score `hidden.VECTOR` of a vector.

    Signals that are not Demur's own count as text: whoever brings them can bring them whatever the model shows.
    """
    if name.startswith("hidden."):
        return Access.BLACK if name.removeprefix("hidden.").startswith(_BLACK_VECTORS) else Access.WHITE
    if _WHITE.match(name):
        return Access.WHITE
    return Access.GREY if _GREY.match(name) else Access.BLACK


def visible(table: SignalTable, access: Access) -> SignalTable | None:
    """The part of a table that can be seen with this access, or None."""
    seen = list(Access)[list(Access).index(access) :]
    kept = [column for column, name in enumerate(table.names) if access_to(name) in seen]
    hidden = {name: block for name, block in table.hidden.items() if access_to(f"hidden.{name}") in seen}
    if not kept and not hidden:
        return None
    return replace(
        table,
        names=tuple(table.names[column] for column in kept),
        values=table.values[:, kept],
        hidden=hidden,
        directions=tuple(table.directions[column] for column in kept),
    )
