import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.core.call import Call, CallKind, SideEffects
from demur.core.confidence import Confidence, Interval, Probability
from demur.core.decision import Mode, Route, Stage
from demur.core.errors import BadInput, ConfigurationError
from demur.core.signal import Unavailable
from demur.policies.costs import Costs
from demur.policies.policy import Choice, CostPolicy, PolicyInput
from demur.policies.tool_policy import ToolPolicy

COSTS = Costs(wrong=1.0, abstain=0.3, review=0.1, review_wait=0.02, generate=0.01, retrieve=0.05, escalate={"big": 0.1})
QUEUE = {"defer": None}
WITHHELD = {Route.DEFER, Route.ABSTAIN}


def given_(call: Call | None = None, confidence: Any = None, **fields: Any) -> PolicyInput:
    fields = {"stage": Stage.AFTER, "draw": 0.5, "available": QUEUE, "rounds": 1, **fields}
    return PolicyInput(call=call or Call.ask("q"), confidence=confidence, **fields)


def use(effects: SideEffects = SideEffects.NONE, name: str = "refund") -> Call:
    return Call(kind=CallKind.TOOL, tool_name=name, side_effects=effects)


def test_the_cheapest_route_is_taken_and_says_why_in_money(confident):
    choice = CostPolicy(COSTS).choose(given_(confidence=confident(0.9)))
    assert choice.route is Route.ANSWER
    assert choice.reason == (
        "At P(right) = 0.900 answering is expected to cost 0.1, and the next best, deferring to a human, 0.17."
    )
    assert choice.threshold == pytest.approx(0.83)
    assert not choice.fallback
    assert choice.propensity == 1.0


def test_every_route_can_be_the_cheapest(confident, fixed):
    policy = CostPolicy(COSTS)
    later = {"retrieve": None, "escalate:big": None, "defer": None}
    chances = {"retrieve": fixed(0.9), "escalate:big": fixed(0.2)}
    assert policy.choose(given_(confidence=confident(0.9), available=later)).route is Route.ANSWER
    assert policy.choose(given_(confidence=confident(0.5), available=later, chances=chances)).route is Route.RETRIEVE
    chances = {"retrieve": fixed(0.2), "escalate:big": fixed(0.99)}
    escalated = policy.choose(given_(confidence=confident(0.5), available=later, chances=chances))
    assert (escalated.route, escalated.target) == (Route.ESCALATE, "big")
    assert "escalating to big" in escalated.reason
    assert policy.choose(given_(confidence=confident(0.5), available=later)).route is Route.DEFER
    assert policy.choose(given_(confidence=confident(0.5), available={})).route is Route.ABSTAIN


def test_a_hopeless_draft_is_not_written(confident):
    policy = CostPolicy(COSTS)
    assert policy.choose(given_(confidence=confident(0.02), stage=Stage.BEFORE)).route is Route.DEFER
    assert policy.choose(given_(confidence=confident(0.30), stage=Stage.BEFORE)).route is Route.GENERATE


def test_rounds_are_capped(confident, fixed):
    policy = CostPolicy(COSTS, max_rounds=2)
    fields = {"available": {"retrieve": None}, "chances": {"retrieve": fixed(0.99)}}
    assert policy.choose(given_(confidence=confident(0.5), rounds=1, **fields)).route is Route.RETRIEVE
    capped = policy.choose(given_(confidence=confident(0.5), rounds=2, **fields))
    assert capped.route is Route.ABSTAIN
    assert next(c for c in capped.expected_costs if c.route is Route.RETRIEVE).unavailable == "2 of 2 rounds are used"


# --- fail closed -------------------------------------------------------------------------------------------------


