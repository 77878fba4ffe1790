"""The decorated function: called like the original, judged before its value is handed out."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, Self, TypeVar, cast

from ...core.errors import Abstained, BadInput, CallFailed, Deferred, ResultNotStored
from ...core.run import NotStored, Result, RunState
from ...router.router import Router
from .arguments import make_call
from .bound_function import BoundFunction
from .logged import called_tool, logged_tool
from .options import RAISE, GuardOptions

P = ParamSpec("P")
R = TypeVar("R")


class Base:
    """What the four kinds share: the function, its options, binding as a method, and what a result turns into."""

    def __init__(self, router: Router, function: Callable[..., Any], options: GuardOptions) -> None:
        # First: what the function carries in its __dict__ must not take the place of the guard's own.
        functools.update_wrapper(cast("Any", self), function)
        self._router = router
        self._function = function
        self._owner: Any = None
        self.options = options

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """The method bound to its instance (or, below @classmethod, to its class)."""
        bind = getattr(self._function, "__get__", None)
        if instance is None or bind is None:
            return self
        bound = type(self)(self._router, bind(instance, owner), self.options)
        bound.__signature__ = inspect.signature(bound._function)  # pyright: ignore[reportAttributeAccessIssue]
        bound._owner = owner if instance is None else instance
        return bound

    # A function is copied and pickled as its name; so is what stands in its place.
    def __reduce__(self) -> Any:
        if self._owner is not None:
            return getattr, (self._owner, self._function.__name__)
        return str(getattr(self, "__qualname__", self.options.name))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self if self._owner is None else getattr(copy.deepcopy(self._owner, memo), self._function.__name__)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Base) or self._owner is None:
            return self is other
        return self._function == other._function and self._router is other._router and self.options is other.options

    def __hash__(self) -> int:
        return hash(self._function)

    def __repr__(self) -> str:
        return f"<guarded {self.options.name} of task {self.options.task!r}>"

    def _decide(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, wait: bool = False) -> Result[Any]:
        bound = BoundFunction(self._function, args, kwargs, self.options)
        call, tool = make_call(self.options, self._function, args, kwargs), None
        if self.options.is_tool:
            tool = called_tool(self._function, self.options, call.arguments, bound)
            result = self._router.run(call, tool=tool, proposal=bound.proposal())
        else:
            result = self._router.run(call, model=bound, exclude=bound.routes_it_cannot_take())
        if wait and result.state is RunState.WAITING and self.options.waits:
            result = self._router.wait(result.run_id, self.options.wait_timeout, tool=tool)
        return result if self.options.is_tool else bound.in_own_type(result)

    async def _adecide(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, wait: bool = False) -> Result[Any]:
        bound = BoundFunction(self._function, args, kwargs, self.options)
        call, tool = make_call(self.options, self._function, args, kwargs), None
        if self.options.is_tool:
            tool = called_tool(self._function, self.options, call.arguments, bound)
            result = await self._router.arun(call, tool=tool, proposal=bound.proposal())
        else:
            result = await self._router.arun(call, model=bound, exclude=bound.routes_it_cannot_take())
        if wait and result.state is RunState.WAITING and self.options.waits:
            result = await self._router.await_result(result.run_id, self.options.wait_timeout, tool=tool)
        return result if self.options.is_tool else bound.in_own_type(result)

    def _resume(self, run_id: str, given: dict[str, Any]) -> Result[Any]:
        if self.options.is_tool:
            return self._router.resume(run_id, tool=logged_tool(self._function, self.options, given))
        self._takes_nothing(given)
        return self._as_asked(self._router.resume(run_id))

    async def _aresume(self, run_id: str, given: dict[str, Any]) -> Result[Any]:
        if self.options.is_tool:
            return await self._router.aresume(run_id, tool=logged_tool(self._function, self.options, given))
        self._takes_nothing(given)
        return self._as_asked(await self._router.aresume(run_id))

    def _takes_nothing(self, given: dict[str, Any]) -> None:
        if given:
            raise BadInput(f"{self.options.name} answers, and is not called again by resume; leave {min(given)!r} out")

    def _as_asked(self, result: Result[Any]) -> Result[Any]:
        return BoundFunction(self._function, (), {}, self.options).in_own_type(result)

    def _settle(self, result: Result[Any]) -> Any:
        """The value where the route delivered; otherwise what the user asked for."""
        if result.delivered:
            return _whole(result, self.options.name)
        return self._instead(*self._end(result))

    async def _asettle(self, result: Result[Any]) -> Any:
        """The same; what an async `on_abstain` or `on_defer` promises is awaited."""
        if result.delivered:
            return _whole(result, self.options.name)
        value = self._instead(*self._end(result))
        return await value if inspect.isawaitable(value) else value

    def _end(self, result: Result[Any]) -> tuple[Any, Result[Any], Exception]:
        if result.state in (RunState.FAILED, RunState.UNKNOWN):
            raise CallFailed(result)
        if result.state is RunState.WAITING and result.review_id is not None:
            return self.options.on_defer, result, Deferred(result, result.review_id)
        return self.options.on_abstain, result, Abstained(result)

    @staticmethod
    def _instead(wanted: Any, result: Result[Any], error: Exception) -> Any:
        if isinstance(wanted, str) and wanted == RAISE:
            raise error
        return wanted(result) if callable(wanted) else wanted


class Guarded(Base, Generic[P, R]):
    """What `guard` returns for a sync function.

    `fn(...)` returns the function's own type when the route delivers and otherwise raises `Abstained` or `Deferred`
    (or does what `on_abstain` / `on_defer` say); `fn.decide(...)` always returns the `Result`.
    """

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._settle(self._decide(args, kwargs, wait=True))

    def decide(self, /, *args: P.args, **kwargs: P.kwargs) -> Result[R]:
        """Run the call and return everything that is known, delivered or not.

        Raises:
            Exception: whatever the function itself raised; its run is stored as failed.
        """
        return self._decide(args, kwargs)

    def resume(self, run_id: str, /, **given: Any) -> Result[R]:
        """Carry a call of this function out that a human let through: `Router.resume` with this very function.

        Args:
            given: values for arguments that are not in the log because they were no JSON; nothing else is taken.

        Raises:
            StillWaiting: nobody has decided yet.
            BadInput: something that is not in the log was not handed in, or something that is was.
        """
        return self._resume(run_id, given)


class AsyncGuarded(Base):
    """What `guard` returns for an async function."""

    # What asyncio.iscoroutinefunction looks for, so that frameworks await it.
    _is_coroutine = getattr(asyncio.coroutines, "_is_coroutine", None)

    def __init__(self, router: Router, function: Callable[..., Any], options: GuardOptions) -> None:
        super().__init__(router, function, options)
        mark = getattr(inspect, "markcoroutinefunction", None)
        if mark is not None:  # Python 3.12 and newer
            mark(self)

    async def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return await self._asettle(await self._adecide(args, kwargs, wait=True))

    async def decide(self, /, *args: Any, **kwargs: Any) -> Result[Any]:
        """As `Guarded.decide`."""
        return await self._adecide(args, kwargs)

    async def resume(self, run_id: str, /, **given: Any) -> Result[Any]:
        """As `Guarded.resume`."""
        return await self._aresume(run_id, given)


class BoundToClass:
    """A guard above @classmethod: called through the class or an instance, it gets the class."""

    def __init__(self, guarded: Base) -> None:
        self.guarded = guarded

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        owner = owner or type(instance)
        return self.guarded.__get__(owner, type(owner))


def _whole(result: Result[Any], name: str) -> Any:
    """The value.

    Raises:
        ResultNotStored: the result came from the log, which could not keep its value.
    """
    if not isinstance(result.value, NotStored):
        return result.value
    raise ResultNotStored(
        f"{name} was carried out before under this key (run {result.run_id}), but what it returned "
        f"({result.value.type_name}) is not JSON and was kept as text only: {result.value.text[:200]}; have it return "
        "JSON values",
        type_name=result.value.type_name,
        text=result.value.text,
    )
