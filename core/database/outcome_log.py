"""The store of outcomes: what turned out right or wrong, who says so (rooms from review down write here)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, bindparam, func, select

from ..errors import BadInput
from ..outcome import Outcome, OutcomeSource
from .counters import OUTCOMES, hold, next_numbers
from .outcome_batch import OutcomeBatch, Receipt, Recorded
from .outcome_queries import IN_FORCE, Change, OutcomeCounts, OutcomeQueries, chunks
from .tables import outcomes

__all__ = ["Change", "OutcomeCounts", "OutcomeLog", "Receipt", "Recorded", "Retractable", "source_of"]

logger = logging.getLogger("demur")


class Retractable(NamedTuple):
    """How many grades of a task a retraction meets."""

    task: str | None
    tenant: str | None
    grades: int


class OutcomeLog(OutcomeQueries):
    """Records grades. One row for each (response, source, source name): what is graded later replaces it.

    Every method has an async twin (`arecord`, ...), which runs it in a thread.
    """

    def record(
        self,
        outcome: Outcome,
        *,
        task: str | None = None,
        tenant: str | None = None,
        dated: bool = True,
        connection: Connection | None = None,
    ) -> str:
        """Store a grade; the same one twice is stored once, and an older one never replaces a newer.

        A grade that was retracted stays so however often it is delivered again (a warning is logged); one made after
        the retraction counts.

        Args:
            task, tenant: whose it is; by default those of the run that holds the response (None where there is none).
            dated: False: nobody said when it was graded, so the grade that is in force, told again, is nothing new.
            connection: a transaction to join.

        Returns:
            the id of the outcome that is stored for this response, source and name.

        Raises:
            BadInput: it is the model's own verdict on its own response, or its time has no zone.
            StoreError: nothing was stored.
        """
        (recorded,) = self.record_many(
            [outcome], task=task, tenant=tenant, undated=() if dated else (0,), revive=True, connection=connection
        )
        if recorded.receipt is Receipt.RETRACTED:
            logger.warning(
                "the grade of response %r by %s %r was taken back and stays so: it was made before that",
                outcome.response_id,
                outcome.source.value,
                outcome.source_name,
            )
        return recorded.id

    def record_many(
        self,
        given: Sequence[Outcome],
        *,
        task: str | None = None,
        tenant: str | None = None,
        undated: Collection[int] = (),
        revive: bool = False,
        connection: Connection | None = None,
    ) -> list[Recorded]:
        """`record`, for all of them in order, in one transaction.

        Args:
            undated: places in `given` of grades of which nobody said when they were made.
            revive: an undated grade in place of a retracted one is a new one; otherwise that stays retracted.

        Raises:
            BadInput, StoreError: as `record`; nothing was stored.
        """
        for one in given:
            if one.graded_at.tzinfo is None:
                raise BadInput(
                    f"graded_at={one.graded_at} is a naive datetime; say datetime(..., tzinfo=UTC): response "
                    f"{one.response_id!r}"
                )
        unsure = frozenset(undated)
        found: list[Recorded] = []
        with self.database.transaction(connection) as connection:
            hold(connection, OUTCOMES)  # of two writers of one response the second sees what the first stored
            for some in chunks(range(len(given)), 200):
                batch = OutcomeBatch(connection, [given[place] for place in some], task, tenant)
                found += [batch.take(given[place], place in unsure, revive) for place in some]
                batch.write()
        return found

    def retract(
        self,
        source: OutcomeSource | str,
        *,
        source_name: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        task: str | None = None,
        tenant: str | None = None,
        because: str = "",
        at: datetime | None = None,
        dry_run: bool = False,
    ) -> int:
        """Take a source's grades back: a wrong grader, say. They stay in the record and count for nothing.

        The next strongest word about each response is in force again, and whoever learns from outcomes sees every one
        of them change.

        Args:
            since, until: when they were graded, both ends included; aware.
            because: kept beside them.
            at: now, by default.
            dry_run: only count.

        Returns:
            how many grades were taken back.

        Raises:
            BadInput: an unknown source, a time without time zone, or `since` after `until`.
            StoreError: nothing was changed.
        """
        _check_zones(at=at)
        wanted = _which(source, source_name, since, until, task, tenant)
        with self.database.transaction() as connection:
            hold(connection, OUTCOMES)
            in_order = select(outcomes.c.id).where(*wanted).order_by(outcomes.c.change, outcomes.c.id)
            ids = list(connection.execute(in_order).scalars())
            if dry_run or not ids:
                return len(ids)
            numbers = next_numbers(connection, OUTCOMES, len(ids))
            taken_back = (
                outcomes.update()
                .where(outcomes.c.id == bindparam("which"))
                .values(
                    retracted_at=at or datetime.now(UTC),
                    retracted_because=because[:2000],
                    change=bindparam("number"),
                    revision=outcomes.c.revision + 1,
                )
            )
            each = [{"which": id, "number": number} for id, number in zip(ids, numbers, strict=True)]
            connection.execute(taken_back, each)
            return len(ids)

    def retractable(
        self,
        source: OutcomeSource | str,
        *,
        source_name: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        task: str | None = None,
        tenant: str | None = None,
    ) -> list[Retractable]:
        """What `retract` would take back, by task and tenant."""
        columns = (outcomes.c.task, outcomes.c.tenant)
        wanted = _which(source, source_name, since, until, task, tenant)
        query = select(*columns, func.count()).where(*wanted).group_by(*columns).order_by(*columns)
        with self.database.reading() as connection:
            return [Retractable(*row) for row in connection.execute(query)]

    async def arecord(
        self, outcome: Outcome, *, task: str | None = None, tenant: str | None = None, dated: bool = True
    ) -> str:
        return await asyncio.to_thread(self.record, outcome, task=task, tenant=tenant, dated=dated)

    async def arecord_many(
        self, given: Sequence[Outcome], *, undated: Collection[int] = (), revive: bool = False
    ) -> list[Recorded]:
        return await asyncio.to_thread(self.record_many, given, undated=undated, revive=revive)

    async def aretract(self, source: OutcomeSource | str, **which: Any) -> int:
        return await asyncio.to_thread(self.retract, source, **which)


def source_of(source: OutcomeSource | str) -> OutcomeSource:
    """The source of this name.

    Raises:
        BadInput: there is none; a model's own verdict is none.
    """
    try:
        return OutcomeSource(source)
    except ValueError:
        known = ", ".join(each.value for each in OutcomeSource)
        own = " (a model's own verdict on its answer never counts)" if str(source) in ("model", "self") else ""
        raise BadInput(f"source={source!r} is not one of {known}{own}") from None


def _which(
    source: OutcomeSource | str,
    source_name: str | None,
    since: datetime | None,
    until: datetime | None,
    task: str | None,
    tenant: str | None,
) -> list[ColumnElement[bool]]:
    """What a retraction is about."""
    kind = source_of(source)
    _check_zones(since=since, until=until)
    if since is not None and until is not None and since > until:
        raise BadInput(f"since={since} is after until={until}")
    wanted = [outcomes.c.source == kind.value, IN_FORCE]
    named = ((outcomes.c.source_name, source_name), (outcomes.c.task, task), (outcomes.c.tenant, tenant))
    wanted += [column == value for column, value in named if value is not None]
    if since is not None:
        wanted.append(outcomes.c.graded_at >= since)
    if until is not None:
        wanted.append(outcomes.c.graded_at <= until)
    return wanted


def _check_zones(**moments: datetime | None) -> None:
    for name, moment in moments.items():
        if moment is not None and moment.tzinfo is None:
            raise BadInput(f"{name}={moment} has no time zone; say datetime(..., tzinfo=UTC)")