def broken_confidences() -> list[Any]:
    nan = Probability.model_construct(value=math.nan)
    high = Probability.model_construct(value=1.5)
    whole = Interval(low=0.0, high=1.0)
    broken = Interval.model_construct(low=math.nan, high=1.0, level=0.9)
    fine = Probability(value=0.99)
    make = Confidence.model_construct
    return [
        None,
        Unavailable(reason="the probe crashed"),
        Confidence(probability=fine, interval=whole, calibrator="prior", labels=0),
        Confidence(probability=fine, interval=whole, calibrator="tiny", labels=19),
        make(probability=nan, interval=whole, calibrator="x", labels=500, missing=()),
        make(probability=high, interval=whole, calibrator="x", labels=500, missing=()),
        make(probability=fine, interval=broken, calibrator="x", labels=500, missing=()),
    ]


@pytest.mark.parametrize("confidence", broken_confidences(), ids=str)
@pytest.mark.parametrize(
    ("call", "route"),
    [
        (Call.ask("q"), Route.ABSTAIN),
        (use(), Route.ABSTAIN),
        (use(SideEffects.REVERSIBLE), Route.DEFER),
        (use(SideEffects.IRREVERSIBLE), Route.DEFER),
    ],
    ids=["answer", "harmless tool", "reversible", "irreversible"],
)
def test_too_little_to_go_on_falls_back_by_side_effects(confidence, call, route):
    choice = CostPolicy(COSTS).choose(given_(call, confidence))
    assert (choice.route, choice.fallback) == (route, True)
    assert choice.reason.startswith("Not delivered: ")


@pytest.mark.parametrize("available", [{}, {"defer": "the queue is full"}])
def test_without_a_queue_the_fallback_abstains(available):
    choice = CostPolicy(COSTS).choose(given_(use(SideEffects.IRREVERSIBLE), None, available=available))
    assert (choice.route, choice.fallback) == (Route.ABSTAIN, True)
    assert ("the queue is full" if available else "no review queue is set") in choice.reason


def test_the_fallback_needs_a_queue_but_no_price():
    policy = CostPolicy(Costs(wrong=1.0, abstain=0.3))
    assert policy.choose(given_(use(SideEffects.REVERSIBLE), None)).route is Route.DEFER


def test_nothing_known_before_the_draft_means_drafting_not_delivering():
    choice = CostPolicy(COSTS).choose(given_(confidence=None, stage=Stage.BEFORE))
    assert (choice.route, choice.fallback) == (Route.GENERATE, True)
    blocked = given_(confidence=None, stage=Stage.BEFORE, available={"generate": "no model is set"})
    assert CostPolicy(COSTS).choose(blocked).route is Route.ABSTAIN


@pytest.mark.parametrize("route", [Route.ANSWER, Route.RETRIEVE, Route.GENERATE, "approve", None])
@pytest.mark.parametrize("name", ["fallback_effects", "fallback_answers"])
def test_a_fallback_that_delivers_is_refused(name, route):
    with pytest.raises(ConfigurationError, match=name):
        CostPolicy(COSTS, **{name: route})


@pytest.mark.parametrize(
    "setting",
    [
        {"label_rate": -0.1},
        {"label_rate": math.nan},
        {"label_rate": 1.1},
        {"max_rounds": 0},
        {"max_rounds": 2.5},
        {"min_labels": 0},
        {"min_labels": True},
        {"draft_insight": 2.0},
        {"later_insight": math.nan},
        {"use_lower_for_irreversible": "yes"},
        {"tools": {"refund": "always review"}},
        {"tools": {"": ToolPolicy()}},
        {"tools": {"refund": ToolPolicy(loss=0.1)}},
    ],
    ids=str,
)
def test_a_setting_that_cannot_work_is_refused(setting):
    with pytest.raises(ConfigurationError):
        CostPolicy(COSTS, **setting)


def test_a_typo_raises_instead_of_approving():
    with pytest.raises(TypeError):
        CostPolicy(COSTS, lable_rate=0.5)  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match="Costs"):
        CostPolicy({"wrong": 1.0})  # type: ignore[arg-type]


