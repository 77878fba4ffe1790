"""Turns that assert nothing: judged, delivered or withheld, as the settings say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.core.call import Call, CallKind, SideEffects
from demur.core.confidence import Confidence, Interval, Probability
from demur.core.decision import Mode, Route, Stage
from demur.core.errors import ConfigurationError
from demur.core.signal import Unavailable
from demur.core.turn import TurnKind
from demur.policies.costs import Costs
from demur.policies.policy import CostPolicy, PolicyInput
from demur.policies.turn_rules import TurnRule, TurnRules

ASKED = Call.ask("Who?")
NOTHING = Unavailable(reason="nothing is fitted")


def sure(value: float) -> Confidence:
    return Confidence(
        probability=Probability(value=value), interval=Interval(low=0.0, high=1.0), calibrator="a", labels=100
    )


def policy(**rules: Any) -> CostPolicy:
    return CostPolicy(Costs(wrong=1.0, abstain=0.3), label_rate=0.25, turns=TurnRules(**rules))


def asked(turn: TurnKind | None, confidence: Any = NOTHING, **changes: Any) -> PolicyInput:
    fields: dict[str, Any] = {
        "call": ASKED,
        "stage": Stage.AFTER,
        "draw": 0.1,
        "available": {"answer": None, "defer": None},
        "rounds": 1,
    }
    return PolicyInput(confidence=confidence, turn=turn, **(fields | changes))


def test_judging_is_the_default_and_changes_nothing():
    plain = CostPolicy(Costs(wrong=1.0, abstain=0.3), label_rate=0.25)
    assert plain.id == policy().id == policy(refusal="judge", clarification=TurnRule.JUDGE).id
    for turn in (None, *TurnKind):
        for confidence in (NOTHING, sure(0.2), sure(0.9)):
            assert plain.choose(asked(turn, confidence)) == plain.choose(asked(None, confidence))


def test_every_rule_has_a_policy_id_of_its_own():
    ids = {policy(refusal=one, clarification=other).id for one in TurnRule for other in TurnRule}
    assert len(ids) == 9


@pytest.mark.parametrize("turn", [TurnKind.REFUSAL, TurnKind.CLARIFICATION])
@pytest.mark.parametrize("confidence", [NOTHING, sure(0.01)], ids=["none", "low"])
def test_delivered_whatever_the_confidence_and_still_drawn_for_grading(turn, confidence):
    chosen = policy(**{turn.value: "deliver"}).choose(asked(turn, confidence))
    assert (chosen.route, chosen.fallback) == (Route.ANSWER, False)
    assert "asserts nothing" in chosen.reason
    assert f"turns.{turn.value}" in chosen.reason
    assert (chosen.label_propensity, chosen.sampled_for_label) == (0.25, True)
    assert not policy(**{turn.value: "deliver"}).choose(asked(turn, confidence, draw=0.5)).sampled_for_label


def test_withheld_whatever_the_confidence():
    chosen = policy(refusal="abstain").choose(asked(TurnKind.REFUSAL, sure(0.99)))
    assert (chosen.route, chosen.label_propensity) == (Route.ABSTAIN, 0.0)
    assert "the model itself declined" in chosen.reason
    assert "asked back" in policy(clarification="abstain").choose(asked(TurnKind.CLARIFICATION, sure(0.99))).reason


def test_in_shadow_mode_a_withheld_turn_goes_out_and_is_drawn_as_ever():
    chosen = policy(refusal="abstain").choose(asked(TurnKind.REFUSAL, sure(0.9), mode=Mode.SHADOW))
    assert (chosen.route, chosen.label_propensity, chosen.sampled_for_label) == (Route.ABSTAIN, 0.25, True)


def test_the_costs_stand_beside_a_rule():
    chosen = policy(refusal="deliver").choose(asked(TurnKind.REFUSAL, sure(0.25)))
    costs = {each.route: each.total for each in chosen.expected_costs}
    assert costs[Route.ANSWER] == pytest.approx(0.75)
    assert costs[Route.ABSTAIN] == pytest.approx(0.3)


def test_each_kind_has_its_own_rule_and_answers_have_none():
    rules = policy(refusal="deliver", clarification="deliver")
    assert rules.choose(asked(TurnKind.ANSWER)).route is Route.ABSTAIN
    assert rules.choose(asked(TurnKind.TOOL_CALL)).route is Route.ABSTAIN
    assert policy(refusal="deliver").choose(asked(TurnKind.CLARIFICATION)).route is Route.ABSTAIN


def test_a_tool_is_never_let_through_by_what_proposed_it():
    call = Call(kind=CallKind.TOOL, tool_name="pay", side_effects=SideEffects.IRREVERSIBLE)
    for turn in TurnKind:
        assert policy(refusal="deliver", clarification="deliver").choose(asked(turn, call=call)).route is Route.DEFER


def test_after_the_deadline_nothing_is_delivered():
    late = {"answer": "the deadline has passed", "defer": "the deadline has passed"}
    assert policy(refusal="deliver").choose(asked(TurnKind.REFUSAL, available=late)).route is Route.ABSTAIN


@pytest.mark.parametrize("value", ["delivr", "", None, 1, True])
def test_what_is_no_rule_is_refused(value):
    with pytest.raises(ConfigurationError, match=r"turns\.refusal"):
        TurnRules(refusal=value)


@given(
    turn=st.sampled_from([None, *TurnKind]),
    refusal=st.sampled_from(list(TurnRule)),
    clarification=st.sampled_from(list(TurnRule)),
    value=st.floats(0.0, 1.0),
    draw=st.floats(0.0, 1.0, exclude_max=True),
)
def test_the_same_input_gives_the_same_choice_and_only_the_rule_s_own_kind_is_touched(
    turn, refusal, clarification, value, draw
):
    rules = policy(refusal=refusal, clarification=clarification)
    given_ = asked(turn, sure(value), draw=draw)
    chosen = rules.choose(given_)
    assert chosen == rules.choose(given_)
    assert chosen.policy_id == rules.id
    rule = {TurnKind.REFUSAL: refusal, TurnKind.CLARIFICATION: clarification}.get(turn, TurnRule.JUDGE)
    if rule is TurnRule.JUDGE:
        assert chosen.model_copy(update={"policy_id": ""}) == policy().choose(given_).model_copy(
            update={"policy_id": ""}
        )
    else:
        assert chosen.route is (Route.ANSWER if rule is TurnRule.DELIVER else Route.ABSTAIN)
