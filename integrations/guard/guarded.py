"""The decorated function: called like the original, judged before its value is handed out."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Generic, ParamSpec, TypeVar, cast

from ...core.decision import Mode, Route
from ...core.errors import Abstained, CallFailed, ConfigurationError, Deferred
from ...core.run import Result, RunState
from ...router.router import Router
from ...router.site import Tool
from .arguments import make_call
from .bound_function import BoundFunction
from .options import RAISE, GuardOptions

P = ParamSpec("P")
R = TypeVar("R")


class _Base:
    """What the four kinds share: the function, its options, binding as a method, and what a result turns into."""

    def __init__(self, router: Router, function: Callable[..., Any], options: GuardOptions) -> None:
        self._router = router
        self._function = function
        self.options = options
        functools.update_wrapper(cast(Any, self), function)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """The method bound to its instance."""
        if instance is None:
            return self
        bound = type(self)(self._router, self._function.__get__(instance, owner), self.options)  # pyright: ignore[reportAttributeAccessIssue]
        bound.__signature__ = inspect.signature(bound._function)  # pyright: ignore[reportAttributeAccessIssue]
        return bound

    def _tool(self, bound: BoundFunction) -> Tool:
        # The arguments are those of this very call, of any type; the JSON ones in the log are for people.
        return Tool(
            name=self.options.name,
            run=lambda **_: bound.call(),
            arun=(lambda **_: bound.acall()) if bound.is_async else None,
            idempotent=self.options.idempotent,
        )

    def _settle(self, result: Result[Any]) -> Any:
        """The value where the route delivered; otherwise what the user asked for."""
        if result.delivered:
            return result.value
        if result.state in (RunState.FAILED, RunState.UNKNOWN):
            raise CallFailed(result)
        if result.route is Route.DEFER:
            return _instead(self.options.on_defer, result, Deferred(result, result.review_id or "(none)"))
        return _instead(self.options.on_abstain, result, Abstained(result))


class Guarded(_Base, Generic[P, R]):
    """What `guard` returns for a sync function.

    `fn(...)` returns the function's own type when the route delivers and otherwise raises `Abstained` or `Deferred`
    (or does what `on_abstain` / `on_defer` say); `fn.decide(...)` always returns the `Result`.
    """

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._settle(self.decide(*args, **kwargs))

    def decide(self, *args: P.args, **kwargs: P.kwargs) -> Result[R]:
        """Run the call and return everything that is known, delivered or not.

        Raises:
            Exception: whatever the function itself raised; its run is stored as failed.
        """
        bound = BoundFunction(self._function, args, kwargs, self.options)
        call = make_call(self.options, self._function, args, kwargs)
        if self.options.is_tool:
            return self._router.run(call, tool=self._tool(bound), proposal=bound.proposal())
        with bound.own_errors():
            result = self._router.run(call, model=bound, exclude=bound.routes_it_cannot_take())
        return bound.in_own_type(result)


class AsyncGuarded(_Base):
    """What `guard` returns for an async function."""

    # What asyncio.iscoroutinefunction looks for, so that frameworks await it.
    _is_coroutine = getattr(asyncio.coroutines, "_is_coroutine", None)

    def __init__(self, router: Router, function: Callable[..., Any], options: GuardOptions) -> None:
        super().__init__(router, function, options)
        mark = getattr(inspect, "markcoroutinefunction", None)
        if mark is not None:  # Python 3.12 and newer
            mark(self)

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        value = self._settle(await self.decide(*args, **kwargs))
        return await value if inspect.isawaitable(value) else value

    async def decide(self, *args: Any, **kwargs: Any) -> Result[Any]:
        bound = BoundFunction(self._function, args, kwargs, self.options)
        call = make_call(self.options, self._function, args, kwargs)
        if self.options.is_tool:
            return await self._router.arun(call, tool=self._tool(bound), proposal=bound.proposal())
        with bound.own_errors():
            result = await self._router.arun(call, model=bound, exclude=bound.routes_it_cannot_take())
        return bound.in_own_type(result)


class GeneratorGuarded(Guarded[..., Any]):
    """What `guard` returns for a generator function: buffers until the decision, or emits and ends with a verdict."""

    def __call__(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        if self.options.stream == "late":
            return self._late(args, kwargs)
        return self._buffered(args, kwargs)

    def _buffered(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
        value = self._settle(self.decide(*args, **kwargs))
        yield from value if isinstance(value, list | tuple) else [value]

    def _late(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
        items: list[Any] = []
        for item in self._function(*args, **kwargs):
            items.append(item)
            yield item
        bound = BoundFunction(self._function, args, kwargs, self.options, already=items)
        call = make_call(self.options, self._function, args, kwargs)
        yield self._router.run(call, model=bound, mode=Mode.ADVISE)


class AsyncGeneratorGuarded(_Base):
    """What `guard` returns for an async generator function."""

    async def __call__(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        stream = self._late(args, kwargs) if self.options.stream == "late" else self._buffered(args, kwargs)
        async for item in stream:
            yield item

    async def decide(self, *args: Any, **kwargs: Any) -> Result[Any]:
        bound = BoundFunction(self._function, args, kwargs, self.options)
        call = make_call(self.options, self._function, args, kwargs)
        with bound.own_errors():
            result = await self._router.arun(call, model=bound, exclude=bound.routes_it_cannot_take())
        return bound.in_own_type(result)

    async def _buffered(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> AsyncIterator[Any]:
        value = self._settle(await self.decide(*args, **kwargs))
        if inspect.isawaitable(value):
            value = await value
        for item in value if isinstance(value, list | tuple) else [value]:
            yield item

    async def _late(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> AsyncIterator[Any]:
        items: list[Any] = []
        async for item in self._function(*args, **kwargs):  # pyright: ignore[reportGeneralTypeIssues]
            items.append(item)
            yield item
        bound = BoundFunction(self._function, args, kwargs, self.options, already=items)
        call = make_call(self.options, self._function, args, kwargs)
        yield await self._router.arun(call, model=bound, mode=Mode.ADVISE)


def guarded_kind(function: Callable[..., Any], options: GuardOptions) -> type[_Base]:
    """Which of the four wraps this function.

    Raises:
        ConfigurationError: it is not a function, or `stream` was set for one that does not stream, or a tool streams.
    """
    if not callable(function) or inspect.isclass(function):
        raise ConfigurationError(f"guard wraps functions and methods, not {function!r}; decorate __call__ or a method")
    if isinstance(function, classmethod | staticmethod):
        raise ConfigurationError(f"put @guard below @{type(function).__name__}, next to the function")
    streams = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    if options.is_tool and streams:
        raise ConfigurationError(
            f"{options.name} is a tool and a generator; a tool returns once, after its effect: return a list instead"
        )
    if options.stream is not None and not streams:
        raise ConfigurationError(
            f"guard(stream={options.stream!r}): {options.name} is not a generator; leave stream out"
        )
    if inspect.isasyncgenfunction(function):
        return AsyncGeneratorGuarded
    if inspect.isgeneratorfunction(function):
        return GeneratorGuarded
    if inspect.iscoroutinefunction(function):
        return AsyncGuarded
    return Guarded


def _instead(wanted: Any, result: Result[Any], error: Abstained | Deferred) -> Any:
    if wanted is RAISE or wanted == RAISE:
        raise error
    return wanted(result) if callable(wanted) else wanted
