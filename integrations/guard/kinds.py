"""What kind of function is decorated, and whether the options go with it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from ...core.errors import ConfigurationError
from .options import GuardOptions


class Kind(StrEnum):
    """How a function gives its answer."""

    PLAIN = "function"
    ASYNC = "async function"
    GENERATOR = "generator"
    ASYNC_GENERATOR = "async generator"


def kind_of(function: Callable[..., Any]) -> Kind:
    """The kind of a function, method, `functools.partial`, or object with `__call__`."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    if inspect.isasyncgenfunction(function):
        return Kind.ASYNC_GENERATOR
    if inspect.isgeneratorfunction(function):
        return Kind.GENERATOR
    return Kind.ASYNC if inspect.iscoroutinefunction(function) else Kind.PLAIN


def name_of(function: Callable[..., Any]) -> str:
    """What to call it: its qualified name without the functions it was defined in."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return str(name).rpartition("<locals>.")[2]


def returns_text(function: Callable[..., Any]) -> bool:
    """Is it annotated `-> str`? Then another model's text is of its own type."""
    return inspect.signature(function).return_annotation in (str, "str")


def check_function(function: Callable[..., Any], options: GuardOptions) -> Kind:
    """The kind of the function.

    Raises:
        ConfigurationError: it cannot be wrapped, or an option does not go with its kind.
    """
    if not callable(function) or inspect.isclass(function):
        raise ConfigurationError(f"guard wraps functions and methods, not {function!r}; decorate __call__ or a method")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"guard of {options.name}: its parameters cannot be read; wrap it in a def") from error
    kind = kind_of(function)
    if options.is_tool and kind in (Kind.GENERATOR, Kind.ASYNC_GENERATOR):
        raise ConfigurationError(
            f"{options.name} is a tool and a generator; a tool returns once, after its effect: return a list instead"
        )
    if options.stream is not None and kind in (Kind.PLAIN, Kind.ASYNC):
        raise ConfigurationError(
            f"guard(stream={options.stream!r}): {options.name} is not a generator; leave stream out"
        )
    if options.documents is not None and not _takes(signature, options.documents):
        raise ConfigurationError(
            f"guard(documents={options.documents!r}): {options.name}{signature} has no such keyword"
        )
    if isinstance(options.conversation, str) and not _has(signature, options.conversation):
        raise ConfigurationError(
            f"guard(conversation={options.conversation!r}): {options.name}{signature} has no such parameter"
        )
    own_text = kind in (Kind.PLAIN, Kind.ASYNC) and returns_text(function)
    if options.idempotency_key is not None and not options.is_tool and options.build is None and not own_text:
        raise ConfigurationError(
            f"guard(idempotency_key=...) of {options.name}: of an answer only the text is kept under its key; annotate "
            "the function '-> str', or say with build= how its own type is made of the text"
        )
    if options.waits and not options.is_tool and options.build is None and not own_text:
        raise ConfigurationError(
            f"guard(on_defer='wait') of {options.name}: a reviewer answers in words; annotate the function '-> str', "
            "or say with build= how its own type is made of a text"
        )
    if kind in (Kind.PLAIN, Kind.GENERATOR):
        _refuse_async_ends(options)
    return kind


def _takes(signature: inspect.Signature, keyword: str) -> bool:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
    found = signature.parameters.get(keyword)
    if found is not None:
        return found.kind not in positional
    return any(each.kind is inspect.Parameter.VAR_KEYWORD for each in signature.parameters.values())


def _has(signature: inspect.Signature, name: str) -> bool:
    """Is there a parameter of this name to read from, or a place where a keyword of any name goes?"""
    gathering = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    found = signature.parameters.get(name)
    if found is not None and found.kind not in gathering:
        return name not in ("self", "cls")
    return any(each.kind is inspect.Parameter.VAR_KEYWORD for each in signature.parameters.values())


def _refuse_async_ends(options: GuardOptions) -> None:
    for option in ("on_abstain", "on_defer"):
        if inspect.iscoroutinefunction(getattr(options, option)):
            raise ConfigurationError(
                f"guard({option}=...) of {options.name} is async, and {options.name} is not: nobody would await it"
            )