@pytest.mark.parametrize("field", [{"draw": math.nan}, {"draw": 1.0}, {"draw": -0.1}, {"rounds": -1}], ids=str)
def test_input_out_of_range_is_refused(field):
    with pytest.raises(BadInput):
        given_(**field)


# --- tools -------------------------------------------------------------------------------------------------------


def test_an_irreversible_tool_is_judged_by_the_low_end(confident):
    confidence = confident(0.95, low=0.7, high=0.99)
    policy = CostPolicy(COSTS)
    assert policy.choose(given_(use(SideEffects.REVERSIBLE), confidence)).route is Route.ANSWER
    cautious = policy.choose(given_(use(SideEffects.IRREVERSIBLE), confidence))
    assert cautious.route is Route.DEFER
    assert "low end" in cautious.reason
    by_mean = CostPolicy(COSTS, use_lower_for_irreversible=False)
    assert by_mean.choose(given_(use(SideEffects.IRREVERSIBLE), confidence)).route is Route.ANSWER
    sure = policy.choose(given_(use(SideEffects.IRREVERSIBLE), confident(0.99, low=0.9)))
    assert sure.route is Route.ANSWER
    assert "running tool refund" in sure.reason


def test_a_tools_loss_raises_the_bar(confident):
    policy = CostPolicy(COSTS, tools={"refund": ToolPolicy(loss=10.0)})
    assert policy.choose(given_(use(), confident(0.9))).route is not Route.ANSWER
    assert policy.choose(given_(use(name="lookup"), confident(0.9))).route is Route.ANSWER


def test_an_edited_call_is_judged_as_the_tool_it_became(confident):
    policy = CostPolicy(COSTS, tools={"delete_all": ToolPolicy(SideEffects.IRREVERSIBLE, always_review=True)})
    before = use(name="list_files")
    after = before.model_copy(update={"tool_name": "delete_all"})
    assert policy.choose(given_(before, confident(0.99))).route is Route.ANSWER
    assert policy.choose(given_(after, confident(0.99))).route is Route.DEFER


@pytest.mark.parametrize("rule", [True, lambda call: True, lambda call: None, lambda call: 0, lambda call: 1 / 0])
def test_a_review_rule_holds_whatever_the_confidence(rule, confident):
    policy = CostPolicy(COSTS, tools={"refund": ToolPolicy(always_review=rule)})
    asked = policy.choose(given_(use(), confident(1.0)))
    assert asked.route is Route.DEFER
    assert "before a human has looked" in asked.reason
    assert policy.choose(given_(use(), confident(1.0), available={})).route is Route.ABSTAIN


def test_on_a_tie_an_answer_goes_out_and_an_effect_does_not(confident):
    policy = CostPolicy(Costs(wrong=1.0, abstain=0.25))
    assert policy.choose(given_(confidence=confident(0.75), available={})).route is Route.ANSWER
    assert policy.choose(given_(use(SideEffects.REVERSIBLE), confident(0.75), available={})).route is Route.ABSTAIN


# --- labels ------------------------------------------------------------------------------------------------------


def test_delivered_answers_are_drawn_for_grading_at_the_known_rate(confident):
    policy = CostPolicy(COSTS, label_rate=0.25)
    drawn = [policy.choose(given_(confidence=confident(0.9), draw=k / 1000)) for k in range(1000)]
    assert sum(choice.sampled_for_label for choice in drawn) == 250
    assert {choice.label_propensity for choice in drawn} == {0.25}
    assert {choice.route for choice in drawn} == {Route.ANSWER}


