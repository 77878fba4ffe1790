"""From a Python call to a `Call`: the question, or the tool's arguments as JSON."""

from __future__ import annotations

import inspect
import logging
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from ...core.call import Call, CallKind, Message
from ...core.errors import BadInput
from ...core.record import canonical_json
from ...core.text import limited
from .options import GuardOptions

logger = logging.getLogger("demur")

LONGEST_REPR = 10_000
DEEPEST = 20

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def storable(text: str) -> str:
    """The text whole, but for lone surrogates, which no database takes."""
    return limited(text, len(text))


def to_json(value: Any, depth: int = 0) -> Any:
    """The value as JSON where it is JSON; otherwise its repr, marked, so that a reviewer sees what it was."""
    if value is None or type(value) in (bool, int):
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is str:
        return storable(value)
    if depth < DEEPEST and isinstance(value, Mapping):
        return {storable(str(key)): to_json(item, depth + 1) for key, item in value.items()}
    if depth < DEEPEST and isinstance(value, list | tuple):
        return [to_json(item, depth + 1) for item in value]
    return {"python": type(value).__qualname__, "repr": _shown(value)}


def _shown(value: Any) -> str:
    """The repr, without the address in memory: the same call must look the same twice."""
    try:
        return limited(_ADDRESS.sub("", repr(value)), LONGEST_REPR)
    except Exception as error:  # noqa: BLE001 - a foreign __repr__ may raise anything
        return f"<no repr: {type(error).__name__}>"


def bound_arguments(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by parameter name, without `self` and `cls`, with defaults filled in.

    Raises:
        TypeError: they do not fit the function, as when calling it.
    """
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return {name: value for name, value in bound.arguments.items() if name not in ("self", "cls")}


def question_of(
    options: GuardOptions, arguments: Mapping[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> str:
    """What was asked, for people and for larger models: as the user says, or the first text among the arguments.

    An extractor that fails is reported; it must not break a working function.
    """
    if options.question is not None:
        try:
            return storable(str(options.question(*args, **kwargs)))
        except Exception as error:  # noqa: BLE001 - the user's code, beside the point of the call
            logger.warning("guard(question=...) of %s raised %s: %s", options.name, type(error).__name__, error)
    for value in arguments.values():
        if isinstance(value, str):
            return storable(value)
    return canonical_json(to_json(arguments))


def key_of(options: GuardOptions, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
    """The idempotency key. Unlike other extractors it must not fail: without its key an effect could happen twice.

    Raises:
        BadInput: it raised, or gave something that is not a text of 1 to 200 characters.
    """
    if options.idempotency_key is None:
        return None
    try:
        key = options.idempotency_key(*args, **kwargs)
    except Exception as error:
        raise BadInput(
            f"guard(idempotency_key=...) of {options.name} raised {type(error).__name__}: {error}; {options.name} did "
            "not run"
        ) from error
    if not isinstance(key, str) or not 1 <= len(key) <= 200:
        raise BadInput(
            f"guard(idempotency_key=...) of {options.name} returned {_shown(key)[:300]}; it must be a str of 1 to 200 "
            f"characters. {options.name} did not run"
        )
    return storable(key)


def make_call(
    options: GuardOptions, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Call:
    """The `Call` that one use of the decorated function amounts to.

    Raises:
        TypeError: the arguments do not fit the function.
        BadInput: there is no usable idempotency key.
    """
    arguments = bound_arguments(function, args, kwargs)
    common: dict[str, Any] = {
        "task": options.task,
        "tenant": options.tenant,
        "side_effects": options.side_effects,
        "idempotency_key": key_of(options, args, kwargs),
    }
    if options.is_tool:
        return Call(kind=CallKind.TOOL, tool_name=options.name, arguments=to_json(arguments), **common)
    question = question_of(options, arguments, args, kwargs)
    return Call(kind=CallKind.LLM, messages=(Message(role="user", content=question),), **common)
