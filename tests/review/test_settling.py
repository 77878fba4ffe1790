"""What a decision does to the run, and what it says about the response."""

import json
from datetime import timedelta

import pytest

from demur.core.call import Call
from demur.core.database.outcome_log import OutcomeLog
from demur.core.decision import Route
from demur.core.errors import BadInput
from demur.core.outcome import OutcomeSource
from demur.core.review_item import Resolution, ReviewItem, ReviewKind, ReviewState, SafeEnd, Verdict
from demur.core.run import RunState


def decide(queue, item_id, verdict, **parts):
    item = queue.claim("ada", item_id=item_id)
    return queue.resolve(item_id, Resolution(verdict=verdict, reviewer="ada", **parts), version=item.version)


@pytest.mark.parametrize(
    ("verdict", "parts", "value", "grade"),
    [
        (Verdict.APPROVE, {}, "Paris", (True, None)),
        (Verdict.EDIT, {"answer": "Lyon"}, "Lyon", (False, "Lyon")),
        (Verdict.EDIT, {"answer": " Paris\n"}, " Paris\n", (True, None)),
        (Verdict.REJECT, {"note": "not our business"}, None, (False, None)),
        (Verdict.RESPOND, {"answer": "Ask the embassy."}, "Ask the embassy.", None),
        (Verdict.RESPOND, {"answer": "Paris"}, "Paris", (True, None)),
    ],
)
def test_a_deferred_answer(queue, log, database, defer, verdict, parts, value, grade):
    run_id, item_id, response_id = defer()
    decide(queue, item_id, verdict, **parts)
    run = log.get(run_id)
    assert run.state is RunState.DONE
    assert (run.result.value, run.result.delivered) == (value, value is not None)
    assert run.result.route is (Route.ABSTAIN if verdict is Verdict.REJECT else Route.ANSWER)
    assert (run.result.recommended, run.result.review_id) == (Route.DEFER, item_id)
    if verdict is Verdict.REJECT:
        assert run.result.reason == "not our business"
    outcome = OutcomeLog(database).effective(response_id)
    if grade is None:
        assert outcome is None
    else:
        assert (outcome.is_right, outcome.corrected_answer) == grade
        assert (outcome.source, outcome.source_name) == (OutcomeSource.HUMAN, "ada")
        assert outcome.label_propensity == 0.25  # what the decision stored


@pytest.mark.parametrize(
    ("verdict", "parts", "arguments", "grade"),
    [
        (Verdict.APPROVE, {}, {"order": "A-17", "cents": 1250}, True),
        (Verdict.EDIT, {"arguments": {"n": 3, "x": [1, {"a": None}]}}, {"n": 3, "x": [1, {"a": None}]}, False),
        (Verdict.EDIT, {"arguments": {"cents": 1250, "order": "A-17"}}, {"order": "A-17", "cents": 1250}, True),
    ],
)
def test_a_tool_call_let_through_waits_to_be_resumed_once(
    queue, log, database, defer, refund, verdict, parts, arguments, grade
):
    run_id, item_id, response_id = defer(refund)
    assert log.resumable() == ()
    decide(queue, item_id, verdict, **parts)
    assert log.get(run_id).state is RunState.WAITING
    assert log.resumable() == (run_id,)
    resumed = log.resume(run_id, "host/1/2.00")
    assert resumed.run.state is RunState.OPEN
    assert (resumed.tool_name, resumed.arguments, resumed.tool_changed) == ("refund", arguments, False)
    assert json.dumps(resumed.arguments, sort_keys=True) == json.dumps(arguments, sort_keys=True)
    assert OutcomeLog(database).effective(response_id).is_right is grade


def test_an_edit_to_another_tool_says_so(queue, log, defer, refund):
    run_id, item_id, _ = defer(refund)
    decide(queue, item_id, Verdict.EDIT, tool_name="apologise", arguments={})
    resumed = log.resume(run_id, "host/1/2.00")
    assert (resumed.tool_name, resumed.tool_changed, resumed.arguments) == ("apologise", True, {})


