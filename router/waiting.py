"""Waiting for a human: blocking, by future, or by asking now and then."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from ..core.errors import ConfigurationError, StillWaiting
from ..core.run import Result

Poll = Callable[[str], "Result[Any] | None"]

_SHORTEST, _LONGEST = 0.05, 2.0


def pauses() -> Callable[[], float]:
    """Pauses that grow from 50 ms to two seconds: a quick decision is seen at once, a slow one costs little."""
    pause = _SHORTEST / 1.5

    def following() -> float:
        nonlocal pause
        pause = min(pause * 1.5, _LONGEST)
        return pause

    return following


def wait(
    poll: Poll,
    run_id: str,
    timeout: float | None,
    *,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> Result[Any]:
    """Block until the run has ended.

    Raises:
        StillWaiting: it has not within `timeout` seconds; it goes on waiting.
    """
    _check_timeout(timeout)
    following, started = pauses(), monotonic()
    while True:
        result = poll(run_id)
        if result is not None:
            return result
        pause = following()
        if timeout is not None:
            left = timeout - (monotonic() - started)
            if left <= 0.0:
                raise StillWaiting(run_id, None)
            pause = min(pause, left)
        sleep(pause)


async def await_result(
    poll: Callable[[str], Any],
    run_id: str,
    timeout: float | None,
    *,
    sleep: Callable[[float], Any] = asyncio.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> Result[Any]:
    """The async twin of `wait`; `poll` is async."""
    _check_timeout(timeout)
    following, started = pauses(), monotonic()
    while True:
        result = await poll(run_id)
        if result is not None:
            return result
        pause = following()
        if timeout is not None:
            left = timeout - (monotonic() - started)
            if left <= 0.0:
                raise StillWaiting(run_id, None)
            pause = min(pause, left)
        await sleep(pause)


class Futures:
    """Futures of waiting runs, all looked after by one thread, which ends when none is left."""

    def __init__(self, poll: Poll) -> None:
        self._poll = poll
        self._waiting: dict[str, list[Future[Result[Any]]]] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False

    def of(self, run_id: str) -> Future[Result[Any]]:
        """A future that ends when the run does; cancelling it stops nothing but the looking."""
        future: Future[Result[Any]] = Future()
        with self._lock:
            if self._closed:
                raise ConfigurationError("this router is closed; make a new one to wait for reviews")
            self._waiting.setdefault(run_id, []).append(future)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="demur-waiting", daemon=True)
                self._thread.start()
        self._wake.set()
        return future

    def close(self) -> None:
        """Cancel what still waits."""
        with self._lock:
            self._closed = True
            left = [future for futures in self._waiting.values() for future in futures]
            self._waiting.clear()
        for future in left:
            future.cancel()
        self._wake.set()

    def _work(self) -> None:
        following = pauses()
        while True:
            with self._lock:
                for run_id in list(self._waiting):
                    self._waiting[run_id] = [one for one in self._waiting[run_id] if not one.cancelled()]
                    if not self._waiting[run_id]:
                        del self._waiting[run_id]
                if not self._waiting:
                    self._thread = None
                    return
                asked = list(self._waiting)
            for run_id in asked:
                self._look(run_id)
            if self._wake.wait(following()):
                self._wake.clear()
                following = pauses()

    def _look(self, run_id: str) -> None:
        try:
            result = self._poll(run_id)
        except BaseException as error:  # noqa: BLE001 - whatever the tool raised belongs to who waits for it
            self._end(run_id, lambda future, error=error: future.set_exception(error))
        else:
            if result is not None:
                self._end(run_id, lambda future: future.set_result(result))

    def _end(self, run_id: str, how: Callable[[Future[Result[Any]]], None]) -> None:
        with self._lock:
            futures = self._waiting.pop(run_id, [])
        for future in futures:
            if future.set_running_or_notify_cancel():
                how(future)


def _check_timeout(timeout: float | None) -> None:
    if timeout is not None and not timeout >= 0.0:
        raise ConfigurationError(f"timeout={timeout} must be seconds of at least 0, or None to wait for ever")
