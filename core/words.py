"""Text to words: the same ones for lexical search and for grounding."""

from __future__ import annotations

import re
import unicodedata

# Japanese and Chinese are written without spaces: each of their characters is a word of its own.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")


def words(text: str) -> list[str]:
    """The words of `text` in order: NFKC, case folded, no punctuation; [] where it holds no letter or digit."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