def test_what_is_not_delivered_is_not_drawn(confident):
    policy = CostPolicy(COSTS, label_rate=1.0)
    withheld = policy.choose(given_(confidence=confident(0.2), available={}, draw=0.0))
    assert (withheld.route, withheld.label_propensity, withheld.sampled_for_label) == (Route.ABSTAIN, 0.0, False)
    deferred = policy.choose(given_(confidence=confident(0.2), draw=0.0))
    # A human sees it anyway.
    assert (deferred.route, deferred.label_propensity, deferred.sampled_for_label) == (Route.DEFER, 1.0, False)
    before = policy.choose(given_(confidence=confident(0.9), stage=Stage.BEFORE, draw=0.0))
    assert (before.label_propensity, before.sampled_for_label) == (0.0, False)


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.ADVISE])
def test_in_shadow_and_advise_mode_everything_is_delivered_and_so_drawn(mode):
    choice = CostPolicy(COSTS, label_rate=0.1).choose(given_(confidence=None, mode=mode, draw=0.05))
    assert choice.fallback
    assert (choice.label_propensity, choice.sampled_for_label) == (0.1, True)


@pytest.mark.parametrize("mode", list(Mode))
def test_an_irreversible_use_is_never_drawn(mode, confident):
    policy = CostPolicy(COSTS, label_rate=1.0)
    choice = policy.choose(given_(use(SideEffects.IRREVERSIBLE), confident(1.0), mode=mode, draw=0.0))
    assert choice.route is Route.ANSWER
    assert (choice.label_propensity, choice.sampled_for_label, choice.propensity) == (0.0, False, 1.0)


# --- identity ----------------------------------------------------------------------------------------------------


def test_the_id_is_the_content_of_the_settings():
    same = Costs(
        wrong=1, abstain=0.3, review=0.1, review_wait=0.02, generate=0.01, retrieve=0.05, escalate={"big": 0.1}
    )
    assert CostPolicy(COSTS).id == CostPolicy(same).id
    variants = [
        CostPolicy(COSTS),
        CostPolicy(Costs(wrong=2.0, abstain=0.3)),
        CostPolicy(COSTS, label_rate=0.03),
        CostPolicy(COSTS, max_rounds=2),
        CostPolicy(COSTS, min_labels=21),
        CostPolicy(COSTS, fallback_answers=Route.DEFER),
        CostPolicy(COSTS, fallback_effects=Route.ABSTAIN),
        CostPolicy(COSTS, tools={"refund": ToolPolicy()}),
        CostPolicy(COSTS, tools={"refund": ToolPolicy(loss=2.0)}),
        CostPolicy(COSTS, tools={"refund": ToolPolicy(always_review=math.isnan)}),  # type: ignore[arg-type]
        CostPolicy(COSTS, use_lower_for_irreversible=False),
        CostPolicy(COSTS, draft_insight=0.5),
        CostPolicy(COSTS, later_insight=0.5),
    ]
    assert len({policy.id for policy in variants}) == len(variants)
    assert all(len(policy.id) == 64 for policy in variants)


# --- properties --------------------------------------------------------------------------------------------------

ENDINGS = st.fixed_dictionaries(
    {},
    optional={
        "retrieve": st.sampled_from([None, "no retriever is set"]),
        "escalate:big": st.none(),
        "defer": st.sampled_from([None, "the queue is full"]),
    },
)


@st.composite
def situations(draw: st.DrawFn, rising: Any) -> dict[str, Any]:
    wrong = draw(st.floats(0.5, 50.0))
    costs = {
        "wrong": wrong,
        "abstain": wrong * draw(st.floats(0.01, 0.95)),
        "right": draw(st.floats(0.0, 10.0)),
        "review": draw(st.floats(0.0, 5.0)),
        "generate": draw(st.floats(0.0, 1.0)),
        "retrieve": draw(st.floats(0.0, 2.0)),
        "escalate": {"big": draw(st.floats(0.0, 2.0))},
    }
    chance = st.builds(rising, floor=st.floats(0.0, 1.0), slope=st.floats(0.0, 2.0))
    return {
        "costs": costs,
        "available": draw(ENDINGS),
        "chances": {"retrieve": draw(chance), "escalate:big": draw(chance)},
        "call": draw(
            st.sampled_from([Call.ask("q"), use(), use(SideEffects.REVERSIBLE), use(SideEffects.IRREVERSIBLE)])
        ),
        "stage": draw(st.sampled_from(list(Stage))),
        "draw": draw(st.floats(0.0, 1.0, exclude_max=True)),
        "later_insight": draw(st.sampled_from([0.0, 0.5, 1.0])),
    }


