"""Which part of a task's calls the labels speak about, and which nobody was ever going to look at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select

from ..core.database.outcome_log import OutcomeLog
from ..core.database.tables import decisions, rounds, runs
from ..core.errors import Refused
from ..core.record import Record
from ..evaluation.estimate import Estimate
from ..evaluation.metrics.proportion import proportion
from ..evaluation.metrics.weighted import weighted_proportion

_BANDS = ((0.0, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1.0))


@dataclass(frozen=True)
class JudgedCall:
    """One response in the log: where it went, how sure, its chance of being graded, and its grade."""

    route: str
    confidence: float | None
    propensity: float
    is_right: bool | None


class Region(Record):
    """Calls of one route and confidence band.

    Attributes:
        band: of the confidence, or None where there was none.
        graded: how many have a grade.
        hopeless: how many nobody was ever going to grade.
    """

    route: str
    band: tuple[float, float] | None
    calls: int
    graded: int
    hopeless: int

    def __str__(self) -> str:
        sure = "without a confidence" if self.band is None else f"at confidence {self.band[0]:.1f}–{self.band[1]:.1f}"
        why = "none was ever going to be graded" if self.hopeless == self.calls else "none is graded so far"
        return f"{self.route}, {sure}: {self.calls} calls, {why}"


class LabelCoverage(Record):
    """What the labels of a task say about all of its responses.

    Attributes:
        naive: accuracy of the graded responses as they are: of whatever happened to be graded.
        weighted: accuracy of all responses, each graded one standing for 1/propensity of them; None where it would not
            deserve the name, and `refused` says why.
        blind: regions without a label, the largest first.
    """

    naive: Estimate
    weighted: Estimate | None
    refused: str | None
    blind: tuple[Region, ...]


def judged_calls(connection: Connection, log: OutcomeLog, task: str, tenant: str | None = None) -> list[JudgedCall]:
    """Every response of a task that was decided upon after it existed, one a response."""
    query = (
        select(
            rounds.c.response_id,
            decisions.c.route,
            decisions.c.probability,
            decisions.c.label_propensity,
            decisions.c.fallback,
        )
        .join(decisions, (decisions.c.run_id == rounds.c.run_id) & (decisions.c.round == rounds.c.number))
        .join(runs, runs.c.id == rounds.c.run_id)
        .where(runs.c.task == task, rounds.c.response_id.is_not(None), decisions.c.stage == "after")
    )
    if tenant is not None:
        query = query.where(runs.c.tenant == tenant)
    rows = {row.response_id: row for row in connection.execute(query)}
    grades = log.effective_many(list(rows), connection)
    return [
        JudgedCall(
            route=row.route,
            confidence=row.probability,
            propensity=row.label_propensity,
            is_right=grades[id][1].is_right if id in grades else None,
        )
        for id, row in rows.items()
    ]


def label_coverage(calls: Sequence[JudgedCall]) -> LabelCoverage:
    """What can be said of all these calls from those that were graded."""
    graded = [call for call in calls if call.is_right is not None]
    hits = [bool(call.is_right) for call in graded]
    blind = _blind(calls)
    hopeless = [region for region in blind if region.hopeless == region.calls]
    weighted, refused = None, None
    if hopeless:
        count = sum(region.calls for region in hopeless)
        refused = f"{count} of {len(calls)} calls were never going to be graded; no label stands for them"
    else:
        try:
            weighted = weighted_proportion("weighted_accuracy", hits, [call.propensity for call in graded])
        except Refused as error:
            refused = str(error)
    return LabelCoverage(naive=proportion("naive_accuracy", hits), weighted=weighted, refused=refused, blind=blind)


def _blind(calls: Sequence[JudgedCall]) -> tuple[Region, ...]:
    groups: dict[tuple[str, tuple[float, float] | None], list[JudgedCall]] = defaultdict(list)
    for call in calls:
        groups[call.route, _band(call.confidence)].append(call)
    found = [
        Region(
            route=route,
            band=band,
            calls=len(members),
            graded=sum(call.is_right is not None for call in members),
            hopeless=sum(call.propensity <= 0.0 for call in members),
        )
        for (route, band), members in groups.items()
    ]
    return tuple(sorted((one for one in found if one.graded == 0), key=lambda one: (-one.calls, str(one))))


def _band(confidence: float | None) -> tuple[float, float] | None:
    if confidence is None:
        return None
    return next((band for band in _BANDS if confidence < band[1]), _BANDS[-1])
