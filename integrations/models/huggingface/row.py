"""One row of a batch while it is generated: its tokens, its text, and when it is finished."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from .answer import AnswerText, Detokenizer, answer_span, token_span

Locate = Callable[[str], "tuple[int, int] | None"]
"""Where in the text of an answer the part is that is judged: half-open character offsets; None for all of it."""


class Row:
    """Follows one answer.

    Attributes:
        ids: the tokens that count: up to and including the stop or end token, at most `limit`.
        pieces: the text of each.
        answer: where the answer is in that text.
        done: no further forward pass is needed for this row.
        truncated: ended at the token limit.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        stop: Sequence[str],
        eos: Collection[int],
        limit: int,
        own_states: bool,
        locate: Locate | None = None,
    ) -> None:
        """Follow one answer.

        Args:
            own_states: wait until the last answer token was itself read by the model (one pass more at most).
            locate: narrows the answer span, say to the JSON inside a tool call.
        """
        self._detokenizer = Detokenizer(tokenizer)
        self._eos = eos
        self._limit = limit
        self._own_states = own_states
        self._locate = locate
        self._closed = False
        self.ids: list[int] = []
        self.pieces: list[str] = []
        self.answer = AnswerText(stop)
        self.done = False
        self.truncated = False

    def feed(self, token_id: int) -> None:
        """Take the next token. Does nothing once done."""
        if self.done:
            return
        if self._closed:
            self.done = True
            return
        self.ids.append(token_id)
        if token_id in self._eos:
            self.pieces.append("")
            self._closed = self.done = True
            return
        piece = self._detokenizer.feed(token_id)
        self.pieces.append(piece)
        self.answer.feed(piece)
        self.truncated = not self.answer.stopped and len(self.ids) >= self._limit
        if self.answer.stopped or self.truncated:
            self._closed = True
            self.done = not (self._own_states and self.span[1] == len(self.ids))

    @property
    def span(self) -> tuple[int, int]:
        """Half-open token span of the answer."""
        start = self.answer.start
        part = self._locate(self.answer.text) if self._locate is not None and start is not None else None
        if part is None or start is None:
            return answer_span(self.pieces, self.answer)
        return token_span(self.pieces, start + part[0], start + part[1])
