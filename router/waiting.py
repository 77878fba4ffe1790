"""Waiting for a human: blocking, awaiting, or by future. Nobody spins: who waits sleeps until a bell rings or it is
time to look again."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from typing import Any

from ..core.errors import ConfigurationError, StillWaiting
from ..core.run import Result
from ..review.bell import bell

Look = Callable[[], "Result[Any] | StillWaiting"]
ALook = Callable[[], "Awaitable[Result[Any] | StillWaiting]"]

_GROWTH = 1.5


def pauses(shortest: float, longest: float) -> Iterator[float]:
    """Seconds between looks, growing: a quick decision is seen at once, a slow one costs little."""
    pause = shortest
    while True:
        yield pause
        pause = min(pause * _GROWTH, longest)


def wait(
    look: Look,
    timeout: float | None,
    between: Iterator[float],
    *,
    monotonic: Callable[[], float] = time.monotonic,
    pause: Callable[[threading.Event, float], object] = threading.Event.wait,
) -> Result[Any]:
    """Block until the run has ended.

    Args:
        look: gives the result, or says that it still waits.
        timeout: seconds of the caller's own time; None: for ever.
        between: seconds to the next look; a decision made in this process is looked at at once.
        pause: waits for the event, but no longer than so many seconds.

    Raises:
        StillWaiting: it has not within `timeout` seconds; it goes on waiting.
    """
    check_timeout(timeout)
    started, rung = monotonic(), threading.Event()
    with bell.heard_by(rung.set):
        while True:
            rung.clear()
            found = look()
            if not isinstance(found, StillWaiting):
                return found
            pause(rung, _seconds(found, timeout, monotonic() - started, between))


async def await_result(
    look: ALook,
    timeout: float | None,
    between: Iterator[float],
    *,
    monotonic: Callable[[], float] = time.monotonic,
    pause: Callable[[asyncio.Event, float], Awaitable[object]] | None = None,
) -> Result[Any]:
    """The async twin of `wait`."""
    check_timeout(timeout)
    started, rung = monotonic(), asyncio.Event()
    with bell.heard_by(heard_in(asyncio.get_running_loop(), rung)):
        while True:
            rung.clear()
            found = await look()
            if not isinstance(found, StillWaiting):
                return found
            await (pause or _pause)(rung, _seconds(found, timeout, monotonic() - started, between))


def check_timeout(timeout: float | None) -> None:
    """Refuse what is no time.

    Raises:
        ConfigurationError: with the value.
    """
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is not None and not (is_number and timeout >= 0.0):  # NaN lands here too
        raise ConfigurationError(f"timeout={timeout!r} must be seconds of at least 0, or None to wait for ever")


def _seconds(found: StillWaiting, timeout: float | None, passed: float, between: Iterator[float]) -> float:
    if timeout is None:
        return next(between)
    if passed >= timeout:
        raise found
    return min(next(between), timeout - passed)


def heard_in(loop: asyncio.AbstractEventLoop, rung: asyncio.Event) -> Callable[[], None]:
    """A listener that sets an event of a loop, from whatever thread rings."""

    def ring() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits there any more
            loop.call_soon_threadsafe(rung.set)

    return ring


async def _pause(rung: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(rung.wait(), seconds)


class Futures:
    """Futures of waiting runs, all looked after by one thread, which ends when none is left.

    Args:
        look: as for `wait`, of a run's id. A tool that it runs keeps the other futures waiting.
        between: makes the pauses between looks, afresh whenever something new is waited for.
    """

    def __init__(
        self, look: Callable[[str], Result[Any] | StillWaiting], between: Callable[[], Iterator[float]]
    ) -> None:
        self._look_at = look
        self._between = between
        self._waiting: dict[str, list[Future[Result[Any]]]] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False

    def of(self, run_id: str) -> Future[Result[Any]]:
        """A future that ends when the run does; cancelling it stops nothing but the looking.

        Raises:
            ConfigurationError: closed.
        """
        future: Future[Result[Any]] = Future()
        with self._lock:
            if self._closed:
                raise ConfigurationError("this router is closed; make a new one to wait for reviews")
            self._waiting.setdefault(run_id, []).append(future)
            if self._thread is None or not self._thread.is_alive():  # it does not survive a fork
                self._thread = threading.Thread(target=self._work, name="demur-waiting", daemon=True)
                self._thread.start()
        self._wake.set()
        return future

    def close(self) -> None:
        """Cancel what still waits; a tool that is being run is run to its end."""
        with self._lock:
            self._closed = True
            left = [future for futures in self._waiting.values() for future in futures]
            self._waiting.clear()
            thread = self._thread
        for future in left:
            future.cancel()
        self._wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _work(self) -> None:
        with bell.heard_by(self._wake.set):
            between = self._between()
            known: set[str] = set()
            while asked := self._asked():
                if not known.issuperset(asked):
                    between = self._between()
                known = set(asked)
                self._wake.clear()
                for run_id in asked:
                    self._look(run_id)
                self._wake.wait(next(between))

    def _asked(self) -> list[str]:
        """What is waited for; cancelled futures are dropped. With nothing left the thread ends."""
        with self._lock:
            for run_id in list(self._waiting):
                self._waiting[run_id] = [one for one in self._waiting[run_id] if not one.cancelled()]
                if not self._waiting[run_id]:
                    del self._waiting[run_id]
            if not self._waiting:
                self._thread = None
            return list(self._waiting)

    def _look(self, run_id: str) -> None:
        try:
            found = self._look_at(run_id)
        except BaseException as error:  # noqa: BLE001 - whatever the tool raised belongs to who waits for it
            self._end(run_id, lambda future, error=error: future.set_exception(error))
        else:
            if not isinstance(found, StillWaiting):
                self._end(run_id, lambda future: future.set_result(found))

    def _end(self, run_id: str, how: Callable[[Future[Result[Any]]], None]) -> None:
        with self._lock:
            futures = self._waiting.pop(run_id, [])
        for future in futures:
            if future.set_running_or_notify_cancel():
                how(future)
