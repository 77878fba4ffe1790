"""The store of outcomes: what turned out right or wrong, who says so (rooms from review down write here)."""

from __future__ import annotations

import asyncio

from sqlalchemy import Connection, Row, case, func, select

from ..outcome import Outcome, OutcomeSource
from ..record import Record
from .counters import OUTCOMES, next_number
from .engine import Database
from .tables import outcomes, rounds, runs

# Weakest first, so that a larger number is a stronger word.
_STRENGTH = {
    OutcomeSource.JUDGE.value: 0,
    OutcomeSource.RULE.value: 1,
    OutcomeSource.TEST.value: 2,
    OutcomeSource.HUMAN.value: 3,
}
_strength = case(_STRENGTH, value=outcomes.c.source, else_=-1)


class OutcomeCounts(Record):
    """How many responses have an effective outcome, and of which kind."""

    right: int
    wrong: int

    @property
    def total(self) -> int:
        return self.right + self.wrong


class OutcomeLog:
    """Records grades. One row for each (response, source, source name): what is graded later replaces it.

    Every method but `record` only reads. Each has an async twin (`arecord`, ...), which runs it in a thread.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    def record(
        self,
        outcome: Outcome,
        *,
        task: str | None = None,
        tenant: str | None = None,
        connection: Connection | None = None,
    ) -> str:
        """Store a grade; the same one twice is stored once, and an older one never replaces a newer.

        Args:
            task, tenant: whose it is; by default those of the run that holds the response (None where there is none).
            connection: a transaction to join.

        Returns:
            the id of the outcome in force for this response, source and name.

        Raises:
            StoreError: nothing was stored.
        """
        with self.database.transaction(connection) as connection:
            stored = connection.execute(
                select(outcomes.c.id, outcomes.c.graded_at).where(
                    outcomes.c.response_id == outcome.response_id,
                    outcomes.c.source == outcome.source.value,
                    outcomes.c.source_name == outcome.source_name,
                )
            ).one_or_none()
            if stored is not None and stored.graded_at > outcome.graded_at:
                return stored.id
            run = connection.execute(
                select(runs.c.task, runs.c.tenant)
                .join(rounds, rounds.c.run_id == runs.c.id)
                .where(rounds.c.response_id == outcome.response_id)
                .order_by(rounds.c.created_at, runs.c.id)
            ).first()
            values = {
                "id": outcome.id,
                "response_id": outcome.response_id,
                "task": task if task is not None else (run.task if run else None),
                "tenant": tenant if tenant is not None else (run.tenant if run else None),
                "is_right": outcome.is_right,
                "source": outcome.source.value,
                "source_name": outcome.source_name,
                "label_propensity": outcome.label_propensity,
                "outcome": outcome.model_dump_json(),
                "graded_at": outcome.graded_at,
                "change": next_number(connection, OUTCOMES),
                "retracted_at": None,
                "retracted_because": None,
            }
            if stored is None:
                connection.execute(outcomes.insert().values(values))
            else:
                connection.execute(outcomes.update().where(outcomes.c.id == stored.id).values(values))
            return outcome.id

    def of(self, response_id: str) -> tuple[Outcome, ...]:
        """Every outcome of a response, strongest source first, newest first within a source."""
        with self.database.reading() as connection:
            rows = connection.execute(
                select(outcomes.c.outcome)
                .where(outcomes.c.response_id == response_id)
                .order_by(_strength.desc(), outcomes.c.graded_at.desc(), outcomes.c.id)
            )
            return tuple(_outcome(row) for row in rows)

    def effective(self, response_id: str) -> Outcome | None:
        """The outcome that counts: of the strongest source (human > test > rule > judge) the newest; or None."""
        found = self.of(response_id)
        return found[0] if found else None

    def counts(self, task: str | None = None, tenant: str | None = None) -> OutcomeCounts:
        """Responses by their effective outcome; each response counts once."""
        place = func.row_number().over(
            partition_by=outcomes.c.response_id,
            order_by=(_strength.desc(), outcomes.c.graded_at.desc(), outcomes.c.id),
        )
        query = select(outcomes.c.is_right, place.label("place"))
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

    async def arecord(self, outcome: Outcome, *, task: str | None = None, tenant: str | None = None) -> str:
        return await asyncio.to_thread(self.record, outcome, task=task, tenant=tenant)

    async def aof(self, response_id: str) -> tuple[Outcome, ...]:
        return await asyncio.to_thread(self.of, response_id)

    async def aeffective(self, response_id: str) -> Outcome | None:
        return await asyncio.to_thread(self.effective, response_id)

    async def acounts(self, task: str | None = None, tenant: str | None = None) -> OutcomeCounts:
        return await asyncio.to_thread(self.counts, task, tenant)


def _outcome(row: Row[tuple[str]]) -> Outcome:
    return Outcome.model_validate_json(row.outcome)
