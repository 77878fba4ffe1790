"""Every call in the log as the labels see it: where it went, its chance of being graded, and its grade."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, select

from ..core.database.known_responses import chance_of_any
from ..core.database.outcome_queries import IN_FORCE, STRENGTH
from ..core.database.tables import decisions, outcomes, rounds, runs
from ..core.decision import Mode, Route


@dataclass(frozen=True)
class JudgedCall:
    """The final response of a run, under the decision that stood in the end.

    Attributes:
        delivered: it went out without a human (in shadow and advise mode whatever `route` says).
        confidence: None where nothing had judged it.
        propensity: known chance that it was sent for grading.
        sent: it was: deferred to a human, or drawn.
        is_right: the grade in force; None without one.
        told: the chance of being graded that whoever graded it named, where that is not the decision's.
    """

    route: Route
    delivered: bool
    confidence: float | None
    turn: str
    arm: str
    model: str
    propensity: float
    sent: bool
    is_right: bool | None = None
    told: float | None = None


def judged_calls(
    connection: Connection, *, task: str | None = None, tenant: str | None = None
) -> dict[str, list[JudgedCall]]:
    """The calls by task, one for each response; runs without a response have nothing to grade."""
    grades = _grades(connection, task, tenant)
    found: dict[str, dict[str, JudgedCall]] = defaultdict(dict)
    for response_id, name, call in _final(connection, task, tenant):
        known = found[name].get(response_id)
        found[name][response_id] = call if known is None else _both(known, call)
    return {name: [_graded(call, grades.get(id)) for id, call in calls.items()] for name, calls in found.items()}


def _final(connection: Connection, task: str | None, tenant: str | None) -> Iterator[tuple[str, str, JudgedCall]]:
    """(response id, task, call) of each run's last response."""
    query = (
        select(
            rounds.c.run_id,
            rounds.c.response_id,
            rounds.c.arm,
            rounds.c.turn,
            rounds.c.confidence.is_not(None).label("judged"),
            decisions.c.route,
            decisions.c.probability,
            decisions.c.label_propensity,
            decisions.c.sampled_for_label,
            runs.c.task,
            runs.c.mode,
            runs.c.model,
        )
        .join(decisions, (decisions.c.run_id == rounds.c.run_id) & (decisions.c.round == rounds.c.number))
        .join(runs, runs.c.id == rounds.c.run_id)
        .where(*_mine(task, tenant))
        .order_by(rounds.c.run_id, rounds.c.number)
    )
    for _, rows in groupby(connection.execute(query), key=lambda row: row.run_id):
        draft: Any = None
        last: Any = None
        for row in rows:
            draft, last = (row if row.response_id is not None else draft), row
        if draft is None:
            continue
        enforced = last.mode == Mode.ENFORCE.value
        route = Route(last.route)
        yield (
            draft.response_id,
            draft.task,
            JudgedCall(
                route=route,
                delivered=route is Route.ANSWER or not enforced,
                confidence=last.probability if last.judged else None,
                turn=draft.turn or "answer",
                arm=draft.arm,
                model=draft.model or "",
                propensity=last.label_propensity,
                sent=bool(last.sampled_for_label) or (enforced and route is Route.DEFER),
            ),
        )


def _both(one: JudgedCall, other: JudgedCall) -> JudgedCall:
    """A response that proposed several tool calls is graded as one: by whoever looks at any of them."""
    chance = chance_of_any([one.propensity, other.propensity])
    assert chance is not None
    surer, other = (other, one) if other.propensity > one.propensity else (one, other)
    return JudgedCall(
        route=surer.route,
        delivered=surer.delivered,
        confidence=surer.confidence,
        turn=surer.turn,
        arm=surer.arm,
        model=surer.model,
        propensity=chance,
        sent=one.sent or other.sent,
    )


def _graded(call: JudgedCall, grade: Any) -> JudgedCall:
    if grade is None:
        return call
    named = grade.label_propensity
    told = named if named is not None and abs(named - call.propensity) > 1e-12 else None
    return JudgedCall(**{**vars(call), "is_right": bool(grade.is_right), "told": told})


def _grades(connection: Connection, task: str | None, tenant: str | None) -> dict[str, Any]:
    """The outcome in force by response id."""
    query = select(
        outcomes.c.response_id,
        outcomes.c.id,
        outcomes.c.is_right,
        outcomes.c.source,
        outcomes.c.graded_at,
        outcomes.c.label_propensity,
    ).where(IN_FORCE)
    if task is not None or tenant is not None:
        mine = select(rounds.c.response_id).join(runs, runs.c.id == rounds.c.run_id).where(*_mine(task, tenant))
        query = query.where(outcomes.c.response_id.in_(mine))
    # Weakest first: the strongest stays.
    rows = sorted(connection.execute(query.order_by(outcomes.c.graded_at, outcomes.c.id.desc())), key=_strength)
    return {row.response_id: row for row in rows}


def _strength(row: Any) -> int:
    return STRENGTH[row.source]


def _mine(task: str | None, tenant: str | None) -> list[Any]:
    wanted = ((runs.c.task, task), (runs.c.tenant, tenant))
    return [column == value for column, value in wanted if value is not None]
