"""Finding the answer in what a model writes: token by token, by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....core.errors import ConfigurationError


class Detokenizer:
    """Turns token ids into pieces of text one at a time; the pieces joined are the decoded text.

    A token that ends inside a UTF-8 character gives "" and the next one gives the whole character. Special tokens
    give "".
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._start = 0  # where the decoding window begins: decoding everything anew would be quadratic
        self._read = 0

    def _decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def feed(self, token_id: int) -> str:
        """The text that this token completes."""
        self._ids.append(token_id)
        before = self._decode(self._ids[self._start : self._read])
        after = self._decode(self._ids[self._start :])
        if len(after) <= len(before) or after.endswith("\ufffd"):
            return ""
        self._start, self._read = self._read, len(self._ids)
        return after[len(before) :]


class AnswerText:
    """The answer within a growing text: without whitespace around it, cut at the first stop string.

    Stop strings count only after the first character that is not whitespace: a model that begins with a line break
    has not answered yet.

    Attributes:
        start: character offset of the answer; None while there is only whitespace.
        end: character offset just past the answer (so far).
        stopped: a stop string was met.
    """

    def __init__(self, stop: Sequence[str] = ()) -> None:
        if any(not s for s in stop):
            raise ConfigurationError("an empty stop string would stop everywhere; leave it out")
        self._stop = tuple(stop)
        self._raw = ""
        self._emitted = 0
        self.start: int | None = None
        self.end = 0
        self.stopped = False

    @property
    def text(self) -> str:
        """The answer so far."""
        return "" if self.start is None else self._raw[self.start : self.end]

    def feed(self, piece: str) -> None:
        """Add text. Does nothing once a stop string was met."""
        if self.stopped or not piece:
            return
        seen = len(self._raw)
        self._raw += piece
        if self.start is None:
            leading = len(self._raw) - len(self._raw.lstrip())
            if leading == len(self._raw):
                self.end = leading
                return
            self.start = leading
        longest = max(map(len, self._stop), default=1)
        search_from = max(self.start, seen - longest + 1)
        hits = [i for s in self._stop if (i := self._raw.find(s, search_from)) >= 0]
        cut = min(hits) if hits else len(self._raw)
        self.stopped = bool(hits)
        self.end = self.start + len(self._raw[self.start : cut].rstrip())

    def fresh(self, *, final: bool = False) -> str:
        """Text that is certain to belong to the answer and was not given out yet; `final` gives out the rest.

        Held back until then: trailing whitespace, and an ending that may grow into a stop string.
        """
        if self.start is None:
            return ""
        ready = self.end
        if not (final or self.stopped):
            for s in self._stop:
                for size in range(min(len(s) - 1, len(self._raw) - self.start), 0, -1):
                    if self._raw.endswith(s[:size]):
                        ready = min(ready, len(self._raw) - size)
                        break
            # Whitespace before a held-back ending is trailing whitespace if the stop string does come.
            ready = self.start + len(self._raw[self.start : ready].rstrip())
        begin = max(self._emitted, self.start)
        if ready <= begin:
            return ""
        self._emitted = ready
        return self._raw[begin:ready]


def answer_span(pieces: Sequence[str], answer: AnswerText) -> tuple[int, int]:
    """Half-open token span [first, last) of the tokens that wrote at least one character of the answer.

    Args:
        pieces: the text of each generated token, in order, as `AnswerText` was fed.
        answer: after feeding.
    """
    return (0, 0) if answer.start is None else token_span(pieces, answer.start, answer.end)


def token_span(pieces: Sequence[str], start: int, end: int) -> tuple[int, int]:
    """Half-open span of the tokens that wrote at least one of the characters [start, end) of the joined pieces.

    (0, 0) where that is nothing.
    """
    first = last = None
    offset = 0
    for index, piece in enumerate(pieces):
        if offset < end and offset + len(piece) > start:
            first = index if first is None else first
            last = index
        offset += len(piece)
    if end <= start or first is None or last is None:
        return 0, 0
    # A character made of several tokens is credited to the last of them; the ones before it belong to it as well.
    while first > 0 and pieces[first - 1] == "" and start == sum(map(len, pieces[:first])):
        first -= 1
    return first, last + 1
