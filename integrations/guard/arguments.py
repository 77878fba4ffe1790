"""From a Python call to a `Call`: the question, or the tool's arguments as JSON."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

from ...core.call import Call, CallKind, Message
from .options import GuardOptions

LONGEST_VALUE = 10_000


def to_json(value: Any) -> Any:
    """The value as JSON where it is JSON; otherwise its repr, marked, so that a reviewer sees what it was."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        if isinstance(value, Mapping):
            return {str(key): to_json(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [to_json(item) for item in value]
        return {"python": type(value).__qualname__, "repr": repr(value)[:LONGEST_VALUE]}


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
    """What was asked, for people and for larger models: as the user says, or the first text among the arguments."""
    if options.question is not None:
        return str(options.question(*args, **kwargs))
    for value in arguments.values():
        if isinstance(value, str):
            return value
    return json.dumps(to_json(arguments), ensure_ascii=False)


def make_call(
    options: GuardOptions, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Call:
    """The `Call` that one use of the decorated function amounts to."""
    arguments = bound_arguments(function, args, kwargs)
    key = options.idempotency_key(*args, **kwargs) if options.idempotency_key is not None else None
    common: dict[str, Any] = {
        "task": options.task,
        "tenant": options.tenant,
        "side_effects": options.side_effects,
        "idempotency_key": key,
    }
    if options.is_tool:
        return Call(kind=CallKind.TOOL, tool_name=options.name, arguments=to_json(arguments), **common)
    question = question_of(options, arguments, args, kwargs)
    return Call(kind=CallKind.LLM, messages=(Message(role="user", content=question),), **common)
