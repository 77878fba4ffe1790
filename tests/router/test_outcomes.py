"""Grades through the router: late, twice, contradictory, taken back; and the chance that anybody looked."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta

import pytest

from demur import BadInput, Call
from demur.core.call import CallKind, SideEffects
from demur.core.decision import Route
from demur.core.review_item import ReviewKind
from demur.core.run import RunState
from demur.router.site import Tool
from demur.testing import Reviewer

QUIET = {"refit_growth": 0.0, "online": False}


@pytest.fixture
def router_of(make_router, scripted):
    def make(*replies, rate=0.02, **options):
        settings = {"policy": {"label_rate": rate}, "learning": QUIET, **options.pop("settings", {})}
        return make_router(scripted(list(replies) or [("Paris", -0.02)]), settings=settings, **options)

    return make


def test_the_same_grade_told_again_later_changes_nothing(router_of):
    router = router_of()
    response = router.run(Call.ask("q")).response_id
    log = router.queue.outcomes
    first = router.record_outcome(response, True, source_name="ada", corrected_answer="Paris")
    router.clock.advance(3600)
    assert router.record_outcome(response, True, source_name="ada", corrected_answer="Paris") == first
    assert (len(log.of(response)), log.last_change()) == (1, 1)
    router.record_outcome(response, False, source_name="ada")
    assert (len(log.of(response)), log.last_change(), log.effective(response).is_right) == (1, 2, False)
    before = router.clock.now() - timedelta(hours=2)
    router.record_outcome(response, True, source_name="ada", graded_at=before)
    assert (log.last_change(), log.effective(response).is_right) == (2, False)


def test_several_sources_are_kept_and_the_strongest_then_newest_is_in_force(router_of):
    router = router_of()
    response = router.run(Call.ask("q")).response_id
    log = router.queue.outcomes
    at = router.clock.now()
    told = [("judge", "big", True), ("rule", "regex", False), ("test", "unit", True), ("human", "ada", False)]
    for source, name, right in told:
        router.record_outcome(response, right, source=source, source_name=name, graded_at=at)
        assert log.effective(response).source == source
    router.record_outcome(response, True, source="judge", source_name="other", graded_at=at + timedelta(1))
    assert log.effective(response).is_right is False
    router.record_outcome(response, True, source_name="bob", graded_at=at + timedelta(1))
    assert log.effective(response).source_name == "bob"
    assert len(log.of(response)) == 6
    assert log.counts().total == 1


def test_it_may_come_while_the_call_waits_and_long_after_it_ended(router_of):
    router = router_of(("Rome", -3.0))
    waiting = router.run(Call.ask("q"))
    assert waiting.state is RunState.WAITING
    router.record_outcome(waiting.response_id, True, source="test", source_name="unit")
    assert router.queue.outcomes.effective(waiting.response_id).is_right is True
    Reviewer(router, "ada").reject()
    assert router.queue.outcomes.effective(waiting.response_id).is_right is False
    router.clock.advance(90 * 24 * 3600)
    router.record_outcome(waiting.response_id, True, source_name="bob")
    assert router.queue.outcomes.effective(waiting.response_id).source_name == "bob"
    assert router.log.get(waiting.run_id).state is RunState.DONE


def test_a_time_without_a_zone_is_refused(router_of):
    router = router_of()
    response = router.run(Call.ask("q")).response_id
    with pytest.raises(BadInput, match="naive"):
        router.record_outcome(response, True, graded_at=datetime(2026, 1, 1))
    assert router.queue.outcomes.of(response) == ()
    router.record_outcome(response, True, graded_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert router.queue.outcomes.effective(response).graded_at.year == 2026


@pytest.mark.parametrize("name", ["run", "review", "typo"])
def test_what_is_no_response_of_this_log_is_named(router_of, name):
    router = router_of(("Rome", -3.0))
    result = router.run(Call.ask("q"))
    wrong = {"run": result.run_id, "review": result.review_id, "typo": result.response_id + "x"}[name]
    with pytest.raises(BadInput, match=f"no response '{wrong}' in the log; grade Result.response_id"):
        router.record_outcome(wrong, True)
    assert router.queue.outcomes.counts().total == 0


def test_each_response_of_a_run_has_its_own_judge_and_propensity(router_of, scripted):
    big = scripted([("Paris", None)], name="big")
    router = router_of(("Rome", -3.0), larger={"big": big})
    result = router.run(Call.ask("q"))
    draft, final = (round_.response.id for round_ in router.log.get(result.run_id).rounds)
    assert (result.route, result.response_id) == (Route.ESCALATE, final)
    router.record_outcome(draft, False, source="judge", source_name="big")
    router.record_outcome(final, True, source="judge", source_name="scripted")
    for response, name in ((draft, "SCRIPTED "), (draft, "weights of scripted"), (final, "Big")):
        with pytest.raises(BadInput, match="own verdict never counts"):
            router.record_outcome(response, True, source="judge", source_name=name)
    log = router.queue.outcomes
    assert (log.effective(draft).label_propensity, log.effective(final).label_propensity) == (0.0, 0.02)


def test_the_chance_that_anybody_looked_is_kept(router_of):
    """A delivered answer: the label rate, drawn or not; a deferred one: 1; an irreversible use that runs: 0."""
    router = router_of(("Paris", -0.02), ("Rome", -3.0), ("Paris", -0.02), rate=0.4)
    log = router.queue.outcomes
    answered, deferred = router.run(Call.ask("q1")), router.run(Call.ask("q2"))
    assert (answered.route, deferred.route) == (Route.ANSWER, Route.DEFER)
    for result in (answered, deferred):
        router.record_outcome(result.response_id, True, source="test")
    assert log.effective(answered.response_id).label_propensity == 0.4
    assert log.effective(deferred.response_id).label_propensity == 1.0
    Reviewer(router, "ada").edit(deferred.review_id, answer="Paris")
    by_ada = log.effective(deferred.response_id)
    assert (by_ada.source_name, by_ada.is_right, by_ada.label_propensity) == ("ada", False, 1.0)
    drawn = None
    while drawn is None:
        router.run(Call.ask(f"more {len(router.log.list(limit=500))}"))
        drawn = next((item for item in Reviewer(router).waiting() if item.kind is ReviewKind.LABEL), None)
    Reviewer(router, "ada").approve(drawn.id)
    assert log.effective(drawn.response_id).label_propensity == 0.4
    router.record_outcome(answered.response_id, True, source="test", source_name="all", label_propensity=1.0)
    assert {one.label_propensity for one in log.of(answered.response_id)} == {0.4, 1.0}


def test_an_irreversible_use_is_never_drawn(router_of, scripted):
    model = scripted([("transfer", -0.02)])
    router = router_of(rate=1.0, settings={"irreversible": "shadow"}, mode="shadow")
    proposal = model.generate(Call.ask("q"))
    call = Call(
        kind=CallKind.TOOL,
        tool_name="transfer",
        arguments={"amount": 1},
        side_effects=SideEffects.IRREVERSIBLE,
        idempotency_key="once",
    )
    result = router.run(call, tool=Tool(name="transfer", run=lambda amount: "done"), proposal=proposal)
    assert result.value == "done"
    router.record_outcome(result.response_id, True, source="test")
    assert router.queue.outcomes.effective(result.response_id).label_propensity == 0.0
    assert Reviewer(router).waiting() == ()


async def test_the_async_twin_stores_the_same(router_of):
    router = router_of()
    first, second = [(await router.arun(Call.ask(f"q{number}"))).response_id for number in range(2)]
    id = await router.arecord_outcome(first, score=0.8, cut=0.5, source="rule", source_name="overlap")
    assert await router.arecord_outcome(first, score=0.8, cut=0.5, source="rule", source_name="overlap") == id
    many = [router.arecord_outcome(second, number % 2 == 0, source_name=f"user {number}") for number in range(8)]
    await asyncio.gather(*many)
    assert len(router.queue.outcomes.of(second)) == 8
    with pytest.raises(BadInput, match="named cut"):
        await router.arecord_outcome(first, score=0.8)
    assert await router.aretract_outcomes("rule", because="wrong", dry_run=True) == 1
    assert await router.aretract_outcomes("rule", because="wrong") == 1
    assert router.queue.outcomes.of(first) == ()


def test_after_a_retraction_a_fresh_grade_counts_and_an_old_one_does_not(router_of, caplog):
    router = router_of()
    response = router.run(Call.ask("q")).response_id
    old = router.clock.now()
    router.record_outcome(response, False, source="rule", source_name="regex", graded_at=old)
    router.clock.advance(60)
    assert router.retract_outcomes("rule", since=old) == 1
    with caplog.at_level(logging.WARNING, "demur"):
        router.record_outcome(response, False, source="rule", source_name="regex", graded_at=old)
    assert "was taken back and stays so" in caplog.text
    log = router.queue.outcomes
    assert log.effective(response) is None
    router.record_outcome(response, True, source="rule", source_name="regex")  # mended, and graded again now
    assert log.effective(response).is_right is True
