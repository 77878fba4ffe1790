"""After a crash: bring every run of a dead process to an end that is known, or to a human."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select

from ..core.database import Database
from ..core.database.tables import runs
from ..core.errors import ConfigurationError
from ..core.protocols import Clock
from ..core.record import Record
from ..core.run import RunState
from ..review.queue import ReviewQueue
from .ending import end_by_effects
from .owner import is_alive


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
    only: str | None = None,
) -> RecoveryReport:
    """End the runs that a dead process left open. Safe to call at any time, from several processes at once.

    Args:
        idempotent_tools: names of tools that may run again under their key, though they were started.
        orphan_after: seconds without a sign of life after which a run of another machine counts as left behind;
            None for never.
        only: look at the run of this id alone.

    Raises:
        StoreError: the database failed; what was recovered before stays recovered.
    """
    if orphan_after is not None and not orphan_after > 0:
        raise ConfigurationError(f"orphan_after={orphan_after} must be above 0 seconds, or None")
    queue = ReviewQueue(database, clock)
    with database.reading() as connection:
        open_runs = connection.execute(
            select(runs.c.id, runs.c.owner, runs.c.updated_at)
            .where(runs.c.state == RunState.OPEN.value, *(() if only is None else (runs.c.id == only,)))
            .order_by(runs.c.created_at, runs.c.id)
        ).all()
    ends: dict[str, list[str]] = {name: [] for name in RecoveryReport.model_fields}
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
                state = end_by_effects(
                    connection,
                    queue,
                    still,
                    clock.now(),
                    error="interrupted before the effect; safe to call again",
                    why_unknown="its process died before saying how it ended",
                    idempotent_tools=idempotent_tools,
                )
                ends[state.value].append(row.id)
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
