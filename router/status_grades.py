"""Grades counted by task, for `demur status`: one a response."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, func, select

from ..core.database.outcome_queries import IN_FORCE, STRENGTH
from ..core.database.tables import decisions, outcomes, rounds
from ..core.decision import Route


class Grades:
    """One grade a response: the strongest source, then the newest."""

    def __init__(self) -> None:
        self.right = self.wrong = self.answered = self.answered_wrong = self.unweighable = 0

    def count(self, is_right: bool, answered: bool, propensity: float | None) -> None:
        self.right += is_right
        self.wrong += not is_right
        if not answered:
            return
        if propensity is None or propensity <= 0.0:
            self.unweighable += 1
        else:
            self.answered += 1
            self.answered_wrong += not is_right


def grades_by_task(connection: Connection, tenant: str | None) -> defaultdict[str, Grades]:
    """Grades by task. An outcome without a task of its own belongs to that of its response's decision."""
    task = func.coalesce(outcomes.c.task, decisions.c.task, "default")
    query = (
        select(
            outcomes.c.response_id,
            outcomes.c.is_right,
            outcomes.c.source,
            outcomes.c.graded_at,
            func.coalesce(outcomes.c.label_propensity, decisions.c.label_propensity),
            decisions.c.route,
            task,
        )
        .select_from(outcomes)
        .outerjoin(rounds, rounds.c.response_id == outcomes.c.response_id)
        .outerjoin(decisions, (decisions.c.run_id == rounds.c.run_id) & (decisions.c.round == rounds.c.number))
        .where(IN_FORCE)
        .order_by(outcomes.c.graded_at)
    )
    if tenant is not None:
        query = query.where(func.coalesce(outcomes.c.tenant, decisions.c.tenant) == tenant)
    return _one_grade_each(connection.execute(query))


def _one_grade_each(rows: Iterable[Any]) -> defaultdict[str, Grades]:
    strongest: dict[tuple[str, str], tuple[int, bool, bool, float | None]] = {}
    for response_id, is_right, source, _, propensity, route, task in rows:
        rank = STRENGTH[source]
        known = strongest.get((task, response_id))
        # Rows come oldest first: the newest of the strongest source stays.
        if known is None or rank >= known[0]:
            strongest[task, response_id] = (rank, bool(is_right), route == Route.ANSWER, propensity)
    grades: defaultdict[str, Grades] = defaultdict(Grades)
    for (task, _), (_, is_right, answered, propensity) in strongest.items():
        grades[task].count(is_right, answered, propensity)
    return grades
