"""Tools: judged by what proposed them, decided upon before they run, run at most once."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from datetime import timedelta

import pytest
from sqlalchemy import event, text

from demur import Call, ConfigurationError, StoreError
from demur.core.decision import Mode, Route
from demur.core.errors import EffectFailed, EffectUnknown
from demur.core.protocols import Generation
from demur.core.response import Response, TokenTrace
from demur.core.review_item import SafeEnd
from demur.core.run import EffectState, Run, RunState
from demur.router.owner import this_process
from demur.router.site import Tool

SURE, UNSURE = -0.02, -3.0


class Counted:
    """A tool's function that counts, and may look around while it runs."""

    def __init__(self, value="done", error=None, look=None):
        self.calls, self.value, self.error, self.look = [], value, error, look

    def __call__(self, **arguments):
        self.calls.append(arguments)
        if self.look is not None:
            self.look()
        if self.error is not None:
            raise self.error
        return self.value

    def tool(self, **options):
        return Tool("refund", run=self, **options)

    async def later(self, **arguments):
        await asyncio.sleep(0)
        return self(**arguments)


def refund(effects="irreversible", **fields):
    return Call(kind="tool", tool_name="refund", arguments={"order": "A"}, side_effects=effects, **fields)


def proposed(logprob):
    return Generation(Response(trace=TokenTrace(logprobs=(logprob,))))


def test_a_surely_proposed_tool_runs_and_is_stored_before_it_does(make_router, scripted, go):
    seen = []

    def look():
        (run,) = router.log.list()
        seen.append((run.rounds[0].decision.route, router.effects.get(run.id).state))

    router, function = make_router(scripted()), Counted({"paid": 1}, look=look)
    result = go(router, refund(), tool=function.tool(), proposal=proposed(SURE))
    assert (result.value, result.route, result.state) == ({"paid": 1}, Route.ANSWER, RunState.DONE)
    assert seen == [(Route.ANSWER, EffectState.STARTED)]
    assert function.calls == [{"order": "A"}]
    assert router.effects.get(result.run_id).state is EffectState.DONE
    assert result.response_id == router.log.get(result.run_id).rounds[0].response.id


@pytest.mark.parametrize("proposal", [None, UNSURE, float("nan"), float("-inf")])
def test_an_unsure_or_unknown_proposal_waits_for_a_human(make_router, scripted, go, proposal):
    router, function = make_router(scripted(), mode="shadow"), Counted()
    generation = None if proposal is None else proposed(proposal)
    result = go(router, refund(), tool=function.tool(), proposal=generation)
    assert (result.route, result.state, function.calls) == (Route.DEFER, RunState.WAITING, [])
    item = router.queue.get(result.review_id)
    assert (item.proposed, item.on_expiry, item.call.arguments) == (None, SafeEnd.REJECT, {"order": "A"})
    assert router.effects.get(result.run_id) is None


@pytest.mark.parametrize(("effects", "mode"), [("reversible", "shadow"), ("none", "advise")])
def test_what_can_be_taken_back_runs_in_shadow_and_advise(make_router, scripted, go, effects, mode):
    router, function = make_router(scripted(), mode=mode, artefact=None), Counted()
    result = go(router, refund(effects), tool=function.tool())
    assert (result.value, result.mode, len(function.calls)) == ("done", Mode(mode), 1)
    assert result.recommended is (Route.DEFER if effects == "reversible" else Route.ABSTAIN)


def test_irreversible_tools_are_loosened_in_the_settings_only(make_router, scripted, go):
    function = Counted()
    router = make_router(scripted(), settings={"irreversible": "shadow"})
    assert go(router, refund(), tool=function.tool()).value == "done"
    strict = make_router(scripted())
    with pytest.raises(ConfigurationError, match="irreversible"):
        go(strict, refund(), tool=function.tool(), mode=Mode.SHADOW)
    assert len(function.calls) == 1
    assert go(strict, refund("reversible"), tool=function.tool(), mode=Mode.SHADOW).value == "done"


def test_the_settings_can_make_a_tool_graver_than_the_call_says(make_router, scripted, go):
    router = make_router(scripted(), mode="shadow", settings={"tools": {"refund": {"side_effects": "irreversible"}}})
    function = Counted()
    assert go(router, refund("none"), tool=function.tool()).route is Route.DEFER
    assert function.calls == []


def test_without_side_effects_the_fallback_abstains(make_router, scripted, go):
    router, function = make_router(scripted(), artefact=None), Counted()
    result = go(router, refund("none"), tool=function.tool())
    assert (result.route, result.state, function.calls) == (Route.ABSTAIN, RunState.DONE, [])


def test_a_late_tool_does_not_run(make_router, scripted, clock, go):
    router, function = make_router(scripted()), Counted()
    late = refund(deadline=clock.now() - timedelta(seconds=1))
    assert go(router, late, tool=function.tool(), proposal=proposed(SURE)).route is Route.ABSTAIN
    assert function.calls == []


