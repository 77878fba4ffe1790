"""The same call again: cut where it was rejected, joined where it waits; edits that become calls of their own."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur import Call, ConfigurationError
from demur.core.decision import Mode, Route
from demur.core.errors import EffectBusy, StillWaiting
from demur.core.protocols import Generation
from demur.core.response import Response, TokenTrace
from demur.core.run import EffectState, RunState
from demur.router.recovery import recover
from demur.router.run_rows import substance
from demur.router.site import Tool
from demur.testing import Reviewer

GRAVE = {
    "refund": {"side_effects": "irreversible"},
    "delete": {"side_effects": "irreversible"},
    "lookup": {"side_effects": "none"},
}
ARGUMENTS = {"order": "A", "amount": 40}


@pytest.fixture
def house(make_router, scripted):
    """house(settings) → a router and what its tools were used for."""

    def make(costs=None, **settings):
        router = make_router(scripted(), costs=costs, settings={"tools": GRAVE, **settings})
        used = []
        for name in ("refund", "delete", "note", "lookup"):
            router.register_tool(Tool(name, run=lambda name=name, **arguments: used.append((name, arguments)) or name))
        return router, used

    return make


def ask(router, arguments=None, name="refund", conversation="c1", logprob=-3.0, **fields):
    arguments = ARGUMENTS if arguments is None else arguments
    call = Call(kind="tool", tool_name=name, arguments=arguments, conversation_id=conversation, **fields)
    proposal = Generation(Response(trace=TokenTrace(logprobs=(logprob,))))
    return router.run(call, tool=router.resumer.tools[name], proposal=proposal)


@pytest.mark.parametrize(
    ("arguments", "same"),
    [
        ({"amount": 40, "order": "A"}, True),
        ({"order": "A", "amount": 40.0}, True),
        ({"order": "A", "amount": "40"}, False),
        ({"order": "A", "amount": 41}, False),
        ({"order": "A"}, False),
        ({"order": "A", "amount": 40, "note": None}, False),
    ],
)
def test_the_same_call_is_the_same_json(house, arguments, same):
    router, used = house()
    first = ask(router)
    Reviewer(router).reject(first.run_id, note="no")
    again = ask(router, arguments)
    assert (again.route is Route.ABSTAIN, again.state is RunState.WAITING) == (same, not same)
    assert used == []


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.5, "1", "true", ""]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        max_leaves=6,
    ),
    st.data(),
)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_substance_goes_by_value_not_by_how_it_is_written(value, data):
    def call(argument, **fields):
        return Call(kind="tool", tool_name="t", arguments={"x": argument}, **fields)

    def rewritten(part):
        if isinstance(part, dict):
            return {name: rewritten(part[name]) for name in reversed(part)}
        if isinstance(part, list):
            return [rewritten(each) for each in part]
        return float(part) if type(part) is int and data.draw(st.booleans()) else part

    assert substance(call(value)) == substance(call(rewritten(value), messages=({"role": "user", "content": "?"},)))
    for other in (True, 1, "1", None):
        as_json = type(other) is type(value) and other == value
        as_number = other == 1 and type(other) is int and type(value) in (int, float) and value == 1
        assert (substance(call(other)) == substance(call(value))) == (as_json or as_number)


def test_a_sure_model_does_not_get_past_a_rejection_either(house):
    router, used = house()
    first = ask(router, idempotency_key="turn-1")
    Reviewer(router, "ada").reject(first.run_id, note="never paid for")
    again = ask(router, logprob=-0.01, idempotency_key="turn-2")
    assert (again.route, again.state, again.review_id) == (Route.ABSTAIN, RunState.DONE, first.review_id)
    stored = router.log.get(again.run_id)
    assert (stored.state, stored.result.reason) == (RunState.DONE, again.reason)
    (round,) = stored.rounds
    assert round.decision.route is Route.ABSTAIN
    assert f"review {first.review_id}): never paid for" in round.decision.reason
    assert round.response is not None and round.decision.label_propensity == 0.0
    assert router.message_for(again) == router.settings.waiting.rejected
    assert (used, Reviewer(router).waiting()) == ([], ())


def test_a_higher_limit_asks_again_first(house):
    router, used = house(review={"max_rejections": 2})
    for _ in range(2):
        assert ask(router).state is RunState.WAITING
        Reviewer(router).reject()
    assert ask(router).route is Route.ABSTAIN
    assert used == []


@pytest.mark.parametrize("other", [{"conversation": "c2"}, {"conversation": None}, {"tenant": "b"}, {"task": "t"}])
def test_elsewhere_it_is_another_call(house, other):
    router, _ = house()
    for conversation in ("c1", None):
        Reviewer(router).reject(ask(router, conversation=conversation).run_id)
    assert ask(router, **other).state is RunState.WAITING


def test_an_approved_call_and_an_effect_that_did_not_happen_are_no_rejections(house):
    router, used = house()
    first = ask(router)
    Reviewer(router).approve(first.run_id)
    router.resume(first.run_id)
    assert ask(router).state is RunState.WAITING
    assert len(used) == 1


def test_nobody_decided_in_time_says_so(house, clock):
    router, _ = house(review={"expires_after": 60.0})
    first = ask(router)
    clock.advance(61)
    assert router.poll(first.run_id).route is Route.ABSTAIN
    again = ask(router)
    assert again.route is Route.ABSTAIN
    assert f"nobody decided in time on this very call in this conversation (review {first.review_id})" in again.reason
    assert router.message_for(again) == router.settings.waiting.expired


def test_outside_enforce_mode_nothing_is_cut(house):
    router, used = house()
    call = {"name": "note", "arguments": {"text": "hi"}, "side_effects": "reversible"}
    first = ask(router, **call)
    Reviewer(router).reject(first.run_id)
    shadow = Call(kind="tool", tool_name="note", arguments={"text": "hi"}, conversation_id="c1")
    assert router.run(shadow, tool=router.resumer.tools["note"], mode=Mode.SHADOW).value == "note"
    assert len(used) == 1


def test_what_waits_is_joined_under_any_key_and_carried_out_once(house):
    router, used = house()
    first = ask(router, idempotency_key="turn-1")
    for key in ("turn-2", None, "turn-1"):
        joined = ask(router, idempotency_key=key)
        assert (joined.run_id, joined.review_id, joined.state) == (first.run_id, first.review_id, RunState.WAITING)
    assert len(Reviewer(router).waiting()) == 1
    assert len(router.log.list()) == 1
    Reviewer(router).approve()
    assert ask(router, idempotency_key="turn-3").value == "refund"
    assert used == [("refund", ARGUMENTS)]
    assert ask(router, idempotency_key="turn-1").value == "refund"
    assert len(used) == 1


def test_eight_at_once_make_one_item(house):
    router, used = house()
    start, got = threading.Barrier(8), []

    def act(number):
        start.wait()
        got.append(ask(router, idempotency_key=f"turn-{number}"))

    threads = [threading.Thread(target=act, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (item,) = Reviewer(router).waiting()
    assert {(result.run_id, result.review_id) for result in got} == {(item.run_id, item.id)}
    assert len(got) == 8
    states = sorted(run.state for run in router.log.list())
    assert states.count(RunState.WAITING) == 1
    assert set(states) <= {RunState.WAITING, RunState.FAILED}  # those that came at the same moment let go of their key
    Reviewer(router).approve()
    assert router.resume(item.run_id).value == "refund"
    assert len(used) == 1


def test_a_call_that_came_at_the_same_moment_keeps_its_key_free(house, monkeypatch):
    """The race, made certain: both were stored before either came to wait."""
    from demur.router import log

    router, used = house()
    first = ask(router)
    with monkeypatch.context() as patch:
        real, seen = log.waiting_twin, []
        patch.setattr(log, "waiting_twin", lambda *a: None if not seen and not seen.append(1) else real(*a))
        joined = ask(router, idempotency_key="turn-2")
    assert (joined.run_id, joined.review_id) == (first.run_id, first.review_id)
    late = router.log.by_idempotency_key("turn-2")
    assert (late.state, late.rounds) == (RunState.FAILED, ())
    assert f"run {first.run_id}" in late.error
    Reviewer(router).reject()
    assert ask(router, idempotency_key="turn-2").route is Route.ABSTAIN
    assert used == []


def test_a_late_approval_is_not_carried_out(house, clock):
    router, used = house()
    first = ask(router, deadline=clock.now() + timedelta(seconds=60))
    Reviewer(router).approve()
    clock.advance(61)
    result = router.resume(first.run_id)
    assert (result.route, result.state, used) == (Route.ABSTAIN, RunState.DONE, [])
    assert "not carried out before its deadline" in result.reason


def test_a_loser_does_not_end_the_winner_s_run(house):
    """While one carries it out, another that has not even the tool asks for it, and a third waits for it."""
    router, used = house()
    first = ask(router, idempotency_key="turn-1")
    Reviewer(router).approve()
    inside, go = threading.Event(), threading.Event()

    def slow(**arguments):
        inside.set()
        assert go.wait(30)
        used.append(arguments)
        return "paid"

    winner = threading.Thread(target=router.resume, args=(first.run_id,), kwargs={"tool": Tool("refund", run=slow)})
    winner.start()
    assert inside.wait(30)
    with pytest.raises(StillWaiting, match="at work right now"):
        router.resume(first.run_id, tool=Tool("other", run=slow))
    assert router.poll(first.run_id) is None
    with pytest.raises(EffectBusy):
        ask(router, conversation="c2", idempotency_key="turn-1")
    future = router.future(first.run_id)
    go.set()
    winner.join()
    assert future.result(30).value == "paid"
    assert (used, router.effects.get("turn-1").state) == ([ARGUMENTS], EffectState.DONE)
    router.close()


def edited(router, target, arguments=None, **fields):
    first = ask(router, **fields)
    Reviewer(router, "ada").edit(first.run_id, tool_name=target, arguments=arguments or {"id": 7})
    return first


def test_the_edit_s_decision_states_the_human_s_accuracy_and_no_confidence(house):
    router, _ = house(costs={"human_accuracy": 0.97, "human_accuracy_source": "measured"})
    first = edited(router, "lookup")
    assert router.resume(first.run_id).value == "lookup"
    (round,) = router.log.child_of(first.run_id).rounds
    assert (round.signals, round.confidence, round.response) == ((), None, None)
    assert round.decision.confidence.is_prior
    assert "97.0% of cases (measured)" in round.decision.reason
    assert round.decision.threshold <= 0.97


def test_a_dear_tool_asks_again_where_the_human_is_not_right_often_enough(house):
    tools = {**GRAVE, "note": {"side_effects": "reversible", "loss": 20.0}}
    router, used = house(tools=tools, costs={"human_accuracy": 0.8, "abstain": 0.9})
    first = edited(router, "note")
    result = router.resume(first.run_id)
    assert (result.state, used) == (RunState.WAITING, [])
    cheap, _ = house(tools={**GRAVE, "note": {"side_effects": "reversible"}})
    second = edited(cheap, "note", conversation="c9")
    assert cheap.resume(second.run_id).value == "note"


def test_a_shadowed_tool_runs_as_any_call_of_it_would(house):
    router, _ = house(irreversible="shadow", tools={"delete": {"side_effects": "irreversible"}})
    first = edited(router, "delete", side_effects="reversible", name="note")
    assert router.resume(first.run_id).value == "delete"
    decision = router.log.child_of(first.run_id).rounds[0].decision
    assert (decision.route, decision.mode) == (Route.DEFER, Mode.SHADOW)


def test_without_a_place_in_the_queue_the_edit_is_withheld(house):
    router, used = house(review={"capacity": 1})
    first = edited(router, "delete")
    ask(router, {"order": "B"}, conversation="c2")
    result = router.resume(first.run_id)
    assert (result.route, result.state, used) == (Route.ABSTAIN, RunState.DONE, [])
    assert "queue is full" in result.reason
    assert router.log.get(first.run_id).state is RunState.DONE


def test_two_edits_in_a_row_end_together(house):
    router, used = house()
    first = edited(router, "delete")
    assert router.resume(first.run_id).state is RunState.WAITING
    Reviewer(router, "bob").edit(tool_name="refund", arguments={"order": "Z"})
    third = router.resume(first.run_id)
    assert (third.run_id, third.state) == (first.run_id, RunState.WAITING)
    (item,) = Reviewer(router).waiting()
    assert (item.call.tool_name, item.id) == ("refund", third.review_id)
    assert router.log.resumable() == ()
    Reviewer(router, "cy").approve()
    assert len(router.log.resumable()) == 1
    assert [result.value for result in router.resume_all().values()] == ["refund"]
    assert used == [("refund", {"order": "Z"})]
    for run in router.log.list():
        assert (run.state, run.result.value) == (RunState.DONE, "refund")
    assert router.log.get(first.run_id).result.run_id == first.run_id
    assert router.log.get(first.run_id).result.response_id == first.response_id


def test_an_edit_of_an_edit_keeps_its_tool_without_a_third_look(house):
    router, used = house()
    first = edited(router, "delete")
    router.resume(first.run_id)
    Reviewer(router, "bob").edit(arguments={"id": 8})
    assert router.resume(first.run_id).value == "delete"
    assert used == [("delete", {"id": 8})]


def test_a_child_that_fails_takes_its_parent_along(house):
    router, _ = house()

    def fails(**_):
        raise OSError("no bank")

    first = edited(router, "lookup")
    with pytest.raises(OSError, match="no bank"):
        router.resume(first.run_id, tool=Tool("lookup", run=fails))
    stored = router.log.get(first.run_id)
    assert (stored.state, stored.result) == (RunState.FAILED, None)
    assert "no bank" in stored.error
    assert router.resume(first.run_id).state is RunState.FAILED


def test_a_child_of_which_nobody_knows_and_the_human_who_finds_out(house, clock):
    router, _ = house()

    def interrupted(**_):
        raise KeyboardInterrupt

    first = edited(router, "lookup")
    with pytest.raises(KeyboardInterrupt):
        router.resume(first.run_id, tool=Tool("lookup", run=interrupted))
    assert router.log.get(first.run_id).state is RunState.UNKNOWN
    assert router.resume(first.run_id).state is RunState.UNKNOWN
    Reviewer(router).approve()  # it did happen
    assert router.resume(first.run_id).state is RunState.DONE
    assert router.log.get(first.run_id).result.run_id == first.run_id


def test_a_child_cut_off_before_its_effect_leaves_the_parent_resumable(house, monkeypatch):
    router, used = house()
    first = edited(router, "lookup")
    with monkeypatch.context() as patch:

        def cut_off(*_, **__):
            raise KeyboardInterrupt

        patch.setattr(router.effects, "run_once", cut_off)
        with pytest.raises(KeyboardInterrupt):
            router.resume(first.run_id)
    assert router.log.child_of(first.run_id).state is RunState.FAILED
    assert router.log.get(first.run_id).state is RunState.WAITING
    assert router.log.resumable() == (first.run_id,)
    assert router.resume(first.run_id).value == "lookup"
    assert len(used) == 1
    assert [run.state for run in router.log.list() if run.parent_id].count(RunState.FAILED) == 1


def test_an_approved_call_cut_off_before_its_effect_waits_again(house, monkeypatch):
    router, used = house()
    first = ask(router)
    Reviewer(router).approve()
    with monkeypatch.context() as patch:

        def cut_off(*_, **__):
            raise KeyboardInterrupt

        patch.setattr(router.effects, "run_once", cut_off)
        with pytest.raises(KeyboardInterrupt):
            router.resume(first.run_id)
    stored = router.log.get(first.run_id)
    assert (stored.state, stored.result.state) == (RunState.WAITING, RunState.WAITING)
    assert router.resume(first.run_id).value == "refund"
    assert len(used) == 1


def test_resume_all_goes_on_after_a_failure_and_leaves_what_it_has_no_tool_for(house, make_router, scripted):
    router, _ = house()

    def fails(**_):
        raise OSError("no bank")

    names = ("refund", "delete", "refund")
    runs = [ask(router, {"order": order}, name=name).run_id for order, name in zip("ABC", names, strict=True)]
    for run_id in runs:
        Reviewer(router).approve(run_id)
    other = make_router(scripted(), settings={"tools": GRAVE})
    other.register_tool(Tool("refund", run=lambda order: fails() if order == "A" else f"paid {order}"))
    ended = other.resume_all()
    assert {run_id: result.state for run_id, result in ended.items()} == {
        runs[0]: RunState.FAILED,
        runs[2]: RunState.DONE,
    }
    assert other.log.get(runs[1]).state is RunState.WAITING
    assert recover(other.database, other.clock).left == ()


async def test_resume_all_is_async_too(house):
    router, _ = house()
    first, second = ask(router), ask(router, {"order": "B"}, name="delete")
    for each in (first, second):
        Reviewer(router).approve(each.run_id)
    ended = await router.aresume_all()
    assert {run_id: result.value for run_id, result in ended.items()} == {
        first.run_id: "refund",
        second.run_id: "delete",
    }


def test_tools_are_told_apart(house):
    router, _ = house()

    def made(value):
        def tool(**_):
            return value

        return tool

    router.register_tool(Tool("made", run=made(one := object())))
    router.register_tool(Tool("made", run=made(one)))  # the same code around the same thing
    with pytest.raises(ConfigurationError, match="two tools are called 'made'"):
        router.register_tool(Tool("made", run=made(object())))
    with pytest.raises(ConfigurationError, match="two tools are called 'made'"):
        router.register_tool(Tool("made", run=lambda **_: one))
    for wrong in (None, "made", Tool("", run=print)):
        with pytest.raises(ConfigurationError, match="cannot be used"):
            router.register_tool(wrong)


def test_status_counts_what_waits_for_its_program(house):
    from demur.router.status import status

    router, _ = house()
    approved, gated = ask(router), edited(router, "delete", arguments={"id": 1}, conversation="c2")
    waiting = ask(router, {"order": "B"}, conversation="c3")
    Reviewer(router).approve(approved.run_id)
    assert status(router.database, router.settings).approved == 2
    router.resume(gated.run_id)  # now it waits for a second look
    found = status(router.database, router.settings)
    assert (found.approved, found.waiting) == (1, 2)
    assert status(router.database, router.settings, tenant="another").approved == 0
    router.resume(approved.run_id)
    assert status(router.database, router.settings).approved == 0
    assert router.log.get(waiting.run_id).state is RunState.WAITING
