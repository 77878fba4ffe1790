"""After a crash: bring every run of a dead process to an end that is known, or to a human."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, select

from ..core.confidence import Confidence
from ..core.database import Database
from ..core.database.tables import effects, rounds, runs
from ..core.decision import Mode, Route
from ..core.errors import ConfigurationError
from ..core.protocols import Clock
from ..core.record import Record
from ..core.response import Cost
from ..core.run import EffectState, Result, RunState
from ..core.stored_result import pack_result
from ..core.stored_value import unpack
from ..review.queue import ReviewQueue
from .owner import is_alive
from .resumption import approved_item
from .unknown import mark_unknown

_INTERRUPTED = "interrupted before the effect; safe to call again"


class _End(StrEnum):
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"
    WAITING = "waiting"


class RecoveryReport(Record):
    """Ids of runs by what became of them.

    Attributes:
        done: the effect had happened and its result was stored.
        failed: nothing had happened; the call can be made again under its key (or the tool had reported a failure).
        unknown: nobody knows; a human is asked.
        waiting: approved by a human and not carried out yet; it can be resumed.
        left: open and not touched: their owner lives, or is on another machine and may live.
    """

    done: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def recover(
    database: Database,
    clock: Clock,
    *,
    idempotent_tools: Collection[str] = (),
    orphan_after: float | None = 86_400.0,
) -> RecoveryReport:
    """End the runs that a dead process left open. Safe to call at any time, from several processes at once.

    Args:
        idempotent_tools: names of tools that may run again under their key, though they were started.
        orphan_after: seconds without a sign of life after which a run of another machine counts as left behind;
            None for never.

    Raises:
        StoreError: the database failed; what was recovered before stays recovered.
    """
    if orphan_after is not None and not orphan_after > 0:
        raise ConfigurationError(f"orphan_after={orphan_after} must be above 0 seconds, or None")
    queue = ReviewQueue(database, clock)
    with database.reading() as connection:
        open_runs = connection.execute(
            select(runs.c.id, runs.c.owner, runs.c.updated_at)
            .where(runs.c.state == RunState.OPEN.value)
            .order_by(runs.c.created_at, runs.c.id)
        ).all()
    ends: dict[str, list[str]] = {name: [] for name in (*_End, "left")}
    for row in open_runs:
        if not _left_behind(row, clock.now(), orphan_after):
            ends["left"].append(row.id)
            continue
        with database.transaction() as connection:
            # Another process may have been faster; then there is nothing left to do here.
            still = connection.execute(
                select(runs)
                .where(runs.c.id == row.id, runs.c.state == RunState.OPEN.value, runs.c.owner == row.owner)
                .with_for_update()
            ).one_or_none()
            if still is not None:
                ends[_recover_one(connection, queue, still, idempotent_tools, clock.now())].append(row.id)
    return RecoveryReport(**{name: tuple(ids) for name, ids in ends.items()})


async def arecover(
    database: Database,
    clock: Clock,
    *,
    idempotent_tools: Collection[str] = (),
    orphan_after: float | None = 86_400.0,
) -> RecoveryReport:
    """The async twin of `recover`."""
    return await asyncio.to_thread(
        recover, database, clock, idempotent_tools=idempotent_tools, orphan_after=orphan_after
    )


def _left_behind(row: Any, now: datetime, orphan_after: float | None) -> bool:
    alive = is_alive(row.owner)
    if alive is not None:
        return not alive
    return orphan_after is not None and now - row.updated_at > timedelta(seconds=orphan_after)


def _recover_one(
    connection: Connection, queue: ReviewQueue, run: Row[Any], idempotent_tools: Collection[str], now: datetime
) -> _End:
    found = connection.execute(
        select(effects).where(effects.c.run_id == run.id).order_by(effects.c.updated_at, effects.c.idempotency_key)
    ).all()
    by_state: dict[EffectState, list[Row[Any]]] = {state: [] for state in EffectState}
    for effect in found:
        state = EffectState(effect.state)
        harmless = state is EffectState.STARTED and effect.tool_name in idempotent_tools
        if state is EffectState.INTENDED or harmless:
            _free(connection, effect, now)
        else:
            by_state[state].append(effect)
    unsure = by_state[EffectState.STARTED] + by_state[EffectState.UNKNOWN]
    if unsure:
        for effect in unsure:
            mark_unknown(connection, queue, effect, "its process died before saying how it ended", now)
        return _End.UNKNOWN
    reported = [effect for effect in by_state[EffectState.FAILED] if not effect.may_run_again]
    if reported:
        _close(connection, run, RunState.FAILED, now, error=reported[-1].error)
        return _End.FAILED
    if by_state[EffectState.DONE]:
        result = _result(connection, run, unpack(by_state[EffectState.DONE][-1].result or '{"json": null}'))
        _close(connection, run, RunState.DONE, now, result=result)
        return _End.DONE
    if approved_item(connection, run.id) is not None:
        # A human let it through and nothing has happened yet: it can be resumed once more.
        connection.execute(
            runs.update().where(runs.c.id == run.id).values(state=RunState.WAITING.value, updated_at=now)
        )
        return _End.WAITING
    _close(connection, run, RunState.FAILED, now, error=_INTERRUPTED)
    return _End.FAILED


def _free(connection: Connection, effect: Row[Any], now: datetime) -> None:
    connection.execute(
        effects.update()
        .where(effects.c.tenant == effect.tenant, effects.c.idempotency_key == effect.idempotency_key)
        .values(state=EffectState.FAILED.value, error=_INTERRUPTED, may_run_again=True, updated_at=now)
    )


def _close(
    connection: Connection,
    run: Row[Any],
    state: RunState,
    now: datetime,
    *,
    result: Result[Any] | None = None,
    error: str | None = None,
) -> None:
    connection.execute(
        runs.update()
        .where(runs.c.id == run.id)
        .values(
            state=state.value,
            route=None if result is None else result.route.value,
            result=None if result is None else pack_result(result),
            error=error,
            updated_at=now,
            finished_at=now,
        )
    )


def _result(connection: Connection, run: Row[Any], value: Any) -> Result[Any]:
    newest = connection.execute(
        select(rounds.c.response_id, rounds.c.confidence)
        .where(rounds.c.run_id == run.id)
        .order_by(rounds.c.number.desc())
        .limit(1)
    ).one_or_none()
    return Result[Any](
        value=value,
        route=Route.ANSWER,
        recommended=Route(run.recommended) if run.recommended else Route.ANSWER,
        mode=Mode(run.mode),
        confidence=Confidence.model_validate_json(newest.confidence) if newest and newest.confidence else None,
        run_id=run.id,
        response_id=newest.response_id if newest else None,
        reason="recovered after a crash: the effect had happened and its result was stored",
        cost=Cost(
            money=run.cost_money,
            tokens_in=run.cost_tokens_in,
            tokens_out=run.cost_tokens_out,
            seconds=run.cost_seconds,
        ),
    )
