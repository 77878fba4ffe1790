import json
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from demur.core.call import Call, CallKind, Message, SideEffects
from demur.core.confidence import Confidence, Contribution, Interval, Probability
from demur.core.decision import Decision, ExpectedCost, Mode, Route, Stage
from demur.core.outcome import Outcome, OutcomeSource
from demur.core.record import Record, canonical_json, content_hash, new_id
from demur.core.response import Cost, Response, TokenTrace, ToolCall, TopToken
from demur.core.review_item import Resolution, ReviewItem, ReviewKind, SafeEnd, Verdict
from demur.core.run import Effect, EffectState, Result, Round, Run, RunState
from demur.core.signal import Direction, RawScore, Signal, Unavailable

FINITE = st.floats(allow_nan=False, allow_infinity=False)
SHARE = st.floats(0.0, 1.0)
TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
NAME = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
# Whole numbers beyond 2**53 and floats are kept apart by JSON's own reader in Python.
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | FINITE | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=3)
TIME = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))

MESSAGES = st.builds(Message, role=st.sampled_from(["system", "user", "assistant", "tool"]), content=TEXT)
CALLS = st.builds(
    Call,
    messages=st.lists(MESSAGES, max_size=3).map(tuple),
    task=NAME,
    tenant=NAME,
    side_effects=st.sampled_from(SideEffects),
    deadline=st.none() | TIME,
    metadata=OBJECT,
) | st.builds(Call, kind=st.just(CallKind.TOOL), tool_name=NAME, arguments=OBJECT)


@st.composite
def traces(draw: st.DrawFn) -> TokenTrace:
    length = draw(st.integers(0, 4))
    start = draw(st.integers(0, length))
    some = st.none() | FINITE

    def column(values: st.SearchStrategy[Any]) -> Any:
        return draw(st.just(()) | st.lists(values, min_size=length, max_size=length).map(tuple))

    return TokenTrace(
        ids=column(st.integers(0, 10**6)),
        tokens=column(TEXT),
        logprobs=draw(st.lists(some, min_size=length, max_size=length).map(tuple)),
        top=column(st.lists(st.builds(TopToken, token=TEXT, logprob=some), max_size=2).map(tuple)),
        entropy=column(some),
        answer_start=start,
        answer_end=draw(st.none() | st.integers(start, length)),
    )


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    low, high = sorted([draw(SHARE), draw(SHARE)])
    return Interval(low=low, high=high, level=draw(st.floats(0.01, 0.99)))


