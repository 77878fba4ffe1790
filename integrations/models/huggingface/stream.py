"""Answers piece by piece, with the finished generation at the end."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType

from ....core.errors import ModelError
from ....core.protocols import Generation

Produce = Callable[[Callable[[str], None], threading.Event], Generation]
"""Generates: hands each piece of text to the first argument and ends early when the second is set."""


class _Ending:
    """The last thing in the queue."""

    def __init__(self, generation: Generation | None, error: BaseException | None) -> None:
        self.generation = generation
        self.error = error


class _Stream:
    def __init__(self) -> None:
        self._cancel = threading.Event()
        self._generation: Generation | None = None
        self._finished = False

    @property
    def generation(self) -> Generation:
        """The whole generation; its text is the pieces joined.

        Raises:
            ModelError: the stream was not read to its end, or it failed.
        """
        if self._generation is None:
            raise ModelError("the stream has not ended; read all pieces before asking for .generation")
        return self._generation

    def close(self) -> None:
        """Stop generating after the token that is being computed."""
        self._cancel.set()

    def _work(self, produce: Produce, put: Callable[[str | _Ending], None]) -> None:
        try:
            put(_Ending(produce(put, self._cancel), None))
        except BaseException as error:  # noqa: BLE001 - handed to the reader, who raises it
            put(_Ending(None, error))

    def _end(self, ending: _Ending) -> None:
        self._finished = True
        self._generation = ending.generation
        if ending.error is not None:
            raise ending.error


class TextStream(_Stream, Iterator[str]):
    """Iterate over pieces of text; afterwards `.generation` holds everything. As a context manager it stops early."""

    def __init__(self, produce: Produce) -> None:
        super().__init__()
        self._queue: queue.SimpleQueue[str | _Ending] = queue.SimpleQueue()
        threading.Thread(target=self._work, args=(produce, self._queue.put), daemon=True).start()

    def __next__(self) -> str:
        if self._finished:
            raise StopIteration
        item = self._queue.get()
        if isinstance(item, _Ending):
            self._end(item)
            raise StopIteration
        return item

    def __enter__(self) -> TextStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncTextStream(_Stream, AsyncIterator[str]):
    """The same for `async for`; starts at the first piece that is asked for and never blocks the event loop."""

    def __init__(self, produce: Produce) -> None:
        super().__init__()
        self._produce = produce
        self._queue: asyncio.Queue[str | _Ending] | None = None

    async def __anext__(self) -> str:
        if self._finished:
            raise StopAsyncIteration
        if self._queue is None:
            self._queue = asyncio.Queue()
            loop, pieces = asyncio.get_running_loop(), self._queue

            def put(item: str | _Ending) -> None:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(pieces.put_nowait, item)

            threading.Thread(target=self._work, args=(self._produce, put), daemon=True).start()
        try:
            item = await self._queue.get()
        except asyncio.CancelledError:
            self.close()
            raise
        if isinstance(item, _Ending):
            self._end(item)
            raise StopAsyncIteration
        return item

    async def __aenter__(self) -> AsyncTextStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
