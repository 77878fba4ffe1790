"""A run whose reviewer edited its call into another stands as the run of that other call stands."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, select

from ..core.database.tables import runs
from ..core.run import RunState
from ..core.stored_cost import cost_of
from ..core.stored_result import pack_result, unpack_result

_UNSETTLED = (RunState.WAITING.value, RunState.UNKNOWN.value)
_ENDED = (RunState.DONE.value, RunState.FAILED.value)


def tell_parent(connection: Connection, run_id: str, now: datetime) -> None:
    """Bring the parent of a run, and its parent, to where the run is, inside the caller's transaction.

    The parent's result is the child's under the parent's own id; its cost is that of both. Not to be called for a
    child to which nothing has happened (its parent still waits to be carried out), nor for one at work.
    """
    child = connection.execute(select(runs).where(runs.c.id == run_id)).one()
    if child.parent_id is None or child.state == RunState.OPEN.value:
        return
    parent = connection.execute(
        select(runs).where(runs.c.id == child.parent_id, runs.c.state.in_(_UNSETTLED)).with_for_update()
    ).one_or_none()
    if parent is None:  # it has ended; or it was never there
        return
    result = None if child.result is None else unpack_result(child.result)
    if result is not None:
        changes = {"run_id": parent.id, "cost": cost_of(parent) + result.cost}
        if parent.result is not None:  # what the model proposed, which grades are about
            changes["response_id"] = unpack_result(parent.result).response_id
        result = result.model_copy(update=changes)
    connection.execute(
        runs.update()
        .where(runs.c.id == parent.id)
        .values(
            state=child.state,
            route=child.route,
            result=None if result is None else pack_result(result),
            error=child.error,
            updated_at=now,
            finished_at=now if child.state in _ENDED else None,
        )
    )
    tell_parent(connection, parent.id, now)