COSTS = st.builds(Cost, money=FINITE, tokens_in=st.integers(0, 10**9), seconds=FINITE)
RESPONSES = st.builds(
    Response,
    text=TEXT,
    tool_calls=st.lists(st.builds(ToolCall, name=NAME, arguments=OBJECT), max_size=2).map(tuple),
    trace=st.none() | traces(),
    cost=COSTS,
)
SIGNALS = st.builds(
    Signal,
    name=NAME,
    score=st.builds(RawScore, value=FINITE, direction=st.sampled_from(Direction)) | st.builds(Unavailable, reason=TEXT),
)
CONFIDENCES = st.builds(
    Confidence,
    probability=st.builds(Probability, value=SHARE),
    interval=intervals(),
    contributions=st.lists(st.builds(Contribution, signal=NAME, log_odds=FINITE), max_size=2).map(tuple),
    calibrator=NAME,
    labels=st.integers(0, 10**6),
    fitted_at=st.none() | TIME,
    missing=st.lists(NAME, max_size=2).map(tuple),
)
EXPECTED = st.builds(
    ExpectedCost,
    route=st.sampled_from(Route),
    total=st.none() | FINITE,
    parts=st.dictionaries(TEXT, FINITE, max_size=2),
)
DECISIONS = st.builds(
    Decision,
    call_id=NAME,
    run_id=NAME,
    round=st.integers(0, 9),
    stage=st.sampled_from(Stage),
    mode=st.sampled_from(Mode),
    route=st.sampled_from(Route),
    reason=TEXT,
    confidence=st.none() | CONFIDENCES,
    threshold=st.none() | SHARE,
    expected_costs=st.lists(EXPECTED, max_size=2).map(tuple),
    policy_id=NAME,
    draw=st.floats(0.0, 1.0, exclude_max=True),
)
OUTCOMES = st.builds(
    Outcome, response_id=NAME, correct=st.booleans(), source=st.sampled_from(OutcomeSource), label_propensity=SHARE
)
EFFECTS = st.builds(
    Effect,
    idempotency_key=NAME,
    run_id=NAME,
    tool_name=NAME,
    arguments=OBJECT,
    state=st.sampled_from(EffectState),
    result=JSON,
)
ROUNDS = st.builds(
    Round,
    number=st.integers(0, 9),
    arm=NAME,
    response=st.none() | RESPONSES,
    signals=st.lists(SIGNALS, max_size=2).map(tuple),
    confidence=st.none() | CONFIDENCES,
    decision=DECISIONS,
)
RESULTS = st.builds(
    Result[Any],
    value=JSON,
    route=st.sampled_from(Route),
    recommended=st.sampled_from(Route),
    mode=st.sampled_from(Mode),
    confidence=st.none() | CONFIDENCES,
    run_id=NAME,
    state=st.sampled_from(RunState),
    cost=COSTS,
)
RUNS = st.builds(Run, call=CALLS, rounds=st.lists(ROUNDS, max_size=1).map(tuple), result=st.none() | RESULTS)
REVIEWS = st.builds(
    ReviewItem,
    run_id=NAME,
    kind=st.sampled_from(ReviewKind),
    call=CALLS,
    proposed=st.none() | TEXT,
    reason=TEXT,
    priority=FINITE,
    on_expiry=st.sampled_from(SafeEnd),
    due_at=st.none() | TIME,
    resolution=st.none()
    | st.builds(Resolution, verdict=st.just(Verdict.EDIT), arguments=OBJECT, reviewer=NAME)
    | st.builds(Resolution, verdict=st.just(Verdict.RESPOND), answer=TEXT, reviewer=NAME),
)
STORED = {
    "call": CALLS,
    "response": RESPONSES,
    "signal": SIGNALS,
    "confidence": CONFIDENCES,
    "decision": DECISIONS,
    "outcome": OUTCOMES,
    "effect": EFFECTS,
    "round": ROUNDS,
    "result": RESULTS,
    "run": RUNS,
    "review": REVIEWS,
}


@pytest.mark.parametrize("name", STORED)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_what_is_stored_survives_json_unchanged(name, data):
    record = data.draw(STORED[name])
    text = record.model_dump_json()
    assert type(record).model_validate_json(text) == record
    json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is no JSON"))


def test_edited_arguments_keep_their_types():
    arguments = {"n": 3, "x": [1, {"a": None}], "f": 1.0, "yes": True, "s": "3"}
    call = Call(kind=CallKind.TOOL, tool_name="t", arguments=arguments)
    back = Call.model_validate_json(call.model_dump_json()).arguments
    assert back == arguments
    assert [type(value) for value in back.values()] == [int, list, float, bool, str]


def test_records_are_frozen_and_refuse_unknown_fields():
    probability = Probability(value=0.5)
    with pytest.raises(ValidationError):
        probability.value = 0.9  # type: ignore[misc]
    with pytest.raises(ValidationError):
        Probability(value=0.5, valeu=0.5)  # type: ignore[call-arg]


# --- scores and probabilities are different things -----------------------------------------------------------------


def test_a_raw_score_is_not_taken_for_a_probability():
    interval = Interval(low=0.0, high=1.0)
    with pytest.raises(ValidationError):
        Confidence(probability=RawScore(value=0.9), interval=interval, calibrator="x", labels=5)  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        Confidence(probability=0.9, interval=interval, calibrator="x", labels=5)  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        Signal(name="s", score=Probability(value=0.9))  # type: ignore[arg-type]
    assert not isinstance(RawScore(value=0.9), Probability)
    assert RawScore(value=0.9) != Probability(value=0.9)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, "high", -0.001, 1.001])
