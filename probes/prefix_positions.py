"""Where along a generation confidence is read: at the end of paragraphs, periodically, and at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.errors import ConfigurationError


@dataclass(frozen=True)
class Positions:
    """The three kinds of position of FineCE (arXiv 2508.12040): paragraph end, periodic, end of the output.

    A position is the length of a prefix in tokens: at 3, the first three tokens are known.

    Attributes:
        every: a position after every so many tokens; None for none.
        paragraphs: a position where a paragraph ends, that is with the token that completes the first blank line after
            some text.
        earliest: no position before this many tokens, but for the end of the output. One token says little.

    Raises:
        ConfigurationError: `every` or `earliest` is below 1.
    """

    every: int | None = 32
    paragraphs: bool = True
    earliest: int = 8

    def __post_init__(self) -> None:
        if self.every is not None and self.every < 1:
            raise ConfigurationError(f"every={self.every} must be at least 1 token, or None")
        if self.earliest < 1:
            raise ConfigurationError(f"earliest={self.earliest} must be at least 1 token")

    def of(self, tokens: Sequence[str], count: int) -> tuple[int, ...]:
        """The positions of a finished output of `count` tokens, ascending; the last is its end.

        Args:
            tokens: token strings, from which paragraphs are read; may be empty.
        """
        reader = PositionReader(self)
        found = [place for place in range(1, count + 1) if reader.feed(tokens[place - 1] if tokens else "")]
        if count and count not in found:
            found.append(count)
        return tuple(found)


class PositionReader:
    """Says of token after token whether a position comes right after it. The end of the output it cannot know."""

    def __init__(self, positions: Positions) -> None:
        self._positions = positions
        self._count = 0
        self._breaks = 0
        self._text = False

    def feed(self, token: str) -> bool:
        """Is there a position after this token?"""
        self._count += 1
        ended = self._paragraph_ends(token) and self._positions.paragraphs
        due = self._positions.every is not None and self._count % self._positions.every == 0
        return (ended or due) and self._count >= self._positions.earliest

    def _paragraph_ends(self, token: str) -> bool:
        ended = False
        for character in token:
            if character == "\n":
                self._breaks += 1
                if self._breaks >= 2 and self._text:
                    ended, self._text = True, False
            elif not character.isspace():
                self._breaks, self._text = 0, True
        return ended
