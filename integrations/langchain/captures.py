"""What was read off the model while it wrote a message: kept beside the message, in this process, for a while.

Hidden states do not belong in a message: messages are checkpointed, traced and sent around.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING

from ...core.protocols import Generation

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

LIMIT = 64
"""How many generations are kept; the one that was not asked for the longest goes first."""


class CaptureStore:
    """A bounded map from message id to generation; safe between threads."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._lock = Lock()
        self._kept: OrderedDict[str, Generation] = OrderedDict()

    def put(self, message_id: str, generation: Generation) -> None:
        """Keep it."""
        with self._lock:
            self._kept[message_id] = generation
            self._kept.move_to_end(message_id)
            while len(self._kept) > self._limit:
                self._kept.popitem(last=False)

    def get(self, message_id: str | None) -> Generation | None:
        """The generation; None where it is not here (any more)."""
        with self._lock:
            if message_id is None or message_id not in self._kept:
                return None
            self._kept.move_to_end(message_id)
            return self._kept[message_id]


_store = CaptureStore()


def captured_of(message: BaseMessage) -> Generation | None:
    """The generation behind a message that a `LocalChatModel` of this process wrote: trace, hidden states, lens.

    None for any other message, after a restart, and when more than `LIMIT` messages came since. The trace alone is in
    the message itself, as `response_metadata["logprobs"]`.
    """
    return _store.get(message.id)


def remember(message_id: str, generation: Generation) -> None:
    """Keep a generation for `captured_of`."""
    _store.put(message_id, generation)
