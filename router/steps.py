"""One plan, two drivers: a generator yields steps, and the driver runs each one in its sync or its async form.

So sync and async cannot drift apart (rule 8): there is one course of events, written once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

Plan = Generator["Step[Any]", Any, T]
"""Yields steps, receives what each gave, returns the plan's own result."""


@dataclass(frozen=True)
class Step(Generic[T]):
    """Something to do, in both forms."""

    run: Callable[[], T]
    arun: Callable[[], Awaitable[T]]


def blocking(function: Callable[..., T], *arguments: Any, **options: Any) -> Step[T]:
    """A step that only exists in sync form (SQL, arithmetic); in async it runs in a worker thread."""
    return Step(
        run=lambda: function(*arguments, **options),
        arun=lambda: asyncio.to_thread(function, *arguments, **options),
    )


def drive(plan: Plan[T]) -> T:
    """Run a plan to its end."""
    try:
        step = next(plan)
        while True:
            try:
                value = step.run()
            except BaseException as error:  # noqa: BLE001 - the plan decides what to do with it
                step = plan.throw(error)
            else:
                step = plan.send(value)
    except StopIteration as stop:
        return stop.value


async def adrive(plan: Plan[T]) -> T:
    """Run a plan to its end without blocking the event loop."""
    try:
        step = next(plan)
        while True:
            try:
                value = await step.arun()
            except StopIteration as error:
                # A StopIteration cannot be thrown into a generator as itself.
                step = plan.throw(RuntimeError(f"a step raised StopIteration: {error.value!r}"))
            except BaseException as error:  # noqa: BLE001 - cancellation included: the plan closes its run first
                step = plan.throw(error)
            else:
                step = plan.send(value)
    except StopIteration as stop:
        return stop.value
