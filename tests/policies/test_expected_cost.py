import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.core.decision import Route, Stage
from demur.core.errors import ConfigurationError
from demur.core.utility import Utility
from demur.policies.costs import Costs
from demur.policies.expected_cost import Arm, Chance, Outlook, expected_costs, priced, threshold

COSTS = Costs(
    wrong=1.0, abstain=0.3, review=0.1, review_wait=0.02, human_accuracy=0.95, generate=0.01, retrieve=0.05,
    escalate={"big": 0.1},
)  # fmt: skip
EVERYTHING = {"retrieve": None, "escalate:big": None, "defer": None}


def by_arm(records):
    return {str(Arm(record.route, record.target)): record for record in records}


def test_golden_costs_after_generation(fixed):
    chances = {"retrieve": fixed(0.9), "escalate:big": fixed(0.6)}
    found = by_arm(expected_costs(0.8, COSTS, chances, EVERYTHING, Stage.AFTER))
    assert {name: round(record.total, 12) for name, record in found.items()} == {
        "answer": 0.2,  # 20 % of 1
        "retrieve": 0.15,  # 0.05 + 10 % of 1
        "escalate:big": 0.27,  # 0.1, then a human at 0.17: an answer that is right at 60 % is not delivered
        "defer": 0.17,  # 0.1 + 0.02 + 5 % of 1
        "abstain": 0.3,
    }
    assert {name: round(record.success, 12) for name, record in found.items()} == {
        "answer": 0.8,
        "retrieve": 0.9,
        "escalate:big": 0.95,
        "defer": 0.95,
        "abstain": 0.0,
    }
    assert found["defer"].parts == pytest.approx({"review": 0.1, "waiting": 0.02, "wrong answer": 0.05})


def test_golden_costs_before_generation():
    found = by_arm(expected_costs(0.5, COSTS, {}, {"defer": None}, Stage.BEFORE))
    # Perfect sight of the draft: delivered for nothing when right (50 %), to a human at 0.17 when wrong.
    assert found["generate"].total == pytest.approx(0.01 + 0.5 * 0.17)
    assert "answer" not in found
    blind = by_arm(expected_costs(0.9, COSTS, {}, {"defer": None}, Stage.BEFORE, draft_insight=0.0))
    assert blind["generate"].total == pytest.approx(0.01 + 0.1)
    half = by_arm(expected_costs(0.5, COSTS, {}, {"defer": None}, Stage.BEFORE, draft_insight=0.5))
    assert half["generate"].total == pytest.approx(0.01 + 0.5 * 0.085 + 0.5 * 0.17)


def test_a_queue_under_pressure_makes_deferring_dearer():
    costs = Costs(wrong=1.0, abstain=0.3, review=0.1, per_second=0.001)
    assert by_arm(expected_costs(0.5, costs, {}, {"defer": None}, Stage.AFTER, queue_wait=60.0))[
        "defer"
    ].total == pytest.approx(0.1 + 0.06 + 0.05)


def test_gains_are_counted():
    costs = Costs(wrong=3.0, abstain=0.0, right=1.0, review=0.5, human_accuracy=0.9)
    found = by_arm(expected_costs(0.75, costs, {}, {"defer": None}, Stage.AFTER))
    assert found["answer"].total == pytest.approx(0.0)
    assert found["defer"].total == pytest.approx(0.5 + 0.1 * 3.0 - 0.9 * 1.0)


@given(wrong=st.floats(0.1, 1e3), share=st.floats(0.01, 0.99), right=st.floats(0.0, 1e3))
def test_with_only_answering_and_abstaining_the_threshold_is_the_utility_cores(wrong, share, right):
    costs = Costs(wrong=wrong, abstain=wrong * share, right=right)
    found = threshold(Outlook(costs))
    assert found == pytest.approx(costs.utility.threshold, rel=1e-12, abs=1e-12)


def test_the_two_families_of_the_utility_core_agree():
    # λ = 3: wrong costs three times what right earns.
    assert threshold(Outlook(Costs(wrong=3.0, abstain=0.0, right=1.0))) == Utility.from_penalty(3.0).threshold == 0.75


def test_golden_thresholds(fixed, rising):
    assert threshold(Outlook(COSTS, available={"defer": None})) == pytest.approx(0.83)
    assert threshold(Outlook(COSTS)) == pytest.approx(0.7)
    # Drafting pays as soon as p·0.17 exceeds the 0.01 that a draft costs.
    before = Outlook(COSTS, Stage.BEFORE, available={"defer": None})
    assert threshold(before) == pytest.approx(0.01 / 0.17, abs=1e-9)
    # 1 − p = 0.05 + 1 − (0.2 + 0.75 p), so p = 0.6; there abstaining (0.5) is dearer than both (0.4).
    costs = Costs(wrong=1.0, abstain=0.5, retrieve=0.05)
    outlook = Outlook(costs, chances={"retrieve": rising(0.2, 0.75)}, available={"retrieve": None})
    assert threshold(outlook) == pytest.approx(0.6, abs=1e-9)
    # A larger model that is right at 97 % for 0.001: answering pays from 1 − 0.031 on.
    costs = Costs(wrong=1.0, abstain=0.5, escalate={"big": 0.001})
    outlook = Outlook(costs, chances={"escalate:big": fixed(0.97)}, available={"escalate:big": None})
    assert threshold(outlook) == pytest.approx(0.969, abs=1e-9)


