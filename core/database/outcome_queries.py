"""Reading outcomes: which one is in force, what changed, how many there are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection, case, func, select

from ..outcome import Outcome, OutcomeSource
from ..record import Record
from .counters import OUTCOMES, last_number
from .engine import Database
from .tables import outcomes

T = TypeVar("T")

STRENGTH = {
    OutcomeSource.JUDGE.value: 0,
    OutcomeSource.RULE.value: 1,
    OutcomeSource.TEST.value: 2,
    OutcomeSource.HUMAN.value: 3,
}
"""Weakest first, so that a larger number is a stronger word."""
_strength = case(STRENGTH, value=outcomes.c.source, else_=-1)
IN_FORCE = outcomes.c.retracted_at.is_(None)


class OutcomeCounts(Record):
    """How many responses have an effective outcome, and of which kind."""

    right: int
    wrong: int

    @property
    def total(self) -> int:
        return self.right + self.wrong


class Change(NamedTuple):
    """Something about the outcomes of a response changed; `number` rises in the order of commits."""

    number: int
    response_id: str


class OutcomeQueries:
    """The reading half of the log of outcomes. What was retracted is nowhere in it."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def of(self, response_id: str) -> tuple[Outcome, ...]:
        """Every outcome of a response that counts, strongest source first, newest first within a source."""
        with self.database.reading() as connection:
            rows = connection.execute(
                select(outcomes.c.outcome)
                .where(outcomes.c.response_id == response_id, IN_FORCE)
                .order_by(_strength.desc(), outcomes.c.graded_at.desc(), outcomes.c.id)
            )
            return tuple(outcome_of(row) for row in rows)

    def effective(self, response_id: str) -> Outcome | None:
        """The outcome in force: of the strongest source (human > test > rule > judge) the newest; or None."""
        found = self.of(response_id)
        return found[0] if found else None

    def effective_many(
        self, response_ids: Sequence[str], connection: Connection | None = None
    ) -> dict[str, tuple[int, Outcome]]:
        """The outcomes in force by response id, each with the number of its change; responses without one are left out.

        Args:
            connection: a transaction to read in.
        """
        found: dict[str, tuple[int, Outcome]] = {}
        with self.database.reading(connection) as connection:
            for some in chunks(response_ids):
                rows = connection.execute(
                    select(outcomes.c.response_id, outcomes.c.change, outcomes.c.outcome)
                    .where(outcomes.c.response_id.in_(some), IN_FORCE)
                    .order_by(_strength, outcomes.c.graded_at, outcomes.c.id.desc())
                )
                # Weakest first: the strongest stays.
                found.update((row.response_id, (row.change, outcome_of(row))) for row in rows)
        return found

    def last_change(self) -> int:
        """The number of the newest change; 0 before the first."""
        with self.database.reading() as connection:
            return last_number(connection, OUTCOMES)

    def changed_since(self, number: int, limit: int = 1000, connection: Connection | None = None) -> list[Change]:
        """What changed after the change of this number, in order; a response may come several times."""
        with self.database.reading(connection) as connection:
            rows = connection.execute(
                select(outcomes.c.change, outcomes.c.response_id)
                .where(outcomes.c.change > number)
                .order_by(outcomes.c.change)
                .limit(limit)
            )
            return [Change(row.change, row.response_id) for row in rows]

    def counts(self, task: str | None = None, tenant: str | None = None) -> OutcomeCounts:
        """Responses by their effective outcome; each response counts once."""
        place = func.row_number().over(
            partition_by=outcomes.c.response_id,
            order_by=(_strength.desc(), outcomes.c.graded_at.desc(), outcomes.c.id),
        )
        query = select(outcomes.c.is_right, place.label("place")).where(IN_FORCE)
        if task is not None:
            query = query.where(outcomes.c.task == task)
        if tenant is not None:
            query = query.where(outcomes.c.tenant == tenant)
        ranked = query.subquery()
        with self.database.reading() as connection:
            found = connection.execute(
                select(ranked.c.is_right, func.count()).where(ranked.c.place == 1).group_by(ranked.c.is_right)
            )
            number = {bool(right): count for right, count in found}
        return OutcomeCounts(right=number.get(True, 0), wrong=number.get(False, 0))

    async def aof(self, response_id: str) -> tuple[Outcome, ...]:
        return await asyncio.to_thread(self.of, response_id)

    async def aeffective(self, response_id: str) -> Outcome | None:
        return await asyncio.to_thread(self.effective, response_id)

    async def acounts(self, task: str | None = None, tenant: str | None = None) -> OutcomeCounts:
        return await asyncio.to_thread(self.counts, task, tenant)


def outcome_of(row: Any) -> Outcome:
    """The outcome that a row holds."""
    return Outcome.model_validate_json(row.outcome)


def chunks(items: Sequence[T], size: int = 500) -> Iterator[Sequence[T]]:
    """Databases limit the parameters of a query."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
