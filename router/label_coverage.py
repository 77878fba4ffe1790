"""Which part of a task's calls the labels speak about, and which nobody was ever going to look at."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from ..core.decision import Route
from ..core.errors import Refused
from ..evaluation.metrics.proportion import proportion
from ..evaluation.metrics.weighted import effective_rows, sampling_weights, weighted_proportion
from .judged_calls import JudgedCall
from .label_report import LabelCoverage, Region

_BANDS = ((0.0, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1.0))
_NAME = "weighted_accuracy"
_NOBODY = "calls that nobody looks at"


def coverages(calls: Sequence[JudgedCall]) -> dict[str, LabelCoverage]:
    """The coverage of a task's calls and, where that is not all of them, of those that were delivered."""
    if not calls:
        return {}
    delivered = [call for call in calls if call.delivered]
    found = {"coverage": label_coverage(calls)}
    if 0 < len(delivered) < len(calls):
        found["coverage_of_delivered"] = label_coverage(delivered)
    return found


def label_coverage(calls: Sequence[JudgedCall]) -> LabelCoverage:
    """What can be said of all these calls from those that were graded.

    Deferred calls, drawn ones, and those whose graders named their own chance each stand for all calls that were to be
    graded in that way. Where every call of a way is graded, each stands for itself, whoever asked.
    """
    ways = _ways(calls)
    totals = Counter(ways)
    graded = Counter(way for call, way in zip(calls, ways, strict=True) if call.is_right is not None)
    whole = {way for way in totals if graded[way] == totals[way]}
    used = [
        (call, way)
        for call, way in zip(calls, ways, strict=True)
        if call.is_right is not None and (way in whole or call.sent or call.told is not None)
    ]
    hits = [bool(call.is_right) for call, _ in used]
    chances = [1.0 if way in whole else _chance(call) for call, way in used]
    blind = _blind(calls, ways)
    weighted, effective, refused = None, None, None
    try:
        _check(calls, blind)
        groups = [way for _, way in used]
        weighted = weighted_proportion(_NAME, hits, chances, groups=groups, totals=totals)
        effective = effective_rows(sampling_weights(_NAME, chances, groups=groups, totals=totals))
    except Refused as error:
        refused = str(error).removeprefix(f"{_NAME}: ")
    all_hits = [bool(call.is_right) for call in calls if call.is_right is not None]
    return LabelCoverage(
        calls=len(calls),
        graded=len(all_hits),
        naive=proportion("naive_accuracy", all_hits),
        weighted=weighted,
        effective=effective,
        refused=refused,
        unasked=len(all_hits) - len(used),
        pending=sum(call.sent and call.is_right is None for call in calls),
        blind=blind,
    )


def _check(calls: Sequence[JudgedCall], blind: Sequence[Region]) -> None:
    hopeless = sum(region.hopeless for region in blind)
    if hopeless:
        worst = max(blind, key=lambda region: region.hopeless)
        raise Refused(
            f"{hopeless} of {len(calls)} calls were never going to be graded ({worst}); no label stands for them"
        )
    if all(call.is_right is None for call in calls):
        raise Refused("nothing is graded yet")


def _ways(calls: Sequence[JudgedCall]) -> list[str]:
    """In which way each call was to be graded."""
    told = {_region_of(call) for call in calls if call.told is not None}
    found = []
    for call in calls:
        if call.propensity <= 0.0:
            found.append("calls graded from outside" if _region_of(call) in told else _NOBODY)
        else:
            deferred = call.route is Route.DEFER and not call.delivered
            found.append("deferred calls" if deferred else "delivered calls")
    return found


def _chance(call: JudgedCall) -> float:
    return call.propensity if call.told is None else call.told


def _blind(calls: Sequence[JudgedCall], ways: Sequence[str]) -> tuple[Region, ...]:
    groups: dict[tuple, list[tuple[JudgedCall, str]]] = defaultdict(list)
    for call, way in zip(calls, ways, strict=True):
        groups[_region_of(call)].append((call, way))
    several = len({call.model for call in calls}) > 1
    found = [
        Region(
            route=route,
            delivered=delivered,
            band=band,
            turn=turn,
            arm=arm,
            model=model if several else None,
            calls=len(members),
            graded=sum(call.is_right is not None for call, _ in members),
            hopeless=sum(call.is_right is None and way == _NOBODY for call, way in members),
        )
        for (route, delivered, band, turn, arm, model), members in groups.items()
    ]
    blind = [region for region in found if region.graded == 0 or region.hopeless]
    return tuple(sorted(blind, key=lambda region: (-region.hopeless, -region.calls, str(region))))


def _region_of(call: JudgedCall) -> tuple:
    return call.route, call.delivered, _band(call.confidence), call.turn, call.arm, call.model


def _band(confidence: float | None) -> tuple[float, float] | None:
    if confidence is None:
        return None
    return next((band for band in _BANDS if confidence < band[1]), _BANDS[-1])
