"""The same call again in one conversation: what a reviewer rejected is cut, what still waits is not queued twice.

The same is: same tenant, conversation, task, tool and arguments (see `run_rows.substance`). Without a conversation id
nothing is the same: two customers may both want the refund that one of them was refused.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, select

from ..core.call import Call, CallKind
from ..core.database import Database
from ..core.database.tables import review_items, runs
from ..core.errors import DemurError
from ..core.review_item import ReviewItem, ReviewKind, ReviewState, SafeEnd, Verdict
from ..core.run import RunState
from ..review.rows import item_of
from .run_rows import substance


class WaitsAlready(DemurError):
    """The very call waits in this conversation in another run, which came first; nothing was queued.

    Attributes:
        waiting_run_id: that run.
    """

    def __init__(self, waiting_run_id: str) -> None:
        super().__init__(f"this very call waits already in this conversation (run {waiting_run_id}); see there")
        self.waiting_run_id = waiting_run_id


def rejections(database: Database, call: Call) -> list[ReviewItem]:
    """Items by which a reviewer rejected this very tool call in this conversation, the newest first.

    One that expired into a rejection because nobody decided is among them.
    """
    if call.kind is not CallKind.TOOL or call.conversation_id is None:
        return []
    query = (
        select(review_items)
        .join(runs, runs.c.id == review_items.c.run_id)
        .where(
            runs.c.tenant == call.tenant,
            runs.c.conversation_id == call.conversation_id,
            runs.c.substance == substance(call),
            review_items.c.kind == ReviewKind.DEFERRED.value,
            review_items.c.state.in_((ReviewState.RESOLVED.value, ReviewState.EXPIRED.value)),
        )
        .order_by(review_items.c.created_at.desc(), review_items.c.id)
    )
    with database.reading() as connection:
        return [item for row in connection.execute(query) if _is_rejected(item := item_of(row))]


def waiting_run(database: Database, call: Call) -> str | None:
    """The id of the run in which this very tool call waits, for a human or to be carried out, or None."""
    if call.kind is not CallKind.TOOL or call.conversation_id is None:
        return None
    with database.reading() as connection:
        found = waiting_twin(connection, call.tenant, call.conversation_id, substance(call))
        return None if found is None else found.id


def waiting_twin(
    connection: Connection, tenant: str, conversation_id: str | None, asked: str | None, besides: str | None = None
) -> Row[Any] | None:
    """The row of the run of this very tool call that waits in this conversation, the oldest, or None.

    Args:
        asked: the call's `substance`.
        besides: the id of a run that does not count.
    """
    if conversation_id is None:
        return None
    return connection.execute(
        select(runs)
        .where(
            runs.c.tenant == tenant,
            runs.c.conversation_id == conversation_id,
            runs.c.substance == asked,
            runs.c.kind == CallKind.TOOL.value,
            runs.c.state == RunState.WAITING.value,
            runs.c.id != (besides or ""),
        )
        .order_by(runs.c.created_at, runs.c.id)
        .limit(1)
    ).one_or_none()


def _is_rejected(item: ReviewItem) -> bool:
    if item.state is ReviewState.EXPIRED:
        return item.on_expiry is SafeEnd.REJECT
    return item.resolution is not None and item.resolution.verdict is Verdict.REJECT