def test_there_is_no_threshold_where_going_ahead_is_impossible_or_never_pays():
    assert threshold(Outlook(COSTS, available={"answer": "the draft was cut off"})) is None
    dear = Costs(wrong=1.0, abstain=0.3, generate=5.0)
    assert threshold(Outlook(dear, Stage.BEFORE)) is None
    perfect_reviewers = Costs(wrong=10.0, abstain=0.3, right=1.0, review=0.0, human_accuracy=0.999)
    assert 0.99 < threshold(Outlook(perfect_reviewers, available={"defer": None})) < 1.0


def test_drafting_for_nothing_always_pays():
    assert threshold(Outlook(Costs(wrong=1.0, abstain=0.3), Stage.BEFORE)) == 0.0


@pytest.mark.parametrize("broken", [math.nan, math.inf, -0.1, 1.1])
def test_a_chance_that_is_no_probability_closes_its_route(fixed, broken):
    found = by_arm(expected_costs(0.5, COSTS, {"retrieve": fixed(broken)}, {"retrieve": None}, Stage.AFTER))
    assert found["retrieve"].total is None
    assert "chance of success" in found["retrieve"].unavailable


def test_a_chance_that_raises_closes_its_route():
    class Broken:
        labels = 3

        def at(self, p: float) -> float:
            raise ZeroDivisionError

    assert isinstance(Broken(), Chance)
    found = by_arm(expected_costs(0.5, COSTS, {"retrieve": Broken()}, {"retrieve": None}, Stage.AFTER))
    assert "ZeroDivisionError" in found["retrieve"].unavailable
    assert threshold(Outlook(COSTS, chances={"retrieve": Broken()}, available={"retrieve": None})) == pytest.approx(0.7)


def test_what_has_no_price_or_chance_is_unavailable_and_says_what_to_add(fixed):
    bare = Costs(wrong=1.0, abstain=0.3)
    found = by_arm(expected_costs(0.5, bare, {"escalate:big": fixed(0.9)}, EVERYTHING, Stage.AFTER))
    assert "costs.review" in found["defer"].unavailable
    assert "costs.retrieve" in found["retrieve"].unavailable
    assert "costs.escalate.big" in found["escalate:big"].unavailable
    assert "neither given nor learned" in by_arm(expected_costs(0.5, COSTS, {}, EVERYTHING, Stage.AFTER))[
        "retrieve"
    ].unavailable  # fmt: skip
    assert "means nothing" in by_arm(expected_costs(0.5, COSTS, {}, EVERYTHING, Stage.AFTER, queue_wait=math.nan))[
        "defer"
    ].unavailable  # fmt: skip


@pytest.mark.parametrize("nothing", [None, math.nan, -0.5, 1.5])
def test_without_a_probability_only_flat_prices_stand(nothing, fixed):
    chances = {"retrieve": fixed(0.9), "escalate:big": fixed(0.6)}
    found = by_arm(expected_costs(nothing, COSTS, chances, EVERYTHING, Stage.AFTER))
    assert {name for name, record in found.items() if record.total is not None} == {"defer", "abstain"}


@pytest.mark.parametrize("arm", ["retreive", "escalate", "escalate:", "answer:big", "", "retrieve:x"])
def test_a_misspelt_arm_raises(arm):
    with pytest.raises(ConfigurationError):
        Outlook(COSTS, available={arm: None})
    with pytest.raises(ConfigurationError):
        Outlook(COSTS, chances={arm: None})  # type: ignore[dict-item]


def test_abstaining_is_always_possible():
    with pytest.raises(ConfigurationError, match="abstain"):
        Outlook(COSTS, available={"abstain": "forbidden"})
    assert priced(Outlook(COSTS), 0.5)[-1].route is Route.ABSTAIN


@given(p=st.floats(0.0, 1.0), insight=st.floats(0.0, 1.0), slope=st.floats(0.0, 0.9))
def test_more_insight_never_makes_a_later_route_dearer(rising, p, insight, slope):
    chances = {"retrieve": rising(0.1, slope)}

    def retrieve(later_insight: float) -> float:
        records = expected_costs(p, COSTS, chances, EVERYTHING, Stage.AFTER, later_insight=later_insight)
        return by_arm(records)["retrieve"].total

    assert retrieve(1.0) - 1e-9 <= retrieve(insight) <= retrieve(0.0) + 1e-9


@given(p=st.floats(0.0, 1.0))
def test_parts_add_up_to_the_total(fixed, p):
    chances = {"retrieve": fixed(0.9), "escalate:big": fixed(0.6)}
    for record in expected_costs(p, COSTS, chances, EVERYTHING, Stage.AFTER, later_insight=0.3):
        assert sum(record.parts.values()) == pytest.approx(record.total, abs=1e-12)


@given(floor=st.floats(0.0, 1.0), slope=st.floats(0.0, 2.0), cost=st.floats(0.0, 0.4))
def test_from_the_threshold_on_answering_is_never_dearer(rising, floor, slope, cost):
    outlook = Outlook(
        Costs(wrong=1.0, abstain=0.5, retrieve=cost),
        chances={"retrieve": rising(floor, slope)},
        available={"retrieve": None},
    )
    start = threshold(outlook)
    if start is None:
        return
    for step in range(201):
        p = step / 200
        found = by_arm(priced(outlook, p))
        if p >= start:
            others = [found["retrieve"].total, found["abstain"].total]
            assert found["answer"].total <= min(others) + 1e-9
