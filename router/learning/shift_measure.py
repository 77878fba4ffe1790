"""Is the world still the one that a head was fitted on? Base rates then and now, and what learning made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
from sqlalchemy import Connection, func, select

from ...core.clock import SystemClock
from ...core.database import Database
from ...core.database.counters import OUTCOMES, last_number
from ...core.database.outcome_log import OutcomeLog
from ...core.database.tables import learned, outcomes, rounds, runs
from ...core.errors import BadInput
from ...evaluation.estimate import Estimate
from ...evaluation.metrics.smece import smece_and_width, smece_statistic
from ...evaluation.metrics.weighted import weighted_proportion
from .graded import Graded, seen
from .learned_head import LearnedHead, LearnedHeads
from .online_store import NAME as ONLINE
from .shift import FittedRate, Shift

ARM = "answer"
RECENT = 200
_FEWEST = 20


def shifts(
    database: Database,
    tasks: Mapping[str, FittedRate | None],
    tenant: str | None = None,
    *,
    recent: int = RECENT,
) -> dict[str, Shift]:
    """By task; tasks of which nothing was graded and nothing learned are left out.

    Args:
        tasks: what their artefacts were fitted on. A head learned from the log that is in use goes before it.
        recent: how many of the newest graded answers count as now.
    """
    heads = _heads(database, tenant)
    found = {}
    with database.reading() as connection:
        for task, fitted in tasks.items():
            rows = _newest(connection, OutcomeLog(database), task, tenant, recent)
            online = _online(connection, task, tenant)
            if rows or online["outcomes"]:
                found[task] = _shift(rows, heads.get(task, fitted)).model_copy(update=online)
    return found


def _shift(rows: list[Graded], fitted: FittedRate | None) -> Shift:
    usable = [row for row in rows if row.weight is not None]
    shift = Shift(
        fitted=None if fitted is None else fitted.rate,
        head="" if fitted is None else fitted.head,
        unweighable=len(rows) - len(usable),
    )
    if not usable:
        return shift
    hits = np.array([float(row.outcome.is_right) for row in usable])
    weights = np.array([row.weight or 0.0 for row in usable])
    rate = weighted_proportion("recent_base_rate", hits, 1.0 / weights)
    update: dict[str, object] = {"recent": rate, "warning": _warning(rate, fitted)}
    fused = np.array([np.nan if row.seen.fused is None else row.seen.fused for row in usable])
    said = np.array([np.nan if row.seen.said is None else row.seen.said for row in usable])
    judged = np.isfinite(fused) & np.isfinite(said)
    if judged.any():
        fused, said, y, w = fused[judged], said[judged], hits[judged], weights[judged]
        means = {"mean_fused": fused, "mean_said": said, "mean_observed": y}
        update |= {name: float(np.average(values, weights=w)) for name, values in means.items()}
        if len(y) >= _FEWEST:
            update |= {"smece_before": _smece(fused, y, w), "smece_after": _smece(said, y, w)}
    return shift.model_copy(update=update)


def _warning(rate: Estimate, fitted: FittedRate | None) -> str | None:
    if fitted is None or rate.low is None or rate.high is None or rate.value is None:
        return None
    if rate.low <= fitted.rate <= rate.high:
        return None
    return (
        f"the base rate has shifted: {rate.value:.0%} [{rate.low:.0%}, {rate.high:.0%}] of the newest {rate.n} graded "
        f"answers were right, and {fitted.rate:.0%} of those that {fitted.head} was fitted on"
    )


def _smece(confidence: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    _, width = smece_and_width(confidence, labels)
    return float(smece_statistic(confidence, labels, width)(weights[None, :])[0])


def _newest(connection: Connection, log: OutcomeLog, task: str, tenant: str | None, count: int) -> list[Graded]:
    newest = func.max(outcomes.c.change)
    query = (
        select(outcomes.c.response_id)
        .join(rounds, rounds.c.response_id == outcomes.c.response_id)
        .join(runs, runs.c.id == rounds.c.run_id)
        .where(runs.c.task == task, rounds.c.arm == ARM, outcomes.c.retracted_at.is_(None))
        .group_by(outcomes.c.response_id)
        .order_by(newest.desc(), outcomes.c.response_id)
        .limit(count)
    )
    if tenant is not None:
        query = query.where(runs.c.tenant == tenant)
    ids = list(connection.execute(query).scalars())
    known = seen(connection, ids)
    in_force = log.effective_many(ids, connection)
    return [Graded(known[id], outcome, change) for id, (change, outcome) in in_force.items() if id in known]


def _online(connection: Connection, task: str, tenant: str | None) -> dict[str, object]:
    """How much was learned of this task, and when; a state that cannot be read counts as nothing learned."""
    query = select(learned.c.state, learned.c.updated_at).where(learned.c.name == ONLINE, learned.c.task == task)
    if tenant is not None:
        query = query.where(learned.c.tenant == tenant)
    rows = connection.execute(query).all()
    through = connection.execute(
        select(learned.c.through).where(learned.c.name == "follower", learned.c.scope == ONLINE)
    ).scalar_one_or_none()
    count = 0
    for row in rows:
        try:
            count += int(json.loads(row.state)["online"]["count"])
        except (ValueError, KeyError, TypeError):
            continue
    return {
        "outcomes": count,
        "behind": last_number(connection, OUTCOMES) - int(through or 0),
        "learned_at": max((row.updated_at for row in rows), default=None),
    }


def _heads(database: Database, tenant: str | None) -> dict[str, FittedRate]:
    """Of every task the head in use that was learned from the most calls."""
    best: dict[str, LearnedHead] = {}
    try:
        stored = LearnedHeads(database, SystemClock()).all(tenant)
    except BadInput:
        return {}  # said where it would be used; `demur learn` replaces it
    for each in stored:
        known = best.get(each.task)
        if each.in_use and each.head.arm == ARM and (known is None or each.head.labels > known.head.labels):
            best[each.task] = each
    rates = {}
    for task, each in best.items():
        rows = each.head.out_of_fold
        rate = float(np.average(rows.correct, weights=rows.weights))
        rates[task] = FittedRate(rate, f"the head learned from the log ({each.head.labels} calls)")
    return rates