def choose(situation: dict[str, Any], confidence: Any, *, scale: float = 1.0) -> Choice:
    prices = {name: scale * price for name, price in situation["costs"].items() if name != "escalate"}
    costs = Costs(**prices, escalate={"big": scale * situation["costs"]["escalate"]["big"]})
    names = ("call", "available", "chances", "stage", "draw")
    policy = CostPolicy(costs, later_insight=situation["later_insight"])
    return policy.choose(given_(confidence=confidence, **{name: situation[name] for name in names}))


@settings(max_examples=150, deadline=None)
@given(data=st.data(), p=st.floats(0.0, 1.0))
def test_the_chosen_route_is_the_cheapest_of_those_listed(data, p, rising, confident):
    choice = choose(data.draw(situations(rising)), confident(p, low=p / 2))
    totals = [cost.total for cost in choice.expected_costs if cost.total is not None]
    taken = next(c for c in choice.expected_costs if (c.route, c.target) == (choice.route, choice.target))
    assert taken.unavailable is None
    assert taken.total is not None
    assert taken.total <= min(totals) + 1e-9
    assert all((cost.total is None) == (cost.unavailable is not None) for cost in choice.expected_costs)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), p=st.floats(0.0, 1.0), more=st.floats(0.0, 1.0))
def test_a_higher_probability_never_turns_an_answer_into_a_withheld_one(data, p, more, rising, confident):
    situation = {**data.draw(situations(rising)), "stage": Stage.AFTER}
    if choose(situation, confident(p)).route is Route.ANSWER:
        raised = p + (1.0 - p) * more
        assert choose(situation, confident(raised)).route not in WITHHELD


@settings(max_examples=150, deadline=None)
@given(data=st.data(), p=st.floats(0.0, 1.0), power=st.integers(-8, 8), factor=st.floats(0.01, 100.0))
def test_scaling_every_price_changes_no_route(data, p, power, factor, rising, confident):
    situation = data.draw(situations(rising))
    plain = choose(situation, confident(p))
    doubled = choose(situation, confident(p), scale=2.0**power)  # exact in binary, ties included
    assert (doubled.route, doubled.target) == (plain.route, plain.target)
    totals = sorted(cost.total for cost in plain.expected_costs if cost.total is not None)
    if len(totals) < 2 or totals[1] - totals[0] > 1e-6:  # not decided by rounding
        scaled = choose(situation, confident(p), scale=factor)
        assert (scaled.route, scaled.target) == (plain.route, plain.target)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), p=st.floats(0.0, 1.0))
def test_the_same_input_gives_the_same_choice(data, p, rising, confident):
    situation = data.draw(situations(rising))
    one, other = choose(situation, confident(p)), choose(situation, confident(p))
    assert one == other
    assert Choice.model_validate_json(one.model_dump_json()) == one


@settings(max_examples=100, deadline=None)
@given(data=st.data(), p=st.floats(0.0, 1.0))
def test_above_the_threshold_it_answers_and_with_flat_prices_below_it_does_not(data, p, rising, confident):
    situation = {**data.draw(situations(rising)), "stage": Stage.AFTER, "call": Call.ask("q")}
    choice = choose(situation, confident(p))
    if choice.threshold is not None and p > choice.threshold + 1e-9:
        assert choice.route is Route.ANSWER
    later = {arm for arm, reason in situation["available"].items() if reason is None} - {"defer"}
    if not later and (choice.threshold is None or p < choice.threshold - 1e-9):
        assert choice.route is not Route.ANSWER