def test_a_probability_is_a_number_from_0_to_1(value):
    with pytest.raises(ValidationError):
        Probability(value=value)
    with pytest.raises(ValidationError):
        Interval(low=value, high=1.0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None])
def test_a_score_that_is_no_number_is_refused_and_a_signal_says_why(value):
    with pytest.raises(ValidationError):
        RawScore(value=value)
    signal = Signal.of("s", value)
    assert isinstance(signal.score, Unavailable)
    assert (signal.available, signal.value) == (False, None)
    assert signal.score.reason


@given(value=FINITE)
def test_a_score_keeps_its_value_and_turns_its_sign_by_direction(value):
    up = Signal.of("s", value)
    down = Signal.of("s", value, Direction.LOWER_IS_SURER)
    assert isinstance(up.score, RawScore)
    assert isinstance(down.score, RawScore)
    assert up.value == down.value == value
    assert up.score.oriented == value == -down.score.oriented


def test_a_reason_is_kept_where_a_signal_is_missing():
    assert Signal.of("s", None, missing="black box").score == Unavailable(reason="black box")
    assert Signal.missing("s", "crashed") == Signal(name="s", score=Unavailable(reason="crashed"))


def test_the_prior_is_known_by_its_labels():
    whole = Interval(low=0.0, high=1.0)
    prior = Confidence(probability=Probability(value=0.5), interval=whole, calibrator="prior", labels=0)
    assert prior.is_prior
    assert not prior.model_copy(update={"labels": 1}).is_prior
    with pytest.raises(ValidationError):
        Confidence(probability=Probability(value=0.5), interval=whole, calibrator="prior", labels=-1)


def test_an_interval_upside_down_is_refused():
    with pytest.raises(ValidationError, match="upside down"):
        Interval(low=0.6, high=0.4)


# --- traces ------------------------------------------------------------------------------------------------------


def test_missing_log_probabilities_stay_missing_and_become_null():
    trace = TokenTrace(logprobs=(None, math.nan, -math.inf, -0.5))
    back = TokenTrace.model_validate_json(trace.model_dump_json())
    assert back.logprobs == (None, None, None, -0.5)


def test_columns_of_a_trace_must_agree():
    with pytest.raises(ValidationError, match=r"TokenTrace\.tokens has 1 entries, logprobs has 2"):
        TokenTrace(tokens=("a",), logprobs=(-0.1, -0.2))


@pytest.mark.parametrize(("start", "end"), [(-1, 1), (2, 1), (0, 3), (3, None)])
def test_an_answer_span_outside_the_tokens_is_refused(start, end):
    with pytest.raises(ValidationError, match="outside"):
        TokenTrace(logprobs=(-0.1, -0.2), answer_start=start, answer_end=end)


def test_the_answer_span_cuts_the_scaffolding_off():
    assert TokenTrace(logprobs=(-1.0, -2.0, -3.0), answer_start=1, answer_end=2).answer_logprobs == (-2.0,)
    assert TokenTrace(logprobs=(-1.0, -2.0, -3.0), answer_start=1).answer_logprobs == (-2.0, -3.0)


@given(one=COSTS, other=COSTS)
def test_costs_add_up(one, other):
    if math.isfinite(one.money + other.money) and math.isfinite(one.seconds + other.seconds):
        assert (one + other).money == one.money + other.money
        assert (one + other).tokens_in == one.tokens_in + other.tokens_in
        assert one + other == other + one


# --- calls, outcomes, resolutions --------------------------------------------------------------------------------


def test_a_deadline_needs_a_time_zone():
    with pytest.raises(ValidationError, match="no time zone"):
        Call.ask("q", deadline=datetime(2026, 1, 1))
    elsewhere = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=5)))
    assert Call.ask("q", deadline=elsewhere).deadline == elsewhere


