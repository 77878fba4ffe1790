"""The same call again in one conversation: what a reviewer rejected is cut, what still waits is not queued twice."""

from __future__ import annotations

from sqlalchemy import select

from ..core.call import Call, CallKind
from ..core.database import Database
from ..core.database.tables import review_items, runs
from ..core.review_item import ReviewItem, ReviewKind, ReviewState, Verdict
from ..core.run import RunState
from ..review.rows import item_of
from .run_rows import substance


def rejected_before(database: Database, call: Call) -> ReviewItem | None:
    """The item by which a reviewer (or nobody, in time) rejected this very tool call in this conversation, or None.

    The same is: same tenant, conversation, task, tool and arguments as JSON values (3 and 3.0 are two things). Without
    a conversation id nothing is the same: two customers may both want the refund that one of them was refused.
    """
    for item in _earlier(database, call):
        if item.state is ReviewState.EXPIRED:
            return item
        if item.resolution is not None and item.resolution.verdict is Verdict.REJECT:
            return item
    return None


def waiting_twin(database: Database, call: Call) -> str | None:
    """The id of the run in which this very tool call already waits for a human, or None."""
    for item in _earlier(database, call, RunState.WAITING):
        if item.state in (ReviewState.OPEN, ReviewState.CLAIMED):
            return item.run_id
    return None


def waiting_run(database: Database, call: Call) -> str | None:
    """The id of the run in which this very tool call waits, for a human or to be carried out, or None."""
    return next((item.run_id for item in _earlier(database, call, RunState.WAITING)), None)


def _earlier(database: Database, call: Call, state: RunState | None = None) -> list[ReviewItem]:
    """Items of this very call, the newest first."""
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
        )
        .order_by(review_items.c.created_at.desc(), review_items.c.id)
    )
    if state is not None:
        query = query.where(runs.c.state == state.value)
    with database.reading() as connection:
        return [item_of(row) for row in connection.execute(query)]
