"""A head fitted on the log: on the signals that were stored with each call, and the grades that came later.

Nothing is measured again. What recall said of a call was stored before that call was graded, so no row's own grade is
in its signals; near-duplicate questions share a fold all the same, as everywhere.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.database import Database
from ...core.database.counters import OUTCOMES, last_number
from ...core.database.outcome_log import OutcomeLog
from ...core.database.tables import rounds, runs
from ...core.decision import Stage
from ...core.errors import BadInput, NotEnoughLabels
from ...core.protocols import Clock
from ...evaluation.estimate import Estimate
from ...evaluation.metrics.auroc import auroc_statistic
from ...evaluation.metrics.bootstrap import Statistic, estimate
from ...evaluation.metrics.brier import brier_statistic
from ...evaluation.near_duplicates import question_groups
from ...probes.fit_head import fit_head
from ...probes.signal_table import SignalTable
from .graded import Graded, contents, graded
from .learned_head import LearnedHead

ARTEFACT_SCORE = "head.log_odds"
"""What the artefact's own head said, as a signal of the new one."""
_MOST_ROWS = 20_000
_RESAMPLES = 400


@dataclass(frozen=True)
class LoggedRows:
    """Graded calls of one model and arm, ready to fit on."""

    rows: list[Graded]
    table: SignalTable
    correct: np.ndarray
    weights: np.ndarray
    groups: np.ndarray
    fused: np.ndarray
    left_out: dict[str, int]
    graded: int
    through: int

    def __len__(self) -> int:
        return len(self.rows)


def logged_rows(
    database: Database, tenant: str, task: str, arm: str, identity: str, artefact_id: str | None = None
) -> LoggedRows:
    """What was graded of this task and arm, as far as it was answered by the model of this identity.

    Rows whose chance of being graded is 0 or unknown are left out (rule 10), and so are those of other models; both
    are counted. Of more than 20,000 the newest are taken. What another artefact than the one in force made of a call is
    not the same signal, and counts as missing.
    """
    log = OutcomeLog(database)
    with database.reading() as connection:
        through = last_number(connection, OUTCOMES)
        found = graded(connection, log, runs.c.tenant == tenant, runs.c.task == task, rounds.c.arm == arm)
        usable, left_out = _usable(found, identity)
        usable = usable[-_MOST_ROWS:]
        content = {id: (call, signals) for id, call, _, signals in contents(connection, [_id(row) for row in usable])}
    rows = [row for row in usable if _id(row) in content]
    signals = [
        {
            signal.name: signal.value
            for signal in content[_id(row)][1]
            if row.seen.artefact_id == artefact_id or not _is_score(signal.name)
        }
        for row in rows
    ]
    names = sorted({name for each in signals for name in each})
    values = np.array(
        [[np.nan if each.get(name) is None else float(each[name] or 0.0) for name in names] for each in signals]
    ).reshape(len(rows), len(names))
    fused = np.array([np.nan if row.seen.fused is None else row.seen.fused for row in rows])
    return LoggedRows(
        rows=rows,
        table=SignalTable(tuple(names), values),
        correct=np.array([float(row.outcome.is_right) for row in rows]),
        weights=np.array([row.weight or 0.0 for row in rows]),
        groups=question_groups([content[_id(row)][0].question for row in rows]) if rows else np.empty(0, np.int64),
        fused=fused,
        left_out=dict(left_out),
        graded=len(found),
        through=through,
    )


