"""From the arguments in the log back to a use of the function, for calls that a human let through later."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from ...core.record import canonical_json
from ...core.text import limited
from ...router.site import Tool
from .arguments import bind, to_json
from .bound_function import BoundFunction
from .kinds import Kind, kind_of
from .options import GuardOptions

Arguments = Mapping[str, Any]


def logged_tool(function: Callable[..., Any], options: GuardOptions, given: Arguments | None = None) -> Tool:
    """The function as a tool that runs with the arguments as they stand in the log.

    Args:
        given: values for arguments that are not in the log, because they were no JSON.
    """
    handed = dict(given or {})

    def refuses(logged: Arguments) -> str | None:
        missing = not_in_log(function, logged)
        for name in handed:
            if name not in missing:
                return f"{name!r} is in the log, and as it stands there it was let through; leave it out"
        left = {name: what for name, what in missing.items() if name not in handed}
        if not left:
            return None
        named = ", ".join(f"{name!r} ({limited(what, 100)})" for name, what in left.items())
        return (
            f"{named} was no JSON and is not in the log; call {options.name} again under its idempotency key, or hand "
            f"it in: {options.name}.resume(run_id, {next(iter(left))}=...)"
        )

    def bound(logged: Arguments) -> BoundFunction:
        args, kwargs = use_of(function, logged, handed)
        return BoundFunction(function, args, kwargs, options)

    return _tool(function, options, bound, refuses)


def called_tool(function: Callable[..., Any], options: GuardOptions, made: Arguments, call: BoundFunction) -> Tool:
    """The function as a tool that runs with the arguments of one call, of any type, or with what an edit made of them.

    Args:
        made: the arguments as they went into the log.
        call: that one call.
    """

    def bound(logged: Arguments) -> BoundFunction:
        if _same(logged, made):
            return call
        kept = {
            name: value
            for name, value in bind(function, *call.arguments).arguments.items()
            if name not in made or (name in logged and _same(logged[name], made[name]))
        }
        args, kwargs = use_of(function, logged, kept)
        return BoundFunction(function, args, kwargs, options)

    return _tool(function, options, bound, None)


def _tool(
    function: Callable[..., Any],
    options: GuardOptions,
    bound: Callable[[Arguments], BoundFunction],
    refuses: Callable[[Arguments], str | None] | None,
) -> Tool:
    is_async = kind_of(function) is Kind.ASYNC
    return Tool(
        name=options.name,
        run=(lambda **logged: to_its_end(bound(logged).acall)) if is_async else (lambda **logged: bound(logged).call()),
        arun=(lambda **logged: bound(logged).acall()) if is_async else None,
        idempotent=options.idempotent,
        source=function,
        side_effects=options.side_effects,
        refuses=refuses,
    )


def use_of(function: Callable[..., Any], logged: Arguments, kept: Arguments) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments that come to what is logged by parameter name.

    Args:
        kept: values to use instead of what is logged.

    Raises:
        TypeError: the function has no such parameter, as when calling it.
    """
    signature = _signature(function, logged)
    bound, rest = inspect.BoundArguments(signature, {}), dict(logged)  # pyright: ignore[reportArgumentType]
    for name, parameter in signature.parameters.items():
        if name not in rest and name not in kept:
            continue
        value = kept[name] if name in kept else _own(parameter, rest[name])
        rest.pop(name, None)
        bound.arguments[name] = tuple(value) if parameter.kind is parameter.VAR_POSITIONAL else value
    return bound.args, {**bound.kwargs, **rest}  # what is left has no parameter: calling says so


def not_in_log(function: Callable[..., Any], logged: Arguments) -> dict[str, str]:
    """Arguments that were no JSON: name → what is known of each. One that has its default value is not missing."""
    parameters = _signature(function, logged).parameters
    missing = {}
    for name, value in logged.items():
        if not _holds_mark(value):
            continue
        parameter = parameters.get(name)
        if parameter is None or _own(parameter, value) is value:
            missing[name] = str(value.get("python", "")) if isinstance(value, dict) else "in part"
    return missing


def to_its_end(function: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """What an async function gives, from sync code; in a thread of its own where an event loop runs in this one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(function())
    ended: list[Any] = []

    def work() -> None:
        try:
            ended.extend((asyncio.run(function()), None))
        except BaseException as error:  # noqa: BLE001 - raised again where it was asked for
            ended.extend((None, error))

    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,))
    thread.start()
    thread.join()
    value, error = ended
    if error is not None:
        raise error
    return value


def _signature(function: Callable[..., Any], logged: Arguments) -> inspect.Signature:
    """That which the logged names are from: a decorator below may show another than it has (see `bind`)."""
    shown = inspect.signature(function)
    return shown if shown.parameters.keys() >= logged.keys() else _wider(function, shown, logged)


def _wider(function: Callable[..., Any], shown: inspect.Signature, logged: Arguments) -> inspect.Signature:
    own = inspect.signature(function, follow_wrapped=False)
    return own if own.parameters.keys() >= logged.keys() else shown


def _own(parameter: inspect.Parameter, logged: Any) -> Any:
    """The parameter's default itself where that is what was logged: a sentinel, say, has no JSON."""
    has_default = parameter.default is not parameter.empty
    return parameter.default if has_default and _same(to_json(parameter.default), logged) else logged


def _holds_mark(value: Any) -> bool:
    """Is there anything in it that `to_json` could only describe, or cut?"""
    if isinstance(value, dict):
        described = value.keys() == {"python", "repr"}
        return described or "…" in value or any(_holds_mark(each) for each in value.values())
    if isinstance(value, list):
        cut = bool(value) and isinstance(value[-1], str) and value[-1].startswith("… cut:")
        return cut or any(_holds_mark(each) for each in value)
    return False


def _same(one: Any, other: Any) -> bool:
    """As JSON, types included: an edit from 3 to 3.0 is an edit."""
    return canonical_json(one) == canonical_json(other)
