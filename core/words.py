"""Text to words: the same ones for lexical search and for grounding."""

from __future__ import annotations

import re
import unicodedata

# Japanese and Chinese are written without spaces: each of their characters is a word of its own.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")


# What joins the character before it when text is normalised, though it is no combining mark: vowels and finals of
# Hangul written letter by letter.
_JOINS = re.compile("[\u1160-\u11ff]")


def words(text: str) -> list[str]:
    """The words of `text` in order: NFKC, case folded, no punctuation; [] where it holds no letter or digit."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def word_spans(text: str) -> list[tuple[str, int, int]]:
    """Each of `words(text)` with the half-open span of characters of `text` that it was read from, in order.

    A character that is written as several words ("½" is "1⁄2") gives each of them its own span.
    """
    pieces: list[str] = []
    origin: list[int] = []
    ends: list[int] = []
    for start, end in _clusters(text):
        piece = unicodedata.normalize("NFKC", text[start:end]).casefold()
        pieces.append(piece)
        origin += [start] * len(piece)
        ends += [end] * len(piece)
    found = _WORD.finditer("".join(pieces))
    return [(match[0], origin[match.start()], ends[match.end() - 1]) for match in found]


def _clusters(text: str) -> list[tuple[int, int]]:
    """Spans of characters that are normalised together: one character and what joins it."""
    if text.isascii():
        return [(at, at + 1) for at in range(len(text))]
    starts = [at for at, character in enumerate(text) if at == 0 or not _joins(character)]
    return list(zip(starts, [*starts[1:], len(text)], strict=True))


def _joins(character: str) -> bool:
    first = unicodedata.normalize("NFKC", character)[:1]
    return unicodedata.category(first).startswith("M") or _JOINS.match(first) is not None
