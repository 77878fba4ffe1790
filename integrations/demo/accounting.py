"""What it would have cost to answer everything, against what Demur delivered, in the policy's unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...core.decision import Route
from ...policies.costs import Costs


@dataclass(frozen=True)
class Played:
    """One question of the demo, played.

    Attributes:
        draft, draft_right: what the small model says by itself, and whether that is right.
        answer, right: what was delivered, and whether it is right; None where nothing was.
        route: the last decision's route, as carried out.
        tried: later arms that were gone through ("retrieve", "escalate:NAME").
    """

    question: str
    draft: str
    draft_right: bool
    answer: str | None
    right: bool | None
    route: Route
    tried: tuple[str, ...]
    confidence: float | None
    why: str


@dataclass(frozen=True)
class Account:
    """Sums over played questions.

    Attributes:
        n: questions.
        everything_accuracy, everything_cost: had every draft been delivered.
        delivered, delivered_right: answers that Demur let through.
        delivered_accuracy: None where nothing was delivered.
        cost: of what Demur did; a deferred question costs the human's look and the human's own errors.
        routes: how often each route was taken.
    """

    n: int
    everything_accuracy: float
    everything_cost: float
    delivered: int
    delivered_right: int
    delivered_accuracy: float | None
    cost: float
    routes: dict[str, int]


def account(played: Sequence[Played], costs: Costs) -> Account:
    """Add up."""
    drafts_right = sum(each.draft_right for each in played)
    delivered = [each for each in played if each.right is not None]
    right = sum(bool(each.right) for each in delivered)
    routes = {
        route.value: sum(each.route is route for each in played) for route in Route if route is not Route.GENERATE
    }
    return Account(
        n=len(played),
        everything_accuracy=drafts_right / len(played),
        everything_cost=sum(costs.generate + (-costs.right if each.draft_right else costs.wrong) for each in played),
        delivered=len(delivered),
        delivered_right=right,
        delivered_accuracy=right / len(delivered) if delivered else None,
        cost=sum(_cost(each, costs) for each in played),
        routes=routes,
    )


def _cost(each: Played, costs: Costs) -> float:
    total = costs.generate
    for arm in each.tried:
        route, _, target = arm.partition(":")
        total += (costs.retrieve or 0.0) if route == Route.RETRIEVE.value else costs.escalate[target]
    if each.right is not None:
        return total + (-costs.right if each.right else costs.wrong)
    if each.route is Route.DEFER:
        return total + (costs.review or 0.0) + (1.0 - costs.human_accuracy) * costs.wrong
    return total + costs.abstain
