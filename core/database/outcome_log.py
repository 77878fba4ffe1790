"""The store of outcomes: what turned out right or wrong, who says so (rooms from review down write here)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, case, func, select

from ..errors import BadInput
from ..outcome import Outcome, OutcomeSource
from ..record import Record
from .counters import OUTCOMES, last_number, next_number
from .engine import Database
from .tables import decisions, outcomes, rounds, runs

# Weakest first, so that a larger number is a stronger word.
_STRENGTH = {
    OutcomeSource.JUDGE.value: 0,
    OutcomeSource.RULE.value: 1,
    OutcomeSource.TEST.value: 2,
    OutcomeSource.HUMAN.value: 3,
}
_strength = case(_STRENGTH, value=outcomes.c.source, else_=-1)
_in_force = outcomes.c.retracted_at.is_(None)


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


class OutcomeLog:
    """Records grades. One row for each (response, source, source name): what is graded later replaces it.

    Every method has an async twin (`arecord`, ...), which runs it in a thread.
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

        A grade that was retracted stays so however often it is delivered again; one made after the retraction counts.

        Args:
            task, tenant: whose it is; by default those of the run that holds the response (None where there is none).
            connection: a transaction to join.

        Returns:
            the id of the outcome that is stored for this response, source and name.

        Raises:
            BadInput: it is the model's own verdict on its own response.
            StoreError: nothing was stored.
        """
        with self.database.transaction(connection) as connection:
            stored = connection.execute(
                select(outcomes).where(
                    outcomes.c.response_id == outcome.response_id,
                    outcomes.c.source == outcome.source.value,
                    outcomes.c.source_name == outcome.source_name,
                )
            ).one_or_none()
            if stored is not None:
                newest = stored.graded_at if stored.retracted_at is None else max(stored.graded_at, stored.retracted_at)
                if newest > outcome.graded_at or _same(stored, outcome):
                    return stored.id
            known = connection.execute(
                select(runs.c.task, runs.c.tenant, runs.c.model, decisions.c.label_propensity)
                .join(rounds, rounds.c.run_id == runs.c.id)
                .outerjoin(decisions, (decisions.c.run_id == rounds.c.run_id) & (decisions.c.round == rounds.c.number))
                .where(rounds.c.response_id == outcome.response_id)
                .order_by(rounds.c.created_at, runs.c.id)
            ).first()
            _refuse_own_verdict(outcome, known)
            if outcome.label_propensity is None and known is not None:
                outcome = outcome.model_copy(update={"label_propensity": known.label_propensity})
            values = {
                "id": outcome.id,
                "response_id": outcome.response_id,
                "task": task if task is not None else (known.task if known else None),
                "tenant": tenant if tenant is not None else (known.tenant if known else None),
                "is_right": outcome.is_right,
                "source": outcome.source.value,
                "source_name": outcome.source_name,
                "label_propensity": outcome.label_propensity,
                "outcome": outcome.model_dump_json(),
                "graded_at": outcome.graded_at,
                "change": next_number(connection, OUTCOMES),
                "revision": 0 if stored is None else stored.revision + 1,
                "retracted_at": None,
                "retracted_because": None,
            }
            if stored is None:
                connection.execute(outcomes.insert().values(values))
            else:
                connection.execute(outcomes.update().where(outcomes.c.id == stored.id).values(values))
            return outcome.id

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
        kind = source_of(source)
        for name, moment in (("since", since), ("until", until), ("at", at)):
            if moment is not None and moment.tzinfo is None:
                raise BadInput(f"{name}={moment} has no time zone; say datetime(..., tzinfo=UTC)")
        if since is not None and until is not None and since > until:
            raise BadInput(f"since={since} is after until={until}")
        wanted: list[ColumnElement[bool]] = [outcomes.c.source == kind.value, _in_force]
        wanted += [
            column == value
            for column, value in (
                (outcomes.c.source_name, source_name),
                (outcomes.c.task, task),
                (outcomes.c.tenant, tenant),
            )
            if value is not None
        ]
        if since is not None:
            wanted.append(outcomes.c.graded_at >= since)
        if until is not None:
            wanted.append(outcomes.c.graded_at <= until)
        with self.database.transaction() as connection:
            ids = connection.execute(select(outcomes.c.id).where(*wanted).order_by(outcomes.c.id)).scalars().all()
            now = at or datetime.now(UTC)
            for id in [] if dry_run else ids:
                connection.execute(
                    outcomes.update()
                    .where(outcomes.c.id == id)
                    .values(
                        retracted_at=now,
                        retracted_because=because[:2000],
                        change=next_number(connection, OUTCOMES),
                        revision=outcomes.c.revision + 1,
                    )
                )
            return len(ids)

    def of(self, response_id: str) -> tuple[Outcome, ...]:
        """Every outcome of a response that counts, strongest source first, newest first within a source."""
        with self.database.reading() as connection:
            rows = connection.execute(
                select(outcomes.c.outcome)
                .where(outcomes.c.response_id == response_id, _in_force)
                .order_by(_strength.desc(), outcomes.c.graded_at.desc(), outcomes.c.id)
            )
            return tuple(_outcome(row) for row in rows)

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
            for start in range(0, len(response_ids), 500):  # databases limit the parameters of a query
                rows = connection.execute(
                    select(outcomes.c.response_id, outcomes.c.change, outcomes.c.outcome)
                    .where(outcomes.c.response_id.in_(response_ids[start : start + 500]), _in_force)
                    .order_by(_strength, outcomes.c.graded_at, outcomes.c.id.desc())
                )
                # Weakest first: the strongest stays.
                found.update((row.response_id, (row.change, _outcome(row))) for row in rows)
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
        query = select(outcomes.c.is_right, place.label("place")).where(_in_force)
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

    async def aretract(
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
        return await asyncio.to_thread(
            self.retract,
            source,
            source_name=source_name,
            since=since,
            until=until,
            task=task,
            tenant=tenant,
            because=because,
            at=at,
            dry_run=dry_run,
        )

    async def aof(self, response_id: str) -> tuple[Outcome, ...]:
        return await asyncio.to_thread(self.of, response_id)

    async def aeffective(self, response_id: str) -> Outcome | None:
        return await asyncio.to_thread(self.effective, response_id)

    async def acounts(self, task: str | None = None, tenant: str | None = None) -> OutcomeCounts:
        return await asyncio.to_thread(self.counts, task, tenant)


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


def _refuse_own_verdict(outcome: Outcome, run: Any) -> None:
    if run is None or outcome.source is not OutcomeSource.JUDGE or not outcome.source_name:
        return
    if run.model is not None and outcome.source_name.strip().casefold() == str(run.model).strip().casefold():
        raise BadInput(
            f"judge {outcome.source_name!r} is the model that gave response {outcome.response_id!r}: a model's own "
            "verdict never counts; grade with another model, a test or a person"
        )


def _same(stored: Any, outcome: Outcome) -> bool:
    """The very grade that is stored, delivered again: nothing changes, so nobody has to learn it again."""
    known = Outcome.model_validate_json(stored.outcome)
    told = {"id", "label_propensity"}
    return stored.retracted_at is None and known.model_dump(exclude=told) == outcome.model_dump(exclude=told)


def _outcome(row: Any) -> Outcome:
    return Outcome.model_validate_json(row.outcome)
