"""Threads, tasks and cancellation: every run has its own end."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from demur import Call
from demur.core.database import Database
from demur.core.decision import Mode
from demur.core.review_item import ReviewKind
from demur.core.run import EffectState, RunState
from demur.router.site import Tool

SURE, UNSURE = -0.02, -3.0


@pytest.fixture(params=["file", "memory"])
def database(request, tmp_path):
    return Database(":memory:" if request.param == "memory" else tmp_path / "many.db")


def check(router, results):
    assert len({result.run_id for result in results}) == 20
    runs = router.log.list(limit=100)
    assert [run.state for run in runs] == [RunState.DONE] * 20
    assert {run.call.question for run in runs} == {f"question {number}" for number in range(20)}
    assert {result.value for result in results} == {"Paris"}
    by_run = {run.id: run.result for run in runs}
    assert all(by_run[result.run_id] == result for result in results)


def test_twenty_threads(make_router, scripted, database):
    router = make_router(scripted(), database=database)
    with ThreadPoolExecutor(20) as pool:
        results = list(pool.map(lambda number: router.run(Call.ask(f"question {number}")), range(20)))
    check(router, results)


async def test_twenty_tasks(make_router, scripted, database):
    router = make_router(scripted(), database=database)
    check(router, await asyncio.gather(*(router.arun(Call.ask(f"question {number}")) for number in range(20))))


def test_twenty_threads_with_one_key_have_one_effect(make_router, scripted, database):
    from demur.core.errors import EffectBusy

    calls, router = [], make_router(scripted(), mode="shadow", database=database)
    call = Call(kind="tool", tool_name="pay", idempotency_key="k")

    def once(_):
        try:
            return router.run(call, tool=Tool("pay", run=lambda: calls.append(1))).state
        except EffectBusy:
            return RunState.OPEN

    with ThreadPoolExecutor(20) as pool:
        states = set(pool.map(once, range(20)))
    assert len(calls) == 1
    assert RunState.DONE in states
    assert states <= {RunState.DONE, RunState.OPEN}
    assert [run.state for run in router.log.list()] == [RunState.DONE]


class Hanging:
    """A model that answers only when told."""

    def __init__(self, scripted):
        self.asked = asyncio.Event()
        self.name, self.provides, self.fingerprint = scripted.name, scripted.provides, scripted.fingerprint

    async def agenerate(self, call, **options):
        self.asked.set()
        await asyncio.Event().wait()


async def test_cancelled_while_generating_the_run_fails(make_router, scripted):
    model = Hanging(scripted())
    router = make_router(scripted())
    router.model = model
    task = asyncio.create_task(router.arun(Call.ask("Capital?")))
    await model.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (run,) = router.log.list()
    assert (run.state, run.error) == (RunState.FAILED, "CancelledError: ")


async def test_a_timeout_fails_the_run(make_router, scripted):
    router = make_router(scripted())
    router.model = Hanging(scripted())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await router.arun(Call.ask("Capital?"))
    assert [run.state for run in router.log.list()] in ([RunState.FAILED], [])


@pytest.mark.parametrize("method", ["start", "record_round", "finish"])
async def test_cancelled_while_storing_no_run_is_left_open(make_router, scripted, monkeypatch, method):
    """The commit under way is finished, then the run is ended."""
    router = make_router(scripted())
    begun, go_on = asyncio.Event(), threading.Event()
    loop, original = asyncio.get_running_loop(), getattr(router.log, method)

    def slow(*arguments, **options):
        loop.call_soon_threadsafe(begun.set)
        assert go_on.wait(30)
        return original(*arguments, **options)

    monkeypatch.setattr(router.log, method, slow)
    task = asyncio.create_task(router.arun(Call.ask("Capital?")))
    await begun.wait()
    task.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    (run,) = router.log.list()
    assert run.state is (RunState.DONE if method == "finish" else RunState.FAILED)


async def test_cancelled_inside_a_tool_a_human_is_asked(make_router, scripted):
    begun, router = asyncio.Event(), make_router(scripted(), settings={"irreversible": "shadow"})

    async def pay():
        begun.set()
        await asyncio.Event().wait()

    call = Call(kind="tool", tool_name="pay", side_effects="irreversible", idempotency_key="k")
    task = asyncio.create_task(router.arun(call, tool=Tool("pay", run=print, arun=pay)))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (run,) = router.log.list()
    assert (run.state, router.effects.get("k").state) == (RunState.UNKNOWN, EffectState.UNKNOWN)
    assert [item.kind for item in router.queue.of_run(run.id)] == [ReviewKind.EFFECT_UNKNOWN]


def test_a_coroutine_that_nobody_awaits_any_more_ends_its_run(make_router, scripted):
    """As when a loop is shut down around it."""
    router, loop = make_router(scripted()), asyncio.new_event_loop()
    router.model = Hanging(scripted())
    coroutine = router.arun(Call.ask("Capital?"))
    loop.create_task(coroutine, name="left behind")
    loop.run_until_complete(router.model.asked.wait())
    coroutine.close()
    (run,) = router.log.list()
    assert (run.state, run.error) == (RunState.FAILED, "GeneratorExit: ")
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_interrupted_the_run_fails_and_the_interrupt_goes_on(make_router, scripted, error):
    router = make_router(scripted([error]))
    with pytest.raises(type(error)):
        router.run(Call.ask("Capital?"))
    assert [run.state for run in router.log.list()] == [RunState.FAILED]


def test_control_flow_of_a_graph_passes_through(make_router, scripted, retriever_of, go):
    interrupt = type("GraphInterrupt", (type("GraphBubbleUp", (Exception,), {"__module__": "langgraph.errors"}),), {})
    router = make_router(scripted([interrupt("ask the user")]))
    with pytest.raises(interrupt):
        go(router)
    from_retriever = make_router(scripted([("Rome", UNSURE)]), retriever=retriever_of(interrupt("wait")))
    with pytest.raises(interrupt):
        go(from_retriever)
    big = scripted([interrupt("wait")], name="big")
    with pytest.raises(interrupt):
        go(make_router(scripted([("Rome", UNSURE)]), larger={"big": big}))
    assert {run.state for run in router.log.list()} == {RunState.FAILED}


def test_a_step_that_raises_stop_iteration_is_an_error_like_any_other(make_router, scripted):
    router = make_router(scripted([StopIteration("nothing left")]))
    with pytest.raises(StopIteration, match="nothing left"):
        router.run(Call.ask("Capital?"))
    (run,) = router.log.list()
    assert (run.state, run.error) == (RunState.FAILED, "StopIteration: nothing left")


def test_modes_of_single_calls(make_router, scripted, go):
    router = make_router(scripted([("Rome", UNSURE)]))
    assert go(router, mode=Mode.SHADOW).value == "Rome"
    assert go(router).value is None
