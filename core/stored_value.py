"""A value of any type on its way into a text column and back: exactly, or openly not at all."""

from __future__ import annotations

import json
from typing import Any

from .errors import StoreError
from .run import NotStored
from .text import limited

_TEXT_LIMIT = 10_000


def pack(value: Any) -> str:
    """JSON text from which `unpack` gives an equal value, or a `NotStored` where JSON cannot hold it.

    "Equal" is meant strictly: a tuple (which would come back as a list) or a dict with integer keys is not stored.
    """
    if isinstance(value, NotStored):
        return value.model_dump_json()
    try:
        text = json.dumps({"json": value}, allow_nan=False)
        exact = _same(json.loads(text)["json"], value)
    except (TypeError, ValueError, RecursionError):
        exact, text = False, ""
    return text if exact else not_stored(value).model_dump_json()


def not_stored(value: Any) -> NotStored:
    """What is kept of a value that JSON cannot hold."""
    try:
        shown = repr(value)
    except Exception as error:  # noqa: BLE001 a foreign __repr__ may raise anything
        shown = f"<no repr: {type(error).__name__}>"
    return NotStored(type_name=limited(type(value).__qualname__, 200), text=limited(shown, _TEXT_LIMIT))


def unpack(text: str) -> Any:
    """The value, or the `NotStored` that stands for it.

    Raises:
        StoreError: the text was not written by `pack`.
    """
    try:
        document = json.loads(text)
        return document["json"] if "json" in document else NotStored.model_validate(document)
    except (TypeError, ValueError, KeyError) as error:
        raise StoreError(f"a stored value is damaged: {limited(text, 200)!r}") from error


def _same(left: Any, right: Any) -> bool:
    """Equal in value and in JSON type (True is not 1, a tuple is not a list)."""
    if isinstance(left, dict):
        return isinstance(right, dict) and left.keys() == right.keys() and all(_same(left[k], right[k]) for k in left)
    if isinstance(left, list):
        return (
            isinstance(right, list)
            and len(left) == len(right)
            and all(_same(a, b) for a, b in zip(left, right, strict=True))
        )
    return type(left) is type(right) and left == right
