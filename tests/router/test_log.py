"""The run log: exact round trips, one transaction for a decision and its review, keys, pages, resumption."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event, select

from demur.core.call import Call, CallKind
from demur.core.clock import ManualClock
from demur.core.confidence import Confidence, Contribution, Interval, Probability
from demur.core.database import Database
from demur.core.database.tables import decisions, review_items, rounds
from demur.core.decision import Decision, ExpectedCost, Guarantee, Mode, Route, Stage
from demur.core.errors import BadInput, StaleItem, StoreError
from demur.core.response import Cost, Response, TokenTrace, ToolCall, TopToken
from demur.core.review_item import Resolution, ReviewItem, ReviewKind, Verdict
from demur.core.run import NotStored, Result, Round, Run, RunState
from demur.core.signal import Direction, RawScore, Signal
from demur.review.queue import ReviewQueue
from demur.router.log import RunLog

OWNER = "elsewhere/1/1.00"


@pytest.fixture
def clock():
    return ManualClock(datetime(2026, 11, 30, 12, tzinfo=UTC))


@pytest.fixture
def database(tmp_path):
    return Database(tmp_path / "demur.db")


@pytest.fixture
def log(database, clock):
    return RunLog(database, clock)


def a_confidence(value=0.7):
    return Confidence(
        probability=Probability(value=value),
        interval=Interval(low=0.1, high=0.9),
        contributions=(Contribution(signal="mean_logprob", log_odds=-0.1 + 0.2),),
        calibrator="a:platt",
        labels=12,
        fitted_at=datetime(2026, 1, 1, tzinfo=UTC),
        missing=("lens.kl",),
    )


def a_round(run, number=0, route=Route.ANSWER, mode=Mode.ENFORCE, response=None, confidence=None, **changes):
    decision = Decision(
        call_id=run.call.id,
        run_id=run.id,
        round=number,
        stage=Stage.AFTER,
        mode=mode,
        route=route,
        reason="because",
        confidence=confidence,
        threshold=1 / 3,
        expected_costs=(ExpectedCost(route=Route.ANSWER, total=0.1 + 0.2, success=0.7, parts={"wrong answer": 0.3}),),
        guarantee=Guarantee(kind="ltt", alpha=0.1, delta=0.05, labels=300, population="triviaqa"),
        policy_id="policy",
        label_propensity=0.02,
        draw=0.123456789012345,
    )
    fields = {"number": number, "arm": "answer", "response": response, "signals": (), "decision": decision}
    return Round(**(fields | {"confidence": confidence} | changes))


finite = st.floats(allow_nan=False, allow_infinity=False)
words = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)


@given(
    logprobs=st.lists(st.none() | finite, max_size=5),
    scores=st.lists(finite, max_size=4),
    text=words,
    arguments=st.dictionaries(words, json_values, max_size=3),
    value=json_values,
)
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_everything_comes_back_exactly(log, logprobs, scores, text, arguments, value):
    run = log.start(
        Run(call=Call.ask(text, metadata=arguments), created_at=datetime(2026, 1, 1, tzinfo=UTC)), Mode.ENFORCE, OWNER
    )
    trace = TokenTrace(
        tokens=tuple(text for _ in logprobs),
        logprobs=tuple(logprobs),
        top=tuple((TopToken(token=text, logprob=each),) for each in logprobs),
    )
    tool_call = ToolCall(name="t", arguments=arguments)
    response = Response(text=text, trace=trace, cost=Cost(money=0.1 + 0.2, tokens_in=3), tool_calls=(tool_call,))
    signals = (
        *(Signal(name=f"s{n}", score=RawScore(value=s)) for n, s in enumerate(scores)),
        Signal.of("low", 1.0, Direction.LOWER_IS_SURER),
        Signal.missing("gone", text),
    )
    first = a_round(run, 0, Route.RETRIEVE, response=response, confidence=a_confidence(), signals=signals)
    second = a_round(run, 1, confidence=None, not_run={"samples": text})
    log.record_round(run.id, first)
    log.record_round(run.id, second)
    result = Result(
        value=value, route=Route.ANSWER, recommended=Route.ANSWER, mode=Mode.ENFORCE, confidence=None, run_id=run.id
    )
    cost = Cost(money=1 / 3, tokens_in=1, tokens_out=2, seconds=0.1)
    log.finish(run.id, RunState.DONE, result, cost)
    expected = run.model_copy(
        update={"state": RunState.DONE, "rounds": (first, second), "result": result, "cost": cost}
    )
    assert log.get(run.id) == expected


def test_a_round_s_confidence_is_kept_apart_from_its_decision_s(log):
    run = log.start(Run(call=Call.ask("?")), Mode.ENFORCE, OWNER)
    round_ = a_round(run, confidence=a_confidence(0.6)).model_copy(update={"confidence": a_confidence(0.5)})
    log.record_round(run.id, round_)
    assert log.get(run.id).rounds == (round_,)


@pytest.mark.parametrize("value", [(1, 2), {1: "a"}, object(), {"x": float("nan")}, b"bytes"])
def test_a_value_that_is_not_json_is_openly_not_stored(log, value):
    run = log.start(Run(call=Call.ask("?")), Mode.ENFORCE, OWNER)
    result = Result(
        value=value, route=Route.ANSWER, recommended=Route.ANSWER, mode=Mode.ENFORCE, confidence=None, run_id=run.id
    )
    log.finish(run.id, RunState.DONE, result)
    stored = log.get(run.id).result.value
    assert isinstance(stored, NotStored)
    assert stored.type_name == type(value).__name__


def test_a_deferral_writes_round_decision_item_and_state_together(log, database):
    run = log.start(Run(call=Call.ask("?")), Mode.ENFORCE, OWNER)
    round_ = a_round(run, route=Route.DEFER, response=Response(text="draft"), confidence=a_confidence())
    review_id = log.record_round(run.id, round_)
    item = ReviewQueue(database, log.clock).get(review_id)
    assert (item.proposed, item.decision_id, item.response_id) == ("draft", round_.decision.id, round_.response.id)
    stored = log.get(run.id)
    assert (stored.state, stored.result.route, stored.result.review_id) == (RunState.WAITING, Route.DEFER, review_id)
    with pytest.raises(StaleItem, match="is waiting"):
        log.record_round(run.id, a_round(run, 1))


@pytest.mark.parametrize("table", ["rounds", "decisions", "review_items"])
def test_a_deferral_is_stored_whole_or_not_at_all(log, database, table):
    run = log.start(Run(call=Call.ask("?")), Mode.ENFORCE, OWNER)

    @event.listens_for(database.engine, "before_cursor_execute")
    def _(connection, cursor, statement, parameters, context, many):
        if statement.startswith(f"INSERT INTO {table}"):
            cursor.execute("INSERT INTO no_such_table VALUES (1)")

    with pytest.raises(StoreError):
        log.record_round(run.id, a_round(run, route=Route.DEFER, response=Response(text="draft")))
    with database.reading() as connection:
        for each in (rounds, decisions, review_items):
            assert connection.execute(select(each)).all() == []
    assert log.get(run.id) == run


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.ADVISE])
def test_a_deferral_that_is_not_enforced_queues_nothing(log, mode):
    run = log.start(Run(call=Call.ask("?")), mode, OWNER)
    assert log.record_round(run.id, a_round(run, route=Route.DEFER, mode=mode)) is None
    assert log.get(run.id).state is RunState.OPEN


def test_a_label_item_leaves_the_run_open(log):
    run = log.start(Run(call=Call.ask("?")), Mode.ENFORCE, OWNER)
    label = ReviewItem(run_id=run.id, kind=ReviewKind.LABEL, call=run.call, reason="drawn")
    assert log.record_round(run.id, a_round(run), review=label) == label.id
    assert log.get(run.id).state is RunState.OPEN


def test_what_does_not_belong_together_is_refused(log):
    run, other = (log.start(Run(call=Call.ask("?")), Mode.ENFORCE, OWNER) for _ in range(2))
    with pytest.raises(BadInput, match="not of round"):
        log.record_round(other.id, a_round(run))
    with pytest.raises(BadInput, match="another run"):
        log.record_round(run.id, a_round(run), review=ReviewItem(run_id=other.id, call=run.call, reason="-"))
    with pytest.raises(BadInput, match="no run"):
        log.finish("run_none", RunState.DONE)
    assert log.get("run_none") is None


def test_a_run_ends_once(log):
    run = log.start(Run(call=Call.ask("?")), Mode.ENFORCE, OWNER)
    log.finish(run.id, RunState.FAILED, error="\ud800" + "x" * 20_000)
    assert len(log.get(run.id).error) < 10_050
    with pytest.raises(StaleItem, match="failed already"):
        log.finish(run.id, RunState.DONE)
    assert log.fail(run.id, ValueError("late")) is RunState.FAILED
    assert "late" not in log.get(run.id).error


def test_the_end_of_a_waiting_run_comes_from_the_queue(log, database):
    run = log.start(Run(call=Call.ask("?")), Mode.ENFORCE, OWNER)
    review_id = log.record_round(run.id, a_round(run, route=Route.DEFER, response=Response(text="draft")))
    waiting = log.get(run.id).result
    with pytest.raises(StaleItem, match="waiting"):
        log.finish(run.id, RunState.DONE, waiting)
    queue = ReviewQueue(database, log.clock)
    item = queue.claim("ada")
    queue.resolve(review_id, Resolution(verdict=Verdict.APPROVE, reviewer="ada"), version=item.version)
    # The router tells of its waiting run a moment too late: the human's answer stays, the cost is kept.
    log.finish(run.id, RunState.WAITING, waiting, Cost(seconds=2.0))
    assert (log.get(run.id).result.value, log.get(run.id).cost.seconds) == ("draft", 2.0)


def test_one_key_one_run_for_each_tenant(log):
    def start(question="?", tenant="a"):
        return log.start(Run(call=Call.ask(question, idempotency_key="k", tenant=tenant)), Mode.ENFORCE, OWNER)

    first = start()
    assert start().id == first.id
    assert start(tenant="b").id != first.id
    with pytest.raises(BadInput, match="another call"):
        start("something else")
    assert log.by_idempotency_key("k", "a").id == first.id
    assert log.by_idempotency_key("k") is None


@pytest.mark.parametrize("state", [RunState.DONE, RunState.FAILED])
def test_only_a_failure_without_an_effect_lets_go_of_its_key(log, state):
    def start():
        return log.start(Run(call=Call.ask("?", idempotency_key="k")), Mode.ENFORCE, OWNER)

    first = start()
    log.finish(first.id, state)
    second = start()
    assert (second.id == first.id) is (state is RunState.DONE)
    assert log.by_idempotency_key("k").id == second.id
    assert log.get(first.id).call.idempotency_key == "k"


def test_lists_are_newest_first_page_by_page(log, clock):
    made = []
    for number in range(5):
        call = Call.ask("?", tenant="a" if number % 2 else "b", conversation_id=f"c{number}")
        made.append(log.start(Run(call=call, created_at=clock.now()), Mode.ENFORCE, OWNER).id)
        clock.advance(number % 2)
    seen, before = [], None
    while page := log.list(limit=2, before=before):
        seen += [run.id for run in page]
        before = page[-1].id
    assert sorted(seen) == sorted(made)
    assert seen[0] == made[-1]
    assert {run.id for run in log.list(tenant="a")} == {made[1], made[3]}
    assert [run.id for run in log.list(conversation_id="c4", state=RunState.OPEN)] == [made[4]]


def test_only_one_process_resumes_an_approved_call(log, database):
    call = Call(kind=CallKind.TOOL, tool_name="pay", arguments={"n": 1})
    run = log.start(Run(call=call), Mode.ENFORCE, OWNER)
    review_id = log.record_round(run.id, a_round(run, route=Route.DEFER))
    with pytest.raises(StaleItem, match="was not approved"):
        log.resume(run.id, OWNER)
    queue = ReviewQueue(database, log.clock)
    item = queue.claim("ada")
    queue.resolve(review_id, Resolution(verdict=Verdict.APPROVE, reviewer="ada"), version=item.version)
    assert log.resume(run.id, "host/2/2.00").run.state is RunState.OPEN
    with pytest.raises(StaleItem, match="is open"):
        log.resume(run.id, "host/3/3.00")


def test_a_full_disk_is_told_before_anything_acts(log, database):
    run = log.start(Run(call=Call.ask("?")), Mode.ENFORCE, OWNER)

    @event.listens_for(database.engine, "connect")
    def _(connection, record):
        connection.execute("PRAGMA max_page_count=1")

    database.engine.dispose()
    with pytest.raises(StoreError, match="full"):
        log.record_round(run.id, a_round(run, response=Response(text="x" * 500_000)))
    assert log.get(run.id) == run


def test_a_damaged_row_is_a_store_error(log, database):
    run = log.start(Run(call=Call.ask("?")), Mode.ENFORCE, OWNER)
    with database.transaction() as connection:
        connection.exec_driver_sql("UPDATE runs SET call = '{\"kind\": 3}'")
    with pytest.raises(StoreError, match="damaged"):
        log.get(run.id)


async def test_async_twins_do_the_same(log, clock):
    run = await log.astart(Run(call=Call.ask("?", idempotency_key="k")), Mode.ENFORCE, OWNER, model="gemma")
    assert await log.arecord_round(run.id, a_round(run)) is None
    await log.afinish(run.id, RunState.DONE)
    stored = await log.aget(run.id)
    assert stored == log.get(run.id)
    assert await log.aby_idempotency_key("k") == stored
    assert await log.alist() == [stored]
    assert await log.aresumable() == ()
    with pytest.raises(StaleItem):
        await log.aresume(run.id, OWNER)
    assert await log.afail(run.id, ValueError()) is RunState.DONE
    assert clock.now() - stored.created_at < timedelta(days=365_000)
