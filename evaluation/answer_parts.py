"""Where in a response the answer stands: the part that is judged, and what around and inside it is only format.

Half-open character offsets, ascending. What lies between two parts is scaffolding: left out by position, never by
token, for a ":" inside an argument is content (arXiv 2504.20168).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ..core.errors import ConfigurationError

Part = tuple[int, int]
Finder = Callable[[str], Sequence[Part]]
"""The parts of a text; [] where the answer is not marked: then all of the text is the answer."""

WHOLE = "first-stop"

_NUMBER = re.compile(r"(?<![\w.])[-+−]?[$€£¥]?\d[\d,]*(?:\.\d+)?(?:/\d+)?(?:\s?%)?")
_LETTER = re.compile(r"(?<![A-Za-z])\(?([A-J])\)?(?![A-Za-z'])")
_TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_FENCED = re.compile(r"```(?:json)?\s*(.*?)(?:```|\Z)", re.DOTALL)
_PIECE = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)"?|(?P<bare>[^\s{}\[\],:"]+)|(?P<mark>[{}\[\],:])')
_OWN_KEYS = frozenset({"name", "arguments", "parameters", "action", "action_input", "function", "type", "id"})
_LONGEST = 200_000


def last_number(text: str) -> Sequence[Part]:
    """The last number: the final answer of reasoning in steps. After the last "####" only, where there is one."""
    begin = text.rfind("####") + 4 if "####" in text else 0
    found = None
    for found in _NUMBER.finditer(text[:_LONGEST], begin):  # noqa: B007
        pass
    return [] if found is None else [_without_comma(text, found.start(), found.end())]


def choice_letter(text: str) -> Sequence[Part]:
    """The first letter that stands alone, as in "B", "(C)" or "Answer: D"."""
    found = _LETTER.search(text[:_LONGEST])
    return [] if found is None else [found.span(1)]


def tool_call(text: str) -> Sequence[Part]:
    """Name, argument names and argument values of the first call written as JSON; without braces, quotes, colons and
    the keys of the call itself ("name", "arguments", ...), and without anything after the arguments."""
    body = _call_body(text[:_LONGEST])
    if body is None:
        return []
    parts: list[Part] = []
    depth = 0
    # Calls may stand in a list: then the first one's own keys are a level deeper.
    level = 2 if text[body[0]] == "[" else 1
    for piece in _PIECE.finditer(text, *body):
        mark = piece["mark"]
        if mark is None:
            name = "text" if piece["text"] is not None else "bare"
            begin, end = piece.span(name)
            own_key = depth <= level and name == "text" and piece["text"] in _OWN_KEYS and _is_key(text, piece.end())
            if end > begin and not own_key:
                parts.append((begin, end))
        elif mark in "{[":
            depth += 1
        elif mark in "}]":
            depth -= 1
            if depth < level:
                break
    return parts


def _without_comma(text: str, begin: int, end: int) -> Part:
    while end > begin and text[end - 1] in ", ":
        end -= 1
    return begin, end


def _call_body(text: str) -> Part | None:
    """Where the JSON of the first call stands."""
    for pattern in (_TAGGED, _FENCED):
        if (found := pattern.search(text)) is not None and "{" in found[1]:
            return found.start(1) + found[1].index("{"), found.end(1)
    start = len(text) - len(text.lstrip())
    return (start, len(text)) if text[start : start + 1] in ("{", "[") else None


def _is_key(text: str, after: int) -> bool:
    return text[after:].lstrip()[:1] == ":"


FINDERS: dict[str, Finder | None] = {
    WHOLE: None,
    "last-number": last_number,
    "choice-letter": choice_letter,
    "tool-call": tool_call,
}


def answer_finder(name: str) -> Finder | None:
    """A finder by name; None for `first-stop`, the whole answer.

    Raises:
        ConfigurationError: there is none of that name.
    """
    if name not in FINDERS:
        raise ConfigurationError(f"there is no way {name!r} to find an answer; there are {', '.join(FINDERS)}")
    return FINDERS[name]
