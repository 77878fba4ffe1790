"""What the demo's sums come to, worked out by hand."""

import pytest

from demur.core.decision import Route
from demur.integrations.demo.accounting import Played, account
from demur.policies.costs import Costs

COSTS = Costs(
    wrong=1.0, abstain=0.5, review=0.4, human_accuracy=0.95, generate=0.001, retrieve=0.02, escalate={"big": 0.05}
)


def played(route: Route, *, draft_right: bool, right: bool | None, tried: tuple[str, ...] = ()) -> Played:
    return Played(
        question="q",
        draft="d",
        draft_right=draft_right,
        answer=None if right is None else "a",
        right=right,
        route=route,
        tried=tried,
        confidence=0.5,
        why="",
    )


def test_every_route_costs_what_the_policy_says() -> None:
    rows = [
        played(Route.ANSWER, draft_right=True, right=True),  # .001
        played(Route.ANSWER, draft_right=False, right=False),  # .001 + 1
        played(Route.RETRIEVE, draft_right=False, right=True, tried=("retrieve",)),  # .001 + .02
        played(Route.ESCALATE, draft_right=False, right=True, tried=("retrieve", "escalate:big")),  # .001 + .02 + .05
        played(Route.DEFER, draft_right=False, right=None),  # .001 + .4 + .05 * 1
        played(Route.ABSTAIN, draft_right=True, right=None),  # .001 + .5
    ]
    sums = account(rows, COSTS)
    assert sums.n == 6
    assert sums.delivered == 4
    assert sums.delivered_right == 3
    assert sums.delivered_accuracy == 0.75
    assert sums.cost == pytest.approx(0.006 + 1.0 + 0.02 + 0.07 + 0.45 + 0.5)
    assert sums.everything_accuracy == pytest.approx(2 / 6)
    assert sums.everything_cost == pytest.approx(0.006 + 4.0)
    assert sums.routes == {"answer": 2, "retrieve": 1, "escalate": 1, "defer": 1, "abstain": 1}


def test_where_nothing_is_delivered_there_is_no_accuracy() -> None:
    sums = account([played(Route.DEFER, draft_right=False, right=None)], COSTS)
    assert sums.delivered == 0
    assert sums.delivered_accuracy is None
