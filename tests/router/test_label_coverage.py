"""What the labels of a task say about all of its calls, through the real router."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from demur import Call
from demur.core.decision import Route
from demur.core.run import RunState
from demur.integrations.cli.status_labels import label_lines
from demur.router.judged_calls import JudgedCall, judged_calls
from demur.router.label_coverage import label_coverage
from demur.router.status import Status, status
from demur.testing import Reviewer

QUIET = {"refit_growth": 0.0, "online": False}


def covered(router, task="default", **which):
    with router.database.reading() as connection:
        return label_coverage(judged_calls(connection, task=task, **which)[task])


def worked(make_router, scripted, rate, count=300):
    """Unsure answers are deferred and graded in the queue, of sure ones the draw is: as in a real week."""
    draw = random.Random(3)
    levels = [draw.choice([-0.02, -0.15, -1.4]) for _ in range(count)]
    router = make_router(
        scripted([(f"answer {number}", level) for number, level in enumerate(levels)]),
        settings={"policy": {"label_rate": rate}, "learning": QUIET},
    )
    truth = {}
    for number in range(count):
        result = router.run(Call.ask(f"question {number}"))
        truth[result.run_id] = draw.random() < result.confidence.value
    reviewer = Reviewer(router)
    while waiting := reviewer.waiting():  # a page at a time
        for item in waiting:
            (reviewer.approve if truth[item.run_id] else reviewer.reject)(item.id)
    return router, sum(truth.values()) / count


def test_naive_is_wrong_and_weighted_is_right(make_router, scripted):
    router, truth = worked(make_router, scripted, rate=0.3)
    found = covered(router)
    assert found.naive.high < truth - 0.05
    assert found.weighted.low <= truth <= found.weighted.high
    assert found.weighted.high - found.weighted.low < 0.3
    assert found.refused is None
    assert found.effective < found.graded < found.calls == 300
    assert (found.unasked, found.pending) == (0, 0)
    told = status(router.database, router.settings)
    assert Status.model_validate_json(told.model_dump_json()) == told
    assert told.tasks[0].coverage == found
    delivered = told.tasks[0].coverage_of_delivered
    assert delivered.weighted.value > found.weighted.value > found.naive.value
    said = label_lines(found, delivered)
    share = f"{found.weighted.value:.1%} [{found.weighted.low:.1%}, {found.weighted.high:.1%}]"
    assert f"weighed by the chance of being graded: {share}, as sure as {found.effective:.0f} even draws" in said[0]


def test_without_draws_it_is_refused_and_the_blind_region_is_named(make_router, scripted):
    router, truth = worked(make_router, scripted, rate=0.0)
    found = covered(router)
    assert found.naive.high < truth
    assert found.weighted is None
    assert "were never going to be graded" in found.refused
    first = found.blind[0]
    assert (first.route, first.graded, first.hopeless) == (Route.ANSWER, 0, first.calls)
    assert str(first) == f"answered, confidence 0.8–1: {first.calls} calls, none was ever going to be graded"
    assert str(first) in found.refused
    (task,) = status(router.database, router.settings).tasks
    assert task.coverage == found
    lines = label_lines(task.coverage, task.coverage_of_delivered)
    assert lines[0].startswith("Accuracy of all 300 responses: not known (")
    assert (
        lines[1].startswith("Accuracy of the ")
        and " delivered responses: " in lines[1]
        and "nothing is graded yet" in lines[1]
    )
    assert lines[2] == f"No label: {first}."


def test_grades_that_nobody_asked_for_are_left_out(make_router, scripted):
    """Users who complain do not stand for those who do not."""
    router = make_router(scripted(), settings={"policy": {"label_rate": 0.5}, "learning": QUIET})
    results = [router.run(Call.ask(f"question {number}")) for number in range(40)]
    reviewer = Reviewer(router)
    drawn = {item.run_id for item in reviewer.waiting()}
    assert 10 < len(drawn) < 30
    first, *others = [result for result in results if result.run_id not in drawn]
    router.record_outcome(first.response_id, False, source_name="a user")
    assert "nothing that was graded speaks for the 40 delivered calls" in covered(router).refused
    waiting = reviewer.waiting()
    for item in waiting[:-2]:
        reviewer.approve(item.id)
    found = covered(router)
    assert (found.unasked, found.pending, found.graded) == (1, 2, len(drawn) - 1)
    assert (found.weighted.value, found.weighted.n) == (1.0, len(drawn) - 2)
    for result in others[:10]:
        router.record_outcome(result.response_id, False, source="test", label_propensity=0.1)
    assert covered(router).unasked == 1
    assert covered(router).weighted.value < 0.4  # their graders said how they were picked


def test_where_everything_is_graded_nothing_needs_weights(make_router, scripted):
    router = make_router(scripted([("a", -0.02), ("b", -0.15), ("c", -1.4)] * 10), settings={"learning": QUIET})
    for number in range(30):
        result = router.run(Call.ask(f"question {number}"))
        router.record_outcome(result.response_id, number % 5 > 0, source="test")
    found = covered(router)
    assert found.weighted.value == found.naive.value == pytest.approx(0.8)
    assert (found.weighted.low, found.weighted.high) == (found.naive.low, found.naive.high)
    assert found.effective == pytest.approx(30)
    assert found.blind == ()


def test_a_draft_that_was_deferred_after_all_stands_for_itself(make_router, scripted, retriever_of):
    """It was to be retrieved for, that failed, and the decision about the draft fell anew: a human was asked."""
    router = make_router(
        scripted([("Rome", -3.0)]),
        retriever=retriever_of(ValueError("the index is down")),
        settings={"learning": QUIET},
    )
    result = router.run(Call.ask("What is the capital of France?"))
    run = router.log.get(result.run_id)
    assert [round_.decision.route for round_ in run.rounds] == [Route.RETRIEVE, Route.DEFER]
    assert (result.state, run.rounds[1].response) == (RunState.WAITING, None)
    router.record_outcome(result.response_id, True, source="test")
    assert router.queue.outcomes.effective(result.response_id).label_propensity == 1.0
    with router.database.reading() as connection:
        (call,) = judged_calls(connection)["default"]
    assert (call.route, call.propensity, call.sent, call.is_right) == (Route.DEFER, 1.0, True, True)


def test_the_strongest_word_that_counts_is_read_tenants_apart(make_router, scripted):
    router = make_router(scripted(), settings={"learning": QUIET})
    mine = router.run(Call.ask("one", tenant="a"))
    router.run(Call.ask("two", tenant="b"))
    router.record_outcome(mine.response_id, True, source="judge", source_name="other")
    router.record_outcome(mine.response_id, False, source="rule", source_name="regex")
    with router.database.reading() as connection:
        (call,) = judged_calls(connection, tenant="a")["default"]
        assert (call.is_right, len(judged_calls(connection)["default"])) == (False, 2)
    router.retract_outcomes("rule")
    with router.database.reading() as connection:
        (call,) = judged_calls(connection, tenant="a")["default"]
    assert call.is_right is True


ONE = JudgedCall(Route.ANSWER, True, 0.9, "answer", "answer", "small", propensity=0.0, sent=False)


def test_regions_are_told_apart_in_plain_words():
    calls = [
        *[ONE] * 3,
        replace(ONE, turn="refusal", confidence=None),
        replace(ONE, arm="escalate:big", model="big", propensity=0.02),
        replace(ONE, route=Route.ABSTAIN, delivered=True, confidence=0.05),
        replace(ONE, confidence=0.5, is_right=True),
        replace(ONE, confidence=0.5),
    ]
    assert [str(region) for region in label_coverage(calls).blind] == [
        "answered, confidence 0.8–1, model small: 3 calls, none was ever going to be graded",
        "answered, confidence 0.4–0.6, model small: 2 calls, 1 graded, 1 were never going to be",
        "answered though to abstain was recommended, confidence 0–0.2, model small: 1 call, none was ever going to be "
        "graded",
        "answered, no confidence, refusal, model small: 1 call, none was ever going to be graded",
        "answered, confidence 0.8–1, by escalate:big, model big: 1 call, none graded so far",
    ]


def test_graders_from_outside_reach_a_region_that_nobody_else_looks_at():
    """They say how likely each call was to be picked, so the rest of its region is not hopeless."""
    calls = [ONE] * 90 + [replace(ONE, is_right=True, told=0.1)] * 9 + [replace(ONE, is_right=False, told=0.1)]
    found = label_coverage(calls)
    assert found.weighted.value == pytest.approx(0.9)
    assert found.blind == ()
    assert label_coverage([*calls, replace(ONE, confidence=0.1)]).weighted is None


def test_nothing_graded_is_refused():
    found = label_coverage([replace(ONE, propensity=0.02)])
    assert (found.naive.value, found.weighted, found.refused) == (None, None, "nothing is graded yet")


def test_of_many_blind_regions_the_largest_are_shown_and_text_stays_text():
    calls = [replace(ONE, model=f"model [bold]{number}\x1b[2J", arm="answer") for number in range(9)]
    lines = label_lines(label_coverage([*calls, *calls[:1]]), None)
    assert lines[0] == "Accuracy of all 10 responses: unknown, nothing is graded yet."
    assert "model [bold]0" in lines[1] and lines[1].endswith("2 calls, none was ever going to be graded.")
    assert lines[-1] == "No label: 3 more regions (--json shows them)."
    assert len(lines) == 8