@pytest.mark.parametrize(
    ("verdict", "parts", "route", "value"),
    [
        (Verdict.REJECT, {}, Route.ABSTAIN, None),
        (Verdict.RESPOND, {"answer": "no refunds on gifts"}, Route.ANSWER, "no refunds on gifts"),
    ],
)
def test_a_tool_call_that_is_not_let_through_ends(queue, log, database, defer, refund, verdict, parts, route, value):
    run_id, item_id, response_id = defer(refund)
    decide(queue, item_id, verdict, **parts)
    run = log.get(run_id)
    assert (run.state, run.result.route, run.result.value) == (RunState.DONE, route, value)
    assert log.resumable() == ()
    outcome = OutcomeLog(database).effective(response_id)
    assert outcome is None if verdict is Verdict.RESPOND else outcome.is_right is False


@pytest.mark.parametrize("end", list(SafeEnd))
def test_silence_ends_in_abstention_and_never_in_an_answer(queue, log, database, clock, defer, refund, end):
    def review(run, decision, response):
        due = clock.now() + timedelta(seconds=10)
        return ReviewItem(
            run_id=run.id,
            call=run.call,
            reason="?",
            proposed="Paris",
            on_expiry=end,
            due_at=due,
            response_id=response.id,
        )

    waiting = [defer(call, review=review) for call in (None, refund)]
    clock.advance(10)
    assert {item.id for item in queue.expire_due()} == {item_id for _, item_id, _ in waiting}
    for run_id, _, response_id in waiting:
        run = log.get(run_id)
        assert (run.state, run.result.route, run.result.value) == (RunState.DONE, Route.ABSTAIN, None)
        assert OutcomeLog(database).effective(response_id) is None


def test_a_call_s_deadline_is_when_its_review_is_due(queue, clock, defer):
    deadline = clock.now() + timedelta(seconds=77)
    _, item_id, _ = defer(Call.ask("?", deadline=deadline))
    assert queue.get(item_id).due_at == deadline


def test_a_label_grades_and_changes_nothing_else(queue, log, database, defer):
    run_id, item_id, response_id = defer()
    decide(queue, item_id, Verdict.APPROVE)
    before = log.get(run_id)
    label = ReviewItem(
        run_id=run_id,
        kind=ReviewKind.LABEL,
        call=before.call,
        reason="drawn",
        proposed="Paris",
        response_id=response_id,
    )
    queue.enqueue(label)
    decide(queue, label.id, Verdict.REJECT)
    assert log.get(run_id) == before
    assert OutcomeLog(database).effective(response_id).is_right is False


def test_without_a_decision_the_label_propensity_is_unknown(queue, database, make_item):
    queue.enqueue(make_item(1, response_id="resp_1"))
    decide(queue, "rev_1", Verdict.APPROVE)
    assert OutcomeLog(database).effective("resp_1").label_propensity is None


@pytest.mark.parametrize(
    ("is_tool", "verdict", "parts"),
    [
        (False, Verdict.EDIT, {"arguments": {}}),
        (False, Verdict.EDIT, {"answer": "x", "tool_name": "t"}),
        (True, Verdict.EDIT, {"answer": "x"}),
        (True, Verdict.APPROVE, {"tool_name": "other"}),
        (True, Verdict.RESPOND, {"answer": "x", "arguments": {}}),
    ],
)
def test_a_decision_that_makes_no_sense_changes_nothing(queue, log, defer, refund, is_tool, verdict, parts):
    run_id, item_id, _ = defer(refund if is_tool else None)
    with pytest.raises(BadInput):
        decide(queue, item_id, verdict, **parts)
    assert queue.get(item_id).state is ReviewState.CLAIMED
    assert log.get(run_id).state is RunState.WAITING


def test_there_must_be_a_draft_to_approve(queue, make_item):
    queue.enqueue(make_item(1, proposed=None))
    with pytest.raises(BadInput, match="no draft"):
        decide(queue, "rev_1", Verdict.APPROVE)


@pytest.mark.parametrize("verdict", [Verdict.EDIT, Verdict.RESPOND])
def test_whether_it_happened_is_answered_by_yes_or_no(queue, make_item, verdict):
    queue.enqueue(make_item(1, kind=ReviewKind.EFFECT_UNKNOWN))
    with pytest.raises(BadInput, match="whether the effect happened"):
        decide(queue, "rev_1", verdict, answer="perhaps")
