"""One tool call as a JSON object: read strictly, with the place of what it would do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...evaluation.graders.strict_json import NotJson, read_json, read_prefix

KEYS = frozenset({"name", "arguments", "parameters", "id", "type"})
"""What a call may hold."""

SPACE = " \t\r\n"
_NAME = re.compile(r'"name"\s*:\s*"([^"\\]{1,64})"')
_DEEPEST = 64


@dataclass(frozen=True)
class WrittenCall:
    """A call that can be made.

    Attributes:
        start, end: character offsets of name and arguments with their keys: all that says what would be done.
    """

    name: str
    arguments: dict[str, Any]
    start: int
    end: int


@dataclass(frozen=True)
class BrokenCall:
    """An attempt that cannot be made.

    Attributes:
        name: the tool's name, where it can be told.
        text: the attempt as it was written.
        error: what is wrong with it.
    """

    name: str | None
    text: str
    error: str


class Broken(ValueError):
    """The text at hand is no sound call."""


class NoCall(ValueError):
    """The text at hand is JSON, but of another kind."""


def skip(text: str, at: int, characters: str = SPACE) -> int:
    """The first place from `at` on that holds none of `characters`."""
    while at < len(text) and text[at] in characters:
        at += 1
    return at


def read_call(text: str, start: int) -> tuple[WrittenCall, int]:
    """The call whose JSON object starts here, and where it ends.

    Raises:
        Broken, NoCall: it is none.
    """
    try:
        value, rest = read_prefix(text[start:])
    except NotJson as error:
        raise Broken(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise NoCall(f"a JSON {type(value).__name__}, not an object")
    keys = value.keys() & {"arguments", "parameters"}
    if "name" not in value or not keys or value.keys() - KEYS:
        raise NoCall(f'an object with the keys {sorted(value)[:8]}, not with "name" and "arguments"')
    if len(keys) > 1:
        raise Broken('both "arguments" and "parameters" are given')
    key = keys.pop()
    name, arguments = value["name"], _arguments(value[key])
    if not isinstance(name, str) or not name.strip():
        raise Broken(f"the name {str(name)[:40]!r} is not the name of a tool")
    _require_storable(name, arguments)
    spans = [span for member, span in _members(text, start) if member in ("name", key)]
    call = WrittenCall(name, arguments, min(a for a, _ in spans), max(b for _, b in spans))
    return call, len(text) - len(rest)


def _arguments(given: Any) -> dict[str, Any]:
    if isinstance(given, str):  # OpenAI writes them as JSON inside a string
        try:
            given = read_json(given)
        except NotJson as error:
            raise Broken(f"the arguments are not JSON: {error}") from None
    if not isinstance(given, dict):
        raise Broken(f"the arguments are a {type(given).__name__}, not an object")
    return given


def _members(text: str, start: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """Key and offsets (of key and value together) of each member of the sound JSON object that starts here."""
    decoder = json.JSONDecoder()
    at = skip(text, start + 1)
    while text[at] != "}":
        key, end = decoder.raw_decode(text, at)
        _, end = decoder.raw_decode(text, skip(text, end, SPACE + ":"))
        yield key, (at, end)
        at = skip(text, end, SPACE + ",")


def _require_storable(name: str, arguments: dict[str, Any]) -> None:
    """Raises Broken for what a checkpoint or a database could not take."""
    pending: list[tuple[Any, int]] = [(arguments, 1)]
    while pending:
        value, depth = pending.pop()
        if depth > _DEEPEST:
            raise Broken(f"the arguments are nested deeper than {_DEEPEST}")
        if isinstance(value, dict | list):
            pending += [(item, depth + 1) for item in (value.values() if isinstance(value, dict) else value)]
    try:
        (name + json.dumps(arguments, ensure_ascii=False)).encode()
    except UnicodeEncodeError:
        raise Broken("it holds half a character (a lone surrogate)") from None


def broken_call(written: str, error: Exception) -> BrokenCall:
    """The attempt, with its name where that can be told."""
    written = written.strip()
    match = _NAME.search(written)
    return BrokenCall(match[1] if match else None, written, str(error))
