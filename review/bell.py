"""A bell for those who wait in this process: rung when something was decided, so that they look at once.

What other processes decide rings nothing here; it is found by looking now and then.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Bell:
    """Calls whoever listens. Safe to use from several threads; a forked child starts with nobody listening."""

    def __init__(self) -> None:
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[int, Callable[[], object]] = {}
        self._numbers = itertools.count()

    @contextmanager
    def heard_by(self, listener: Callable[[], object]) -> Iterator[None]:
        """Call `listener` at every ring while the block runs. It must be quick and not raise: set an event."""
        with self._lock:
            number = next(self._numbers)
            self._listeners[number] = listener
        try:
            yield
        finally:
            with self._lock:
                self._listeners.pop(number, None)

    def ring(self) -> None:
        """Something was decided or carried out; it is stored already."""
        with self._lock:
            listeners = list(self._listeners.values())
        for listener in listeners:
            listener()


bell = Bell()
"""The one of this process: a decision may come through any queue object over any connection."""