def test_a_call_is_either_a_question_or_the_use_of_a_tool():
    with pytest.raises(ValidationError, match="tool_name"):
        Call(kind=CallKind.TOOL)
    with pytest.raises(ValidationError, match="tool_name"):
        Call(tool_name="refund")
    assert Call.ask("Who?", system="Be short.").question == "Who?"
    assert Call(kind=CallKind.TOOL, tool_name="pay", arguments={"n": 1}).question == "pay({'n': 1})"


@pytest.mark.parametrize("length", [0, 100_000])
def test_a_question_may_be_empty_or_very_long(length):
    assert len(Call.ask("x" * length).question) == length


def test_an_outcome_says_something():
    with pytest.raises(ValidationError, match="needs correct"):
        Outcome(response_id="r", source=OutcomeSource.HUMAN)
    with pytest.raises(ValidationError, match="cut"):
        Outcome(response_id="r", score=0.7, source=OutcomeSource.TEST)
    assert Outcome(response_id="r", score=0.7, cut=0.7, source=OutcomeSource.TEST).is_right
    assert not Outcome(response_id="r", score=0.69, cut=0.7, source=OutcomeSource.TEST).is_right
    assert not Outcome(response_id="r", score=0.9, cut=0.7, correct=False, source=OutcomeSource.HUMAN).is_right


@pytest.mark.parametrize(
    "fields",
    [
        {"verdict": Verdict.RESPOND},
        {"verdict": Verdict.EDIT},
        {"verdict": Verdict.APPROVE, "answer": "changed on the quiet"},
        {"verdict": Verdict.APPROVE, "arguments": {"amount": 9}},
        {"verdict": Verdict.REJECT, "answer": "x"},
        {"verdict": Verdict.APPROVE, "reviewer": ""},
    ],
    ids=str,
)
def test_a_resolution_that_contradicts_itself_is_refused(fields):
    with pytest.raises(ValidationError):
        Resolution(**{"reviewer": "ann", **fields})


def test_silence_never_approves():
    assert set(SafeEnd) == {SafeEnd.REJECT, SafeEnd.ABSTAIN}


@pytest.mark.parametrize("draw", [-0.1, 1.0, math.nan])
def test_a_recorded_draw_is_in_the_half_open_unit_interval(draw):
    fields = {"call_id": "c", "run_id": "r", "round": 0, "stage": "after", "mode": "enforce", "route": "answer"}
    with pytest.raises(ValidationError):
        Decision(**fields, reason="", confidence=None, policy_id="p", draw=draw)


@pytest.mark.parametrize("route", list(Route))
@pytest.mark.parametrize("state", list(RunState))
def test_a_result_is_delivered_only_by_a_route_that_delivers_and_is_done(route, state):
    result = Result[str](
        value="v", route=route, recommended=route, mode=Mode.ENFORCE, confidence=None, run_id="r", state=state
    )
    delivers = {Route.ANSWER, Route.RETRIEVE, Route.ESCALATE}
    assert result.delivered == (state is RunState.DONE and route in delivers)


# --- identity ----------------------------------------------------------------------------------------------------


@given(value=OBJECT)
def test_equal_values_have_equal_hashes_whatever_their_order(value):
    turned = dict(reversed(list(value.items())))
    assert content_hash(value) == content_hash(turned)
    assert json.loads(canonical_json(value)) == value


@pytest.mark.parametrize("value", [math.nan, math.inf, [math.nan], {"x": -math.inf}])
def test_what_json_cannot_say_has_no_hash(value):
    with pytest.raises(ValueError):
        content_hash(value)


def test_golden_hash():
    # echo -n '{"a":[1,null],"b":"é"}' | sha256sum
    assert canonical_json({"b": "é", "a": [1, None]}) == '{"a":[1,null],"b":"é"}'
    assert content_hash({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_ids_are_fresh_and_say_what_they_are_of():
    ids = {new_id("run") for _ in range(1000)}
    assert len(ids) == 1000
    assert all(one.startswith("run_") for one in ids)


def test_every_stored_type_is_a_record():
    assert all(issubclass(kind, Record) for kind in (Call, Response, Signal, Confidence, Decision, Outcome, Run))
