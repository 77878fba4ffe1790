"""How runs are found in the database, and which of them still hold their idempotency key."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, and_, exists, select

from ..core.call import CallKind
from ..core.database.tables import decisions, effects, review_items, rounds, runs
from ..core.errors import BadInput
from ..core.review_item import ReviewKind, ReviewState
from ..core.run import EffectState, Run, RunState
from .run_rows import run_of


def must_find(connection: Connection, run_id: str) -> Row[Any]:
    """The run's row, locked where the database can.

    Raises:
        BadInput: there is no such run.
    """
    row = connection.execute(select(runs).where(runs.c.id == run_id).with_for_update()).one_or_none()
    if row is None:
        raise BadInput(f"there is no run {run_id!r}; start it first")
    return row


def by_key(connection: Connection, tenant: str, key: str) -> Row[Any] | None:
    return connection.execute(select(runs).where(runs.c.tenant == tenant, runs.c.idempotency_key == key)).one_or_none()


def load_run(connection: Connection, row: Row[Any]) -> Run:
    joined = rounds.join(decisions, and_(decisions.c.run_id == rounds.c.run_id, decisions.c.round == rounds.c.number))
    found = connection.execute(
        select(rounds, decisions.c.decision)
        .select_from(joined)
        .where(rounds.c.run_id == row.id)
        .order_by(rounds.c.number)
    )
    return run_of(row, found.all())


def let_go(connection: Connection, run: Run) -> bool:
    """Free the key of a failed run whose effect is known not to have happened; False where it is not free."""
    if run.state is not RunState.FAILED:
        return False
    spent = connection.execute(
        select(effects.c.state).where(
            effects.c.run_id == run.id,
            effects.c.state != EffectState.INTENDED.value,
            effects.c.may_run_again.is_(False),
        )
    ).first()
    if spent is not None:
        return False
    connection.execute(runs.update().where(runs.c.id == run.id).values(idempotency_key=None))
    return True


def let_through_runs(*columns: Any) -> Any:
    """Of waiting runs whose tool call a human let through and which nobody carries out yet.

    A rejected or answered call does not wait any more. One that was edited into another tool waits for the run of that
    other call, where there is one under way.
    """
    child = runs.alias("child")
    under_way = (RunState.WAITING.value, RunState.OPEN.value)
    return (
        select(*columns)
        .select_from(runs.join(review_items, review_items.c.run_id == runs.c.id))
        .where(
            runs.c.state == RunState.WAITING.value,
            runs.c.kind == CallKind.TOOL.value,
            review_items.c.kind == ReviewKind.DEFERRED.value,
            review_items.c.state == ReviewState.RESOLVED.value,
            ~exists().where(child.c.parent_id == runs.c.id, child.c.state.in_(under_way)),
        )
    )
