"""Responses in the log, with what was seen of them and how they were graded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, select

from ...core.call import Call
from ...core.database.outcome_log import OutcomeLog
from ...core.database.tables import decisions, outcomes, rounds, runs
from ...core.outcome import Outcome
from ...core.response import Response
from ...core.signal import Signal
from ...core.turn import TurnKind

_SIGNALS = TypeAdapter(tuple[Signal, ...])
_COLUMNS = (
    rounds.c.response_id,
    rounds.c.run_id,
    rounds.c.number,
    rounds.c.arm,
    rounds.c.fused,
    rounds.c.turn,
    rounds.c.calibrator,
    rounds.c.fingerprint,
    rounds.c.created_at,
    runs.c.task,
    runs.c.tenant,
    decisions.c.route,
    decisions.c.label_propensity,
    decisions.c.probability,
    decisions.c.artefact_id,
)


@dataclass(frozen=True)
class Seen:
    """One response as it was judged.

    Attributes:
        fused: what the fitted head said of it, before anything learned; None where nothing did.
        calibrator: which head that was.
        label_propensity: the decision's; None where there was none.
        said: the confidence that the decision went by, after everything learned; None where there was none.
        artefact_id: of the artefact in force then; None where there was none.
    """

    response_id: str
    run_id: str
    number: int
    arm: str
    fused: float | None
    turn: TurnKind
    calibrator: str | None
    fingerprint: str | None
    task: str
    tenant: str
    route: str | None
    label_propensity: float | None
    created_at: datetime
    said: float | None = None
    artefact_id: str | None = None


@dataclass(frozen=True)
class Graded:
    """A response that has an outcome in force. `change` orders them as they were learned."""

    seen: Seen
    outcome: Outcome
    change: int

    @property
    def weight(self) -> float | None:
        """1 / label_propensity; None where that is 0 or unknown (rule 10)."""
        propensity = self.outcome.label_propensity
        propensity = self.seen.label_propensity if propensity is None else propensity
        return None if propensity is None or propensity <= 0.0 else 1.0 / propensity


def seen(connection: Connection, response_ids: Sequence[str]) -> dict[str, Seen]:
    """The responses of these ids; of one that proposed several tool calls the first."""
    found: dict[str, Seen] = {}
    for start in range(0, len(response_ids), 500):
        query = _query().where(rounds.c.response_id.in_(response_ids[start : start + 500]))
        for row in connection.execute(query.order_by(rounds.c.created_at, rounds.c.run_id, rounds.c.number)):
            found.setdefault(row.response_id, _seen(row))
    return found


def graded(connection: Connection, log: OutcomeLog, *where: Any) -> list[Graded]:
    """Everything graded for which the conditions hold, in the order in which it was learned."""
    query = _query().where(rounds.c.response_id.in_(select(outcomes.c.response_id).distinct()), *where)
    found: dict[str, Seen] = {}
    for row in connection.execute(query.order_by(rounds.c.created_at, rounds.c.run_id, rounds.c.number)):
        found.setdefault(row.response_id, _seen(row))
    in_force = log.effective_many(list(found), connection)
    rows = [Graded(found[id], outcome, change) for id, (change, outcome) in in_force.items()]
    return sorted(rows, key=lambda row: row.change)


def contents(connection: Connection, response_ids: Sequence[str]) -> Iterator[tuple[str, Call, Response, list[Signal]]]:
    """The stored call, response and signals of these responses."""
    for start in range(0, len(response_ids), 500):
        query = (
            select(rounds.c.response_id, rounds.c.response, rounds.c.signals, runs.c.call)
            .join(runs, runs.c.id == rounds.c.run_id)
            .where(rounds.c.response_id.in_(response_ids[start : start + 500]))
            .order_by(rounds.c.created_at, rounds.c.run_id, rounds.c.number)
        )
        told: set[str] = set()
        for row in connection.execute(query):
            if row.response_id not in told and row.response is not None:
                told.add(row.response_id)
                yield (
                    row.response_id,
                    Call.model_validate_json(row.call),
                    Response.model_validate_json(row.response),
                    list(_SIGNALS.validate_json(row.signals)),
                )


def _query() -> Any:
    joined = rounds.join(runs, runs.c.id == rounds.c.run_id).outerjoin(
        decisions, (decisions.c.run_id == rounds.c.run_id) & (decisions.c.round == rounds.c.number)
    )
    return select(*_COLUMNS).select_from(joined)


def _seen(row: Any) -> Seen:
    return Seen(
        response_id=row.response_id,
        run_id=row.run_id,
        number=row.number,
        arm=row.arm,
        fused=row.fused,
        turn=TurnKind(row.turn) if row.turn else TurnKind.ANSWER,
        calibrator=row.calibrator,
        fingerprint=row.fingerprint,
        task=row.task,
        tenant=row.tenant,
        route=row.route,
        label_propensity=row.label_propensity,
        created_at=row.created_at,
        said=row.probability,
        artefact_id=row.artefact_id,
    )
