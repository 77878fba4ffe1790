"""Text from models, tools, documents, users and reviewers is data (rule 7): cut it, store it, show it, never run it."""

from __future__ import annotations

import re
import unicodedata

_SURROGATE = re.compile("[\ud800-\udfff]")
_KEPT = frozenset("\n\t")
# Control, format (bidi overrides, zero-width, tags), surrogate, private use, unassigned; line and paragraph separators.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def storable(text: str) -> str:
    """`text` whole, but for lone surrogates, which no database takes: they become U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def limited(text: str, limit: int) -> str:
    """At most `limit` characters of `text`, and a note of how many were left off.

    Lone surrogates, which no database takes, become U+FFFD.
    """
    text = storable(text)
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… (+{len(text) - limit} characters)"


def said(error: BaseException, limit: int = 10_000) -> str:
    """`TypeName: message` of an error, for the record: its own `__str__` may raise, or hold what no database takes."""
    name = type(error).__qualname__
    try:
        message = str(error)
    except Exception as trouble:  # noqa: BLE001 - a foreign __str__ may raise anything
        message = f"<no message: {type(trouble).__name__}>"
    return limited(f"{name}: {message}", limit)


def printable(text: str, limit: int = 4000) -> str:
    """`text` as it can be shown in a terminal: nothing hidden, nothing that moves the cursor or turns the line round.

    Newlines and tabs stay. Every other control, format or unassigned character is shown as `⟨U+001B⟩`. At most
    `limit` characters of the original are shown, with a note of how many were left off.
    """
    shown = "".join(_visible(character) for character in text[:limit])
    return shown if len(text) <= limit else f"{shown}… (+{len(text) - limit} characters)"


def _visible(character: str) -> str:
    if character in _KEPT or (" " <= character <= "~"):
        return character
    return f"⟨U+{ord(character):04X}⟩" if unicodedata.category(character) in _HIDDEN else character
