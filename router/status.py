"""What is known so far, task by task: runs, routes, labels, the queue, and what the next labels would allow."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field
from sqlalchemy import Connection, func, select

from ..core.database import Database
from ..core.database.tables import decisions, review_items, runs
from ..core.decision import Mode
from ..core.errors import ConfigurationError
from ..core.record import Record
from ..core.review_item import ReviewState
from ..policies.label_needs import answered_rows_needed, reached, tiers_ahead
from .judged_calls import judged_calls
from .label_report import LabelCoverage
from .learning.shift import FittedRate, Shift
from .run_queries import let_through_runs
from .settings import Settings
from .status_grades import Grades, grades_by_task

COMMANDS_FOR_LABELS = "demur review next"


@dataclass(frozen=True)
class FittedOn:
    """What an artefact rests on: how many of its graded rows were right, how many wrong."""

    id: str
    right: int
    wrong: int

    @property
    def rate(self) -> FittedRate | None:
        rows = self.right + self.wrong
        return FittedRate(self.right / rows, f"artefact {self.id}") if rows else None


class FittingNeed(Record):
    """What a further `missing` rows of one class would allow."""

    rarer: int
    allows: str
    missing: int
    of: str


class GuaranteeNeed(Record):
    """P(wrong | answered) ≤ alpha with probability ≥ 1 − delta: graded answered rows at hand, needed and missing.

    Attributes:
        have: answered rows graded under a known, positive label propensity; others cannot be weighed (rule 10).
        errors: how many of them were wrong.
        need: rows needed with that many errors; at least that many, since more rows may bring more errors.
    """

    alpha: float
    delta: float
    have: int
    errors: int
    need: int

    @property
    def missing(self) -> int:
        return max(self.need - self.have, 0)


class TaskStatus(Record):
    """One task.

    Attributes:
        routes: number of decisions by route; `fallbacks` of them came from the fallback.
        right, wrong: graded responses in the database, one grade each (the strongest source, then the newest).
        fitted_right, fitted_wrong: graded rows behind the artefact; None without one.
        unweighable: answered and graded, but the chance of being graded is unknown or 0.
        waiting: review items that nobody has decided yet.
        shift: base rates at fit time and now, and what online calibration made of it; None where nothing was graded.
        coverage: what the labels say of all responses; None without any. `coverage_of_delivered`: of those that went
            out without a human, where that is not all of them.
        next_steps: commands, the most useful first.
    """

    task: str
    mode: Mode
    irreversible: Mode
    runs: int = 0
    routes: dict[str, int] = Field(default_factory=dict)
    fallbacks: int = 0
    right: int = 0
    wrong: int = 0
    artefact_id: str | None = None
    fitted_right: int | None = None
    fitted_wrong: int | None = None
    allows: str | None = None
    fitting: tuple[FittingNeed, ...] = ()
    guarantee: GuaranteeNeed
    unweighable: int = 0
    waiting: int = 0
    shift: Shift | None = None
    coverage: LabelCoverage | None = None
    coverage_of_delivered: LabelCoverage | None = None
    next_steps: tuple[str, ...] = ()


class Status(Record):
    """All tasks that are configured, have an artefact, or were met.

    Attributes:
        waiting: review items that nobody has decided yet.
        approved: tool calls that were let through and wait for the program that has the tool.
    """

    database: str
    mode: Mode
    irreversible: Mode
    waiting: int
    approved: int = 0
    tasks: tuple[TaskStatus, ...]


def status(
    database: Database,
    settings: Settings,
    artefacts: Mapping[str, FittedOn] | None = None,
    *,
    alpha: float = 0.05,
    delta: float = 0.1,
    tenant: str | None = None,
) -> Status:
    """Read it all off the database.

    Args:
        artefacts: by task.
        alpha, delta: the guarantee asked about: P(wrong | answered) ≤ alpha with probability ≥ 1 − delta.
        tenant: count only this tenant's; None for all.

    Raises:
        ConfigurationError: alpha or delta is not strictly between 0 and 1.
        StoreError: the database cannot be read.
    """
    from .label_coverage import coverages  # numpy is loaded only where something is counted
    from .learning.shift_measure import shifts

    artefacts = artefacts or {}
    for name, value in (("alpha", alpha), ("delta", delta)):
        if not 0.0 < value < 1.0:
            raise ConfigurationError(f"{name}={value} must lie strictly between 0 and 1")
    with database.reading() as connection:
        run_counts = _runs(connection, tenant)
        routes, fallbacks = _decisions(connection, tenant)
        waiting = _waiting(connection, tenant)
        approved = _approved(connection, tenant)
        grades = grades_by_task(connection, tenant)
        calls = judged_calls(connection, tenant=tenant)
    met = {*settings.tasks, *artefacts, *run_counts, *routes, *waiting, *grades}
    moved = shifts(database, {task: artefacts[task].rate if task in artefacts else None for task in met}, tenant)
    tasks = []
    for task in sorted(met):
        mode, irreversible = settings.modes_of_task(task)
        found = TaskStatus(
            task=task,
            mode=mode or settings.mode,
            irreversible=irreversible or settings.irreversible,
            runs=run_counts.get(task, 0),
            routes=routes.get(task, {}),
            fallbacks=fallbacks.get(task, 0),
            waiting=waiting.get(task, 0),
            shift=moved.get(task),
            **coverages(calls.get(task, ())),
            guarantee=_guarantee(grades[task], alpha, delta),
            **_labels(grades[task], artefacts.get(task)),
        )
        tasks.append(found.model_copy(update={"next_steps": _next_steps(found)}))
    return Status(
        database=database.engine.url.render_as_string(hide_password=True),
        mode=settings.mode,
        irreversible=settings.irreversible,
        waiting=sum(waiting.values()),
        approved=approved,
        tasks=tuple(tasks),
    )


def _runs(connection: Connection, tenant: str | None) -> dict[str, int]:
    query = select(runs.c.task, func.count()).group_by(runs.c.task)
    if tenant is not None:
        query = query.where(runs.c.tenant == tenant)
    return {str(task): int(count) for task, count in connection.execute(query)}


def _decisions(connection: Connection, tenant: str | None) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    columns = (decisions.c.task, decisions.c.route, decisions.c.fallback)
    query = select(*columns, func.count()).group_by(*columns)
    if tenant is not None:
        query = query.where(decisions.c.tenant == tenant)
    routes: dict[str, dict[str, int]] = defaultdict(dict)
    fallbacks: dict[str, int] = defaultdict(int)
    for task, route, fallback, count in connection.execute(query):
        routes[task][route] = routes[task].get(route, 0) + count
        fallbacks[task] += count if fallback else 0
    return routes, fallbacks


def _waiting(connection: Connection, tenant: str | None) -> dict[str, int]:
    undecided = review_items.c.state.in_([ReviewState.OPEN.value, ReviewState.CLAIMED.value])
    query = select(review_items.c.task, func.count()).where(undecided).group_by(review_items.c.task)
    if tenant is not None:
        query = query.where(review_items.c.tenant == tenant)
    return {str(task): int(count) for task, count in connection.execute(query)}


def _approved(connection: Connection, tenant: str | None) -> int:
    query = let_through_runs(func.count())
    if tenant is not None:
        query = query.where(runs.c.tenant == tenant)
    return int(connection.execute(query).scalar_one())


def _guarantee(grades: Grades, alpha: float, delta: float) -> GuaranteeNeed:
    need = answered_rows_needed(alpha, delta, grades.answered_wrong)
    return GuaranteeNeed(alpha=alpha, delta=delta, have=grades.answered, errors=grades.answered_wrong, need=need)


def _labels(grades: Grades, artefact: FittedOn | None) -> dict[str, Any]:
    """What the labels allow: those in the database, or those behind the artefact where that has more."""
    right, wrong = grades.right, grades.wrong
    if artefact is not None and min(artefact.right, artefact.wrong) > min(right, wrong):
        right, wrong = artefact.right, artefact.wrong
    tier = reached(right, wrong)
    needs = [
        FittingNeed(rarer=need.tier.rarer, allows=need.tier.allows, missing=need.missing, of=need.of)
        for need in tiers_ahead(right, wrong)
    ]
    return {
        "right": grades.right,
        "wrong": grades.wrong,
        "unweighable": grades.unweighable,
        "artefact_id": None if artefact is None else artefact.id,
        "fitted_right": None if artefact is None else artefact.right,
        "fitted_wrong": None if artefact is None else artefact.wrong,
        "allows": None if tier is None else tier.allows,
        "fitting": tuple(needs),
    }


def _next_steps(found: TaskStatus) -> tuple[str, ...]:
    """The commands that bring this task further."""
    steps = []
    if found.waiting:
        steps.append(COMMANDS_FOR_LABELS)
    shift = found.shift
    if shift is not None and (shift.warning is not None or shift.behind):
        steps.append(f"demur learn --task {shlex.quote(found.task)}")
    nothing_fitted = found.artefact_id is None
    if nothing_fitted or found.fitting:
        plain = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in found.task).strip("-")
        steps.append(f"demur fit --data graded.jsonl --task {shlex.quote(found.task)} --out {plain or 'task'}-artefact")
    return tuple(steps)
