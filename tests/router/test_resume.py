"""A deferred call waits; a resolution resumes it exactly once."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError

import pytest

from demur import BadInput, Call, ConfigurationError, Deferred
from demur.core.decision import Route
from demur.core.errors import StillWaiting
from demur.core.outcome import OutcomeSource
from demur.core.protocols import Generation
from demur.core.response import Response, TokenTrace
from demur.core.run import RunState
from demur.router.site import Tool
from demur.testing import Reviewer

SETTINGS = {
    "learning": {"refit_growth": 0.0},
    "tools": {
        "refund": {"side_effects": "irreversible"},
        "lookup": {"side_effects": "none"},
        "delete": {"side_effects": "irreversible"},
        "note": {"side_effects": "reversible", "always_review": True},
    },
}
TYPED = {"n": 3, "x": [1, {"a": None}], "f": 3.0, "s": "3"}


class Counted:
    def __init__(self, name="refund", error=None):
        self.uses, self.error = [], error
        self.tool = Tool(name, run=self.run)

    def run(self, **arguments):
        self.uses.append(arguments)
        if self.error is not None:
            raise self.error
        return {"used": len(self.uses)}


@pytest.fixture
def house(make_router, scripted):
    """A router with its tools, and a reviewer."""
    router = make_router(scripted(), settings=SETTINGS)
    tools = {name: Counted(name) for name in ("refund", "lookup", "delete", "note")}
    for each in tools.values():
        router.register_tool(each.tool)
    return router, tools, Reviewer(router, "ada")


@pytest.fixture(params=["sync", "async"])
def resume(request):
    def act(router, run_id, **options):
        if request.param == "sync":
            return router.resume(run_id, **options)
        return asyncio.run(router.aresume(run_id, **options))

    return act


def unsure(name="refund", arguments=None, **fields):
    return Call(kind="tool", tool_name=name, arguments={"order": "A"} if arguments is None else arguments, **fields)


def proposed():
    return Generation(Response(trace=TokenTrace(logprobs=(-3.0,))))


def deferred(router, tools, call=None):
    call = call or unsure()
    result = router.run(call, tool=tools[call.tool_name].tool, proposal=proposed())
    assert result.state is RunState.WAITING
    return result


def test_an_approved_tool_runs_once_however_often_it_is_resumed(house, resume):
    router, tools, reviewer = house
    waiting = deferred(router, tools)
    with pytest.raises(StillWaiting) as nobody:
        resume(router, waiting.run_id)
    assert (nobody.value.run_id, nobody.value.review_id) == (waiting.run_id, waiting.review_id)
    reviewer.approve()
    results = [resume(router, waiting.run_id) for _ in range(3)]
    assert [result.value for result in results] == [{"used": 1}] * 3
    assert (results[0].route, results[0].state, results[0].delivered) == (Route.ANSWER, RunState.DONE, True)
    assert tools["refund"].uses == [{"order": "A"}]
    assert router.log.get(waiting.run_id).result.value == {"used": 1}
    assert router.queue.outcomes.effective(waiting.response_id).source is OutcomeSource.HUMAN
    assert "approved by ada" in results[0].reason


def test_many_at_once_resume_it_once(house):
    router, tools, reviewer = house
    waiting = deferred(router, tools)
    reviewer.approve()
    start, got = threading.Barrier(8), []

    def act():
        start.wait()
        try:
            got.append(router.resume(waiting.run_id).value)
        except StillWaiting:
            got.append(None)

    threads = [threading.Thread(target=act) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tools["refund"].uses) == 1
    assert {"used": 1} in got
    assert router.resume(waiting.run_id).value == {"used": 1}


def test_edited_arguments_keep_their_types(house, resume):
    router, tools, reviewer = house
    waiting = deferred(router, tools)
    reviewer.edit(arguments=TYPED)
    assert resume(router, waiting.run_id).value == {"used": 1}
    (used,) = tools["refund"].uses
    assert used == TYPED
    assert [type(used[name]) for name in ("n", "f", "s")] == [int, float, str]


@pytest.mark.parametrize("how", ["reject", "respond"])
def test_what_is_not_let_through_does_not_run(house, resume, how):
    router, tools, reviewer = house
    waiting = deferred(router, tools)
    _ = reviewer.reject(note="no refunds") if how == "reject" else reviewer.respond("I did it by hand")
    result = resume(router, waiting.run_id)
    assert (result.value, result.reason) == (
        (None, "no refunds") if how == "reject" else ("I did it by hand", result.reason)
    )
    assert tools["refund"].uses == []


def test_an_edit_into_a_harmless_tool_runs_under_that_tool_s_policy(house, resume):
    router, tools, reviewer = house
    waiting = deferred(router, tools)
    reviewer.edit(tool_name="lookup", arguments={"id": 7})
    result = resume(router, waiting.run_id)
    assert (result.value, result.run_id, result.state) == ({"used": 1}, waiting.run_id, RunState.DONE)
    assert (tools["refund"].uses, tools["lookup"].uses) == ([], [{"id": 7}])
    child = router.log.child_of(waiting.run_id)
    assert (child.call.tool_name, child.state, child.parent_id) == ("lookup", RunState.DONE, waiting.run_id)
    assert "ada edited a call of refund" in child.rounds[0].decision.reason
    assert resume(router, waiting.run_id).value == {"used": 1}
    assert len(tools["lookup"].uses) == 1


@pytest.mark.parametrize("target", ["delete", "note"])
def test_an_edit_into_a_grave_tool_is_looked_at_again(house, resume, target):
    router, tools, reviewer = house
    waiting = deferred(router, tools)
    reviewer.edit(tool_name=target, arguments={"id": 7})
    result = resume(router, waiting.run_id)
    assert (result.run_id, result.state, tools[target].uses) == (waiting.run_id, RunState.WAITING, [])
    assert result.review_id != waiting.review_id
    (item,) = reviewer.waiting()
    assert (item.id, item.call.tool_name, item.call.arguments) == (result.review_id, target, {"id": 7})
    assert "ada edited a call of refund" in item.reason
    with pytest.raises(StillWaiting) as again:
        resume(router, waiting.run_id)
    assert (again.value.run_id, again.value.review_id) == (waiting.run_id, item.id)
    assert router.log.get(waiting.run_id).result.review_id == item.id
    Reviewer(router, "bob").approve()
    assert resume(router, waiting.run_id).value == {"used": 1}
    assert tools[target].uses == [{"id": 7}]
    assert resume(router, waiting.run_id).value == {"used": 1}
    assert router.log.get(waiting.run_id).state is RunState.DONE


def test_the_second_look_can_say_no(house, resume):
    router, tools, reviewer = house
    waiting = deferred(router, tools)
    reviewer.edit(tool_name="delete", arguments={})
    assert resume(router, waiting.run_id).state is RunState.WAITING
    reviewer.reject(note="never")
    assert router.log.get(waiting.run_id).state is RunState.DONE  # with its child, in one transaction
    result = resume(router, waiting.run_id)
    assert (result.route, result.value, tools["delete"].uses) == (Route.ABSTAIN, None, [])
    assert router.log.get(waiting.run_id).state is RunState.DONE


def test_a_tool_that_is_not_here_leaves_the_run_waiting(house, make_router, scripted, resume):
    router, tools, reviewer = house
    waiting = deferred(router, tools)
    reviewer.approve()
    empty = make_router(scripted(), settings=SETTINGS)
    with pytest.raises(ConfigurationError, match=r"'refund'.*keeps waiting"):
        resume(empty, waiting.run_id)
    assert resume(empty, waiting.run_id, tool=tools["refund"].tool).value == {"used": 1}


def test_a_tool_that_fails_after_approval_is_not_run_again(house, resume):
    router, tools, reviewer = house
    tools["refund"].error = OSError("bank is down")
    waiting = deferred(router, tools)
    reviewer.approve()
    with pytest.raises(OSError, match="bank is down"):
        resume(router, waiting.run_id)
    result = resume(router, waiting.run_id)
    assert (result.state, len(tools["refund"].uses)) == (RunState.FAILED, 1)


def test_an_answer_is_delivered_by_the_resolution_itself(make_router, scripted, resume):
    router = make_router(scripted([("Pariss", -1.5)]), settings=SETTINGS)
    waiting = router.run(Call.ask("Capital of France?"))
    with pytest.raises(StillWaiting):
        resume(router, waiting.run_id)
    Reviewer(router).edit(answer="Paris")
    assert resume(router, waiting.run_id).value == "Paris"


def test_no_such_run(house, resume):
    with pytest.raises(BadInput, match="no run 'run_x'"):
        resume(house[0], "run_x")


def test_what_was_rejected_is_cut_when_the_model_asks_again(house):
    router, tools, reviewer = house
    deferred(router, tools, unsure(conversation_id="c1"))
    reviewer.reject(note="not covered")
    for arguments in ({"order": "A"},):
        again = router.run(
            unsure(arguments=arguments, conversation_id="c1"), tool=tools["refund"].tool, proposal=proposed()
        )
        assert (again.route, again.state) == (Route.ABSTAIN, RunState.DONE)
        assert "rejected this very call" in again.reason and "not covered" in again.reason
    assert reviewer.waiting() == ()
    decision = router.log.get(again.run_id).rounds[0].decision
    assert decision.route is Route.ABSTAIN
    for other in ({"conversation_id": "c2"}, {}, {"conversation_id": "c1", "arguments": {"order": "B"}}):
        call = unsure(**{"arguments": {"order": "A"}, **other})
        assert router.run(call, tool=tools["refund"].tool, proposal=proposed()).state is RunState.WAITING
    sure = Generation(Response(trace=TokenTrace(logprobs=(-0.01,))))
    assert router.run(unsure(conversation_id="c1"), tool=tools["refund"].tool, proposal=sure).route is Route.ABSTAIN
    assert tools["refund"].uses == []


def test_what_expired_counts_as_rejected(house, make_router, scripted, clock):
    from datetime import timedelta

    router, tools, reviewer = house
    deferred(router, tools, unsure(conversation_id="c1", deadline=clock.now() + timedelta(seconds=5)))
    clock.advance(10)
    assert router.poll is not None
    router.queue.expire_due()
    again = router.run(unsure(conversation_id="c1"), tool=tools["refund"].tool, proposal=proposed())
    assert (again.route, reviewer.waiting()) == (Route.ABSTAIN, ())


def test_the_same_call_is_not_queued_twice_while_it_waits(house):
    router, tools, reviewer = house
    first = deferred(router, tools, unsure(conversation_id="c1"))
    second = deferred(router, tools, unsure(conversation_id="c1"))
    assert (second.run_id, second.review_id) == (first.run_id, first.review_id)
    assert len(reviewer.waiting()) == 1


def test_waiting_blocks_until_a_human_decides(house):
    router, tools, reviewer = house
    waiting = deferred(router, tools)
    later = threading.Timer(0.05, reviewer.approve)
    later.start()
    assert router.wait(waiting.run_id, timeout=30).value == {"used": 1}
    again = deferred(router, tools, unsure(arguments={"order": "B"}))
    with pytest.raises(StillWaiting):
        router.wait(again.run_id, timeout=0.0)

    async def act():
        task = asyncio.create_task(router.await_result(again.run_id, timeout=30))
        await asyncio.to_thread(reviewer.reject)
        return await task

    assert asyncio.run(act()).route is Route.ABSTAIN


def test_futures_and_polling(house):
    router, tools, reviewer = house
    first, second = deferred(router, tools), deferred(router, tools, unsure(arguments={"order": "B"}))
    assert router.poll(first.run_id) is None
    assert asyncio.run(router.apoll(first.run_id)) is None
    future, other = router.future(first.run_id), router.future(second.run_id)
    reviewer.approve(first.review_id)
    assert future.result(timeout=30).value == {"used": 1}
    assert router.poll(first.run_id).value == {"used": 1}
    router.close()
    with pytest.raises(CancelledError):
        other.result(timeout=30)
    with pytest.raises(ConfigurationError, match="closed"):
        router.future(second.run_id)


def test_waiting_ends_when_the_time_is_up(house, clock):
    from datetime import timedelta

    router, tools, _ = house
    waiting = deferred(router, tools, unsure(deadline=clock.now() + timedelta(seconds=5)))
    assert router.message_for(waiting).startswith("I have asked a person to check this")
    clock.advance(6)
    result = router.poll(waiting.run_id)
    assert (result.route, result.state) == (Route.ABSTAIN, RunState.DONE)
    assert router.message_for(result).startswith("Nobody could look at this in time")


def test_a_guarded_function_is_resumed_by_its_name_after_a_restart(make_router, scripted):
    paid = []

    def guarded(router):
        @router.guard(name="refund", side_effects="irreversible", idempotency_key=lambda order, amount: order)
        def refund(order, amount=1.0):
            paid.append((order, amount))
            return "paid"

        return refund

    with pytest.raises(Deferred) as waiting:
        guarded(make_router(scripted(), settings=SETTINGS))("A", amount=2.5)
    router = make_router(scripted(), settings=SETTINGS)
    refund = guarded(router)
    Reviewer(router).approve()
    assert [result.value for result in router.resume_all().values()] == ["paid"]
    assert router.resume(waiting.value.result.run_id).value == "paid"
    assert refund("A", amount=2.5) == "paid"
    assert paid == [("A", 2.5)]


def test_two_tools_of_one_name_are_refused(house):
    router, *_ = house

    def other(**_):
        return None

    with pytest.raises(ConfigurationError, match="two tools are called 'refund'"):
        router.register_tool(Tool("refund", run=other))


@pytest.mark.parametrize("text", ["{secret}", "{0}", "{review_id.__class__}", "{run_id[0]}", "{"])
def test_texts_for_users_hold_known_places_only(text):
    from demur import Settings

    with pytest.raises(ConfigurationError):
        Settings(waiting={"message": text})
    with pytest.raises(ConfigurationError):
        Settings(tasks={"a": {"waiting": {"rejected": text}}})


def test_texts_per_task(make_router, scripted):
    settings = {"tasks": {"shop": {"waiting": {"message": "Hold on ({review_id})."}}}, **SETTINGS}
    router = make_router(scripted([("x", -1.5)]), settings=settings, artefact=None)
    counted = Counted()
    result = router.run(unsure(task="shop"), tool=counted.tool)
    assert router.message_for(result) == f"Hold on ({result.review_id})."
    assert router.message_for(router.run(unsure("lookup"), tool=Counted("lookup").tool)).startswith(
        "I am not sure enough"
    )
