"""Run something in a thread to its end, whatever happens to who waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def settled(function: Callable[..., T], *arguments: Any) -> T:
    """Run in a thread to the end, even when cancelled meanwhile: a commit is never left to chance."""
    task = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
        except BaseException:  # noqa: BLE001, S110 the task's own error is taken from the task below
            pass
    if cancelled is not None:
        task.exception()
        raise cancelled
    return task.result()
