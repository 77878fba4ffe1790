"""Effects as rows of their table, and whether one may run."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, Row, select, update

from ..core.database.tables import effects, runs
from ..core.errors import BadInput, EffectBusy, EffectFailed, EffectUnknown
from ..core.run import Effect, EffectState, NotStored, RunState
from ..core.stored_value import unpack
from .owner import is_alive


def check_may_run(connection: Connection, row: Row[Any], run_id: str, idempotent: bool) -> None:
    """Raise unless an effect that is not done may be run (again)."""
    state, key = EffectState(row.state), row.idempotency_key
    holder = run_row_of(connection, row.run_id)
    live = holder.state == RunState.OPEN.value and is_alive(holder.owner) is not False
    if state is EffectState.STARTED and live:
        raise EffectBusy(f"{row.tool_name!r} is being run under key {key!r} by {holder.owner}; ask again later")
    if state is EffectState.INTENDED and row.run_id != run_id and live:
        raise EffectBusy(f"{row.tool_name!r} is about to be run under key {key!r} by {holder.owner}; ask again later")
    if idempotent or state is EffectState.INTENDED or row.may_run_again:
        return
    if state is EffectState.FAILED:
        raise EffectFailed(f"{row.tool_name!r} failed under key {key!r} ({row.error}); use a new key to try again")
    raise EffectUnknown(
        f"{row.tool_name!r} was started under key {key!r} and interrupted; whether it happened is for a human to find "
        "out (recover() puts it into the review queue)"
    )


def run_row_of(connection: Connection, run_id: str) -> Row[Any]:
    row = connection.execute(select(runs).where(runs.c.id == run_id)).one_or_none()
    if row is None:
        raise BadInput(f"there is no run {run_id!r}; start it in the run log first")
    return row


def find_effect(connection: Connection, tenant: str, key: str) -> Row[Any] | None:
    return connection.execute(
        select(effects).where(effects.c.tenant == tenant, effects.c.idempotency_key == key).with_for_update()
    ).one_or_none()


def update_effect(tenant: str, key: str) -> Any:
    return update(effects).where(effects.c.tenant == tenant, effects.c.idempotency_key == key)


def effect_of(row: Row[Any]) -> Effect:
    result = None if row.result is None else unpack(row.result)
    return Effect(
        idempotency_key=row.idempotency_key,
        run_id=row.run_id,
        tool_name=row.tool_name,
        arguments=json.loads(row.arguments),
        state=EffectState(row.state),
        result=result.text if isinstance(result, NotStored) else result,
        result_type=result.type_name if isinstance(result, NotStored) else None,
        error=row.error,
        may_run_again=row.may_run_again,
        updated_at=row.updated_at,
    )
