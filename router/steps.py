"""One plan, two drivers: a generator yields steps, and the driver runs each one in its sync or its async form.

So sync and async cannot drift apart (rule 8): there is one course of events, written once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from .settled import settled

T = TypeVar("T")

Plan = Generator["Step[Any]", Any, T]
"""Yields steps, receives what each gave, returns the plan's own result."""


@dataclass(frozen=True)
class Step(Generic[T]):
    """Something to do, in both forms."""

    run: Callable[[], T]
    arun: Callable[[], Awaitable[T]]


class Disguised(RuntimeError):
    """A StopIteration that a step raised: thrown into a generator as itself, it would be taken for its end."""

    def __init__(self, original: StopIteration) -> None:
        super().__init__(f"StopIteration: {original}")
        self.original = original


def blocking(function: Callable[..., T], *arguments: Any, **options: Any) -> Step[T]:
    """A step that only exists in sync form (SQL, arithmetic); in async it runs in a worker thread.

    Cancellation waits for its end: a commit that is under way is never left to chance.
    """
    call = partial(function, *arguments, **options)
    return Step(run=call, arun=lambda: settled(call))


def is_control_flow(error: BaseException) -> bool:
    """True for LangGraph's interrupts and commands to a parent graph, which only look like errors."""
    return any(c.__name__ == "GraphBubbleUp" and c.__module__.startswith("langgraph") for c in type(error).__mro__)


def drive(plan: Plan[T]) -> T:
    """Run a plan to its end."""
    given, ended = _advance(plan.send, None)
    while not ended:
        try:
            value = given.run()
        except StopIteration as error:
            given, ended = _advance(plan.throw, Disguised(error))
        except BaseException as error:  # noqa: BLE001 - the plan decides what to do with it
            given, ended = _advance(plan.throw, error)
        else:
            given, ended = _advance(plan.send, value)
    return given


async def adrive(plan: Plan[T]) -> T:
    """Run a plan to its end without blocking the event loop. Cancelled, the plan closes its run first."""
    given, ended = _advance(plan.send, None)
    while not ended:
        try:
            value = await given.arun()
        except GeneratorExit:
            plan.close()  # nobody awaits this coroutine any more: the plan can only tidy up
            raise
        except StopIteration as error:
            given, ended = _advance(plan.throw, Disguised(error))
        except BaseException as error:  # noqa: BLE001 - cancellation included
            given, ended = _advance(plan.throw, error)
        else:
            given, ended = _advance(plan.send, value)
    return given


def _advance(move: Callable[[Any], Step[Any]], given: Any) -> tuple[Any, bool]:
    """The plan's next step and False, or its result and True."""
    try:
        return move(given), False
    except StopIteration as end:
        return end.value, True
    except Disguised as error:
        raise error.original from None