def relearn(
    logged: LoggedRows,
    *,
    tenant: str,
    task: str,
    arm: str,
    identity: str,
    artefact_id: str | None,
    clock: Clock,
    seed: int = 0,
) -> LearnedHead:
    """Fit a head on logged rows.

    It is put to use where its cross-fitted Brier score is no worse than what was said of the same rows at the time;
    otherwise it is kept aside. Where nothing judged them then, the base rate is what it has to beat.

    Raises:
        NotEnoughLabels: too few rows of the rarer class, or too few that carry a signal.
    """
    if len(logged) == 0:
        reasons = ", ".join(f"{count} {why}" for why, count in sorted(logged.left_out.items())) or "none is graded"
        raise NotEnoughLabels(f"no graded calls of task {task!r} to learn from: {reasons}", have=0, need=10)
    try:
        head = fit_head(
            logged.table,
            logged.correct,
            logged.groups,
            arm=arm,
            stage=Stage.AFTER,
            seed=seed,
            weights=logged.weights,
            fitted_at=clock.now(),
            method="logistic",
        )
    except BadInput as error:
        why = f"task {task!r} cannot be learned from its log: {error}"
        raise NotEnoughLabels(why, have=len(logged), need=10) from error
    report = _report(head.out_of_fold.probability, logged)
    return LearnedHead(
        head=head,
        tenant=tenant,
        task=task,
        identity=identity,
        artefact_id=artefact_id,
        through=logged.through,
        graded=logged.graded,
        in_use=report["brier"] <= report["brier_before"],
        report={**report, "left_out": logged.left_out},
    )


def _report(probability: np.ndarray, logged: LoggedRows) -> dict[str, Any]:
    """Weighted Brier scores and AUROC of the new head (out of fold) and of what was said then, on the rows of both."""
    said = np.isfinite(logged.fused)
    # Where most rows were judged by nothing, there is nothing to compare with but the base rate.
    rate = float(np.average(logged.correct, weights=logged.weights))
    before = logged.fused if said.mean() >= 0.5 else np.full(len(logged), rate)
    both = np.isfinite(probability) & np.isfinite(before)
    if not both.any():
        return {"rows": 0.0, "brier": 1.0, "brier_before": 0.0}
    y, w = logged.correct[both], logged.weights[both]
    figures = {"brier": _weighted("brier", brier_statistic, probability[both], y, w, logged.groups[both])}
    figures["brier_before"] = _weighted("brier", brier_statistic, before[both], y, w, logged.groups[both])
    figures["auroc"] = _weighted("auroc", auroc_statistic, probability[both], y, w, logged.groups[both])
    figures["auroc_before"] = _weighted("auroc", auroc_statistic, before[both], y, w, logged.groups[both])
    return {
        "rows": float(both.sum()),
        "right": float(logged.correct.sum()),
        "brier": figures["brier"].value,
        "brier_before": figures["brier_before"].value,
        "figures": {name: figure.as_row() for name, figure in figures.items()},
    }


def _weighted(
    name: str,
    statistic_of: Callable[[np.ndarray, np.ndarray], Statistic],
    said: np.ndarray,
    correct: np.ndarray,
    weights: np.ndarray,
    groups: np.ndarray,
) -> Estimate:
    """A metric of rows that stand for 1/propensity rows each; related questions are drawn together."""
    statistic = statistic_of(said, correct)
    return estimate(
        name,
        lambda counts: statistic(counts * weights),
        len(correct),
        undefined="one class only",
        groups=groups,
        resamples=_RESAMPLES,
        bounds=(0.0, 1.0),
    )


def identity_of(fingerprint: str | None) -> str | None:
    """The identity within a stored fingerprint."""
    if fingerprint is None:
        return None
    try:
        return str(json.loads(fingerprint)["identity"])
    except (ValueError, KeyError, TypeError):
        return None


def _is_score(name: str) -> bool:
    """Is it what an artefact made of the call, and not the call's own?"""
    return name == ARTEFACT_SCORE or name.startswith("hidden.")


def _usable(found: Sequence[Graded], identity: str) -> tuple[list[Graded], Counter[str]]:
    left_out: Counter[str] = Counter()
    usable = []
    for row in found:
        if identity_of(row.seen.fingerprint) != identity:
            left_out["answered by another model"] += 1
        elif row.weight is None:
            left_out["with an unknown chance of being graded"] += 1
        else:
            usable.append(row)
    return usable, left_out


def _id(row: Graded) -> str:
    return row.seen.response_id
