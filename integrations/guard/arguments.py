"""From a Python call to a `Call`: the question, or the tool's arguments as JSON."""

from __future__ import annotations

import inspect
import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

from ...core.call import Call, CallKind, Message
from ...core.errors import BadInput
from ...core.record import canonical_json
from ...core.text import limited, said, storable
from .options import GuardOptions

logger = logging.getLogger("demur")

LONGEST_REPR = 10_000
DEEPEST = 20
MOST_PARTS = 100_000
LARGEST_INTEGER = 10**300

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def to_json(value: Any) -> Any:
    """The value as JSON where it is JSON; otherwise its repr, marked, so that a reviewer sees what it was.

    It is for people and never fails: what cannot be read is said so, and beyond `MOST_PARTS` parts it is cut.
    """
    return _part(value, 0, [MOST_PARTS])


def _part(value: Any, depth: int, left: list[int]) -> Any:
    """`left` counts down over the whole value: a list that holds itself twice grows without end."""
    left[0] -= 1
    if value is None or type(value) is bool or (type(value) is int and abs(value) < LARGEST_INTEGER):
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is str:
        return storable(value)
    if depth < DEEPEST and left[0] > 0 and isinstance(value, Mapping | list | tuple):
        try:
            if isinstance(value, Mapping):
                pairs = _first(value.items(), left)
                named = {storable(str(key)): _part(item, depth + 1, left) for key, item in pairs}
                return named if left[0] > 0 else named | {"…": f"cut: {len(value)} items in all"}
            listed = [_part(item, depth + 1, left) for item in _first(value, left)]
            return listed if left[0] > 0 else [*listed, f"… cut: {len(value)} items in all"]
        except Exception as error:  # noqa: BLE001 - a foreign container or key may raise anything
            logger.debug("an argument cannot be read: %s", said(error))
    return {"python": limited(type(value).__qualname__, 200), "repr": _shown(value)}


def _first(items: Iterable[Any], left: list[int]) -> Iterator[Any]:
    """As many items as there are parts left."""
    for item in items:
        if left[0] <= 0:
            return
        yield item


def _shown(value: Any) -> str:
    """The repr, without the address in memory: the same call must look the same twice."""
    try:
        return limited(_ADDRESS.sub("", repr(value)), LONGEST_REPR)
    except Exception as error:  # noqa: BLE001 - a foreign __repr__ may raise anything
        return f"<no repr: {type(error).__name__}>"


def bind(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
    """The arguments by parameter. A decorator that hands in arguments of its own shows a signature it does not have.

    Raises:
        TypeError: they fit neither the signature that is shown nor the one that is called.
    """
    try:
        return inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return inspect.signature(function, follow_wrapped=False).bind(*args, **kwargs)


def bound_arguments(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by parameter name, without `self` and `cls`, with defaults filled in.

    Raises:
        TypeError: they do not fit the function, as when calling it.
    """
    bound = bind(function, args, kwargs)
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
            logger.warning("guard(question=...) of %s raised %s", options.name, said(error))
    for name, value in arguments.items():
        if isinstance(value, str) and name != options.conversation:
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
            f"guard(idempotency_key=...) of {options.name} raised {said(error, 1000)}; {options.name} did not run"
        ) from error
    if not isinstance(key, str) or not 1 <= len(key) <= 200 or storable(key) != key:
        raise BadInput(
            f"guard(idempotency_key=...) of {options.name} returned {_shown(key)[:300]}; it must be a str of 1 to 200 "
            f"characters, no lone surrogates. {options.name} did not run"
        )
    return key


def takes_self(function: Callable[..., Any]) -> bool:
    """Is it a method, which only its instance can carry out?"""
    first = next(iter(inspect.signature(function).parameters), "")
    return first in ("self", "cls")


def conversation_of(
    options: GuardOptions, arguments: Mapping[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> str | None:
    """The conversation that this call belongs to; None where there is none.

    An extractor that fails, or gives what is no id, is reported; the call then stands alone in the queue.
    """
    wanted = options.conversation
    if wanted is None:
        return None
    if isinstance(wanted, str):
        found = arguments.get(wanted, kwargs.get(wanted))
    else:
        try:
            found = wanted(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the user's code, beside the point of the call
            logger.warning("guard(conversation=...) of %s raised %s", options.name, said(error))
            return None
    if found is None:
        return None
    known = isinstance(found, str | UUID) or (isinstance(found, int) and not isinstance(found, bool))
    if not known or not 1 <= len(named := str(found)) <= 200 or storable(named) != named:
        logger.warning("guard(conversation=...) of %s gave no id of 1 to 200 characters", options.name)
        return None
    return named


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
        "conversation_id": conversation_of(options, arguments, args, kwargs),
        "idempotency_key": key_of(options, args, kwargs),
    }
    if options.is_tool:
        return Call(kind=CallKind.TOOL, tool_name=options.name, arguments=to_json(arguments), **common)
    question = question_of(options, arguments, args, kwargs)
    return Call(kind=CallKind.LLM, messages=(Message(role="user", content=question),), **common)
