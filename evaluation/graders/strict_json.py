"""JSON as models write it, read without mercy: no duplicate keys, no NaN, no bottomless nesting."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

_FENCE = re.compile(r"```[^\n`]*\n(?P<body>.*?)(?:```|\Z)", re.DOTALL)


class NotJson(ValueError):
    """The text is not a JSON value that two readers would agree on."""


def _no_constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotJson("an object has the same key twice")
    return found


def _finite(literal: str) -> float:
    number = float(literal)
    if not math.isfinite(number):
        raise NotJson(f"{literal[:40]} is too large")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)


def read_prefix(text: str) -> tuple[Any, str]:
    """The JSON value that the text starts with (after white space), and the rest.

    Raises:
        NotJson: it starts with none.
    """
    stripped = text.lstrip()
    try:
        value, end = _DECODER.raw_decode(stripped)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)[:200]) from None
    return value, stripped[end:]


def read_json(text: str) -> Any:
    """The JSON value that the whole text is.

    Raises:
        NotJson: it is none.
    """
    value, rest = read_prefix(text)
    if rest.strip():
        raise NotJson("there is text after the JSON value")
    return value


def fenced(text: str) -> list[str]:
    """What stands between triple backticks; a fence that never closes runs to the end."""
    return [match["body"] for match in _FENCE.finditer(text)]


def same_json(left: Any, right: Any) -> bool:
    """Equal as JSON values: 1 equals 1.0, but true does not equal 1 and "1" does not equal 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_json(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    return (type(left) is type(right) or _are_numbers(left, right)) and left == right


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) for value in values)
