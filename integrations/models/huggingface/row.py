"""One row of a batch while it is generated: its tokens, its text, and when it is finished."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from .answer import AnswerText, Detokenizer, answer_span, token_span

Part = tuple[int, int]

Locate = Callable[[str], Sequence[Part]]
"""Where in the text of an answer the parts are that are judged: half-open character offsets, ascending. What lies
between two parts is scaffolding. No part: all of it is judged."""


class Row:
    """Follows one answer.

    Attributes:
        ids: the tokens that count: up to and including the stop or end token, at most `limit`.
        pieces: the text of each.
        answer: where the answer is in that text.
        done: no further forward pass is needed for this row.
        truncated: ended at the token limit, or early.
        stopped_early: why it was ended early; "" where it was not.
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
        self.stopped_early = ""

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
            self._close()

    def stop_early(self, reason: str) -> None:
        """End the answer here, unfinished. Does nothing where it has ended."""
        if not self._closed:
            self.truncated = True
            self.stopped_early = reason
            self._close()

    @property
    def closed(self) -> bool:
        """The answer has ended; one more pass may still be wanted."""
        return self._closed

    def _close(self) -> None:
        self._closed = True
        self.done = not (self._own_states and self.span[1] == len(self.ids))

    @property
    def span(self) -> tuple[int, int]:
        """Half-open token span of the answer."""
        parts = self._parts()
        return (parts[0][0], parts[-1][1]) if parts else answer_span(self.pieces, self.answer)

    @property
    def content(self) -> list[int]:
        """Positions of the tokens that wrote some of the answer's content; `span` without its scaffolding."""
        return sorted({place for part in self._parts() or [self.span] for place in range(*part)})

    def _parts(self) -> list[Part]:
        """Token spans of the parts that `locate` finds; [] for all of the answer."""
        start = self.answer.start
        if self._locate is None or start is None:
            return []
        parts = self._locate(self.answer.text)
        spans = [token_span(self.pieces, start + first, start + last) for first, last in parts]
        return [span for span in spans if span[1] > span[0]]