def test_a_tool_that_raises_fails_its_run_and_spends_its_key(make_router, scripted, go):
    router, function = make_router(scripted()), Counted(error=KeyError("no such order"))
    call = refund(idempotency_key="k")
    with pytest.raises(KeyError, match="no such order"):
        go(router, call, tool=function.tool(), proposal=proposed(SURE))
    (run,) = router.log.list()
    assert (run.state, router.effects.get("k").state) == (RunState.FAILED, EffectState.FAILED)
    again = go(router, call, tool=function.tool(), proposal=proposed(SURE))
    assert (again.state, again.value, again.delivered) == (RunState.FAILED, None, False)
    assert len(function.calls) == 1


def test_a_key_gives_the_stored_result_and_no_second_effect(make_router, scripted, go):
    router, function = make_router(scripted()), Counted({"paid": 1})
    results = [go(router, refund(idempotency_key="k"), tool=function.tool(), proposal=proposed(SURE)) for _ in range(3)]
    assert [result.value for result in results] == [{"paid": 1}] * 3
    assert {result.run_id for result in results} == {results[0].run_id}
    assert len(function.calls) == 1


def test_an_idempotent_tool_of_the_settings_runs_again_after_a_failure(make_router, scripted, go):
    router = make_router(scripted(), settings={"tools": {"refund": {"idempotent": True}}})
    function = Counted(error=TimeoutError("slow"))
    call = refund(idempotency_key="k")
    with pytest.raises(TimeoutError):
        go(router, call, tool=function.tool(), proposal=proposed(SURE))
    assert router.effects.get("k").state is EffectState.FAILED
    function.error = None
    run = router.log.start(Run(call=call.model_copy(update={"idempotency_key": None})), Mode.ENFORCE, this_process())
    arguments = ("k", run.id, "refund", call.arguments)
    with pytest.raises(EffectFailed):
        router.effects.run_once(*arguments, function, idempotent=False)
    assert router.effects.run_once(*arguments, function, idempotent=True) == "done"


def test_an_async_tool_is_awaited_and_a_sync_one_keeps_the_loop_free(make_router, scripted):
    function, threads = Counted(), []
    function.look = lambda: threads.append(threading.current_thread() is threading.main_thread())
    router = make_router(scripted(), settings={"irreversible": "shadow"})
    asyncio.run(router.arun(refund(), tool=Tool("refund", run=function, arun=function.later)))
    asyncio.run(router.arun(refund(), tool=function.tool()))
    assert threads == [True, False]


def test_a_full_disk_stops_the_tool(make_router, scripted, go):
    router, function = make_router(scripted()), Counted()
    go(router, refund("none"), tool=function.tool(), proposal=proposed(SURE))
    assert len(function.calls) == 1
    with router.database.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
    limit_pages(router.database, pages)
    big = refund(metadata={"filler": "x" * 200_000})
    with pytest.raises(StoreError, match="full"):
        go(router, big, tool=function.tool(), proposal=proposed(SURE))
    assert len(function.calls) == 1


@pytest.mark.parametrize("commit", [1, 2, 3, 4])
def test_a_disk_that_fills_up_at_any_commit_before_the_effect_stops_the_tool(
    make_router, scripted, go, monkeypatch, commit
):
    """Commits: start, round, intended, started, done, finish."""
    router, function = make_router(scripted()), Counted()
    fail_from(router.database, commit, monkeypatch)
    with pytest.raises(StoreError):
        go(router, refund(idempotency_key="k"), tool=function.tool(), proposal=proposed(SURE))
    assert function.calls == []


def test_a_disk_that_fills_up_during_the_effect_leaves_it_unknown(make_router, scripted, go, monkeypatch):
    router, function = make_router(scripted()), Counted()
    fail_from(router.database, 5, monkeypatch)
    with pytest.raises(EffectUnknown):
        go(router, refund(idempotency_key="k"), tool=function.tool(), proposal=proposed(SURE))
    assert len(function.calls) == 1


def test_a_disk_that_fills_up_after_the_effect_does_not_hide_its_result(make_router, scripted, go, monkeypatch):
    router, function = make_router(scripted()), Counted()
    fail_from(router.database, 6, monkeypatch)
    assert go(router, refund(idempotency_key="k"), tool=function.tool(), proposal=proposed(SURE)).value == "done"
    monkeypatch.undo()
    assert router.effects.get("k").state is EffectState.DONE


def limit_pages(database, pages):
    """No page more: the disk is full."""

    @event.listens_for(database.engine, "begin")
    def _(connection):
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")


def fail_from(database, number, monkeypatch):
    """From the `number`th writing commit on, nothing can be written any more."""
    dialect, commit, seen = database.engine.dialect, database.engine.dialect.do_commit, {}
    count = 0

    def counted(connection):
        nonlocal count
        driver = connection.driver_connection
        if driver.total_changes > seen.get(id(driver), 0):
            seen[id(driver)] = driver.total_changes
            count += 1
            if count >= number:
                raise sqlite3.OperationalError("database or disk is full")
        commit(connection)

    # What connections of the pool changed before does not count.
    with database.engine.connect() as connection:
        connection.execute(text("select 1"))
        driver = connection.connection.driver_connection
        seen[id(driver)] = driver.total_changes
    monkeypatch.setattr(dialect, "do_commit", counted)
