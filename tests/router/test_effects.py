"""Effects: at most once for each key, in every state, in threads, and when cut off."""

import asyncio
import threading

import pytest
from sqlalchemy import text

from demur.core.call import Call, CallKind
from demur.core.clock import SystemClock
from demur.core.database import Database
from demur.core.decision import Mode
from demur.core.errors import BadInput, EffectBusy, EffectFailed, EffectUnknown, ResultNotStored, StoreError
from demur.core.review_item import ReviewKind
from demur.core.run import EffectState, Run, RunState
from demur.review.queue import ReviewQueue
from demur.router.effects import EffectLog
from demur.router.log import RunLog
from demur.router.owner import this_process

DEAD = this_process().rsplit("/", 1)[0] + "/1.00"  # this pid, but a process that started in 1970
ARGUMENTS = {"order": "A-17", "cents": 1250}


@pytest.fixture
def database(tmp_path):
    return Database(tmp_path / "demur.db")


@pytest.fixture
def effects(database):
    return EffectLog(database, SystemClock())


@pytest.fixture
def start(database):
    """start(tenant=..., owner=...): the id of a new open run."""

    def make(tenant="default", owner=None):
        call = Call(kind=CallKind.TOOL, tool_name="refund", arguments=ARGUMENTS, tenant=tenant)
        return RunLog(database, SystemClock()).start(Run(call=call), Mode.ENFORCE, owner or this_process()).id

    return make


class Tool:
    """Counts how often it is called."""

    def __init__(self, value=None, error=None):
        self.calls, self.value, self.error = 0, value, error

    def __call__(self):
        self.calls += 1
        if self.error is not None:
            raise self.error
        return self.value

    async def later(self):
        return self()


@pytest.fixture(params=["sync", "async"])
def once(request, effects):
    """once(key, run_id, tool, **options), by run_once or arun_once."""

    def call(key, run_id, tool, **options):
        arguments = options.pop("arguments", ARGUMENTS)
        if request.param == "sync":
            return effects.run_once(key, run_id, "refund", arguments, tool, **options)
        return asyncio.run(effects.arun_once(key, run_id, "refund", arguments, tool.later, **options))

    return call


@pytest.mark.parametrize("value", [None, 3, 1.5, "x", True, [1, {"a": None}], {"n": 3}, 2**80, "\ud800"])
def test_the_second_call_gets_the_stored_result(once, effects, start, value):
    tool = Tool(value)
    assert once("k", start(), tool) == value
    assert once("k", start(), tool) == value
    assert tool.calls == 1
    assert effects.get("k").state is EffectState.DONE


@pytest.mark.parametrize("value", [(1, 2), {1: 2}, {3}, object(), float("nan"), b"x"])
def test_a_result_that_is_not_json_is_given_once_and_openly_lost(once, start, value):
    tool = Tool(value)
    assert once("k", start(), tool) is value
    with pytest.raises(ResultNotStored) as caught:
        once("k", start(), tool)
    assert (caught.value.type_name, caught.value.text) == (type(value).__name__, repr(value))
    assert tool.calls == 1


def test_keys_are_the_tenant_s_own(once, start):
    tool = Tool(1)
    once("k", start("a"), tool)
    once("k", start("b"), tool)
    assert tool.calls == 2


def test_a_key_always_means_the_same(once, start):
    tool = Tool(1)
    once("k", start(), tool)
    assert once("k", start(), tool, arguments=dict(reversed(ARGUMENTS.items()))) == 1
    with pytest.raises(BadInput, match="other arguments"):
        once("k", start(), tool, arguments={})
    with pytest.raises(BadInput, match="of tenant"):
        once("k2", start(), tool, tenant="other")
    with pytest.raises(BadInput, match="no run"):
        once("k2", "run_none", tool)
    for key in ("", "x" * 201):
        with pytest.raises(BadInput, match="1 to 200"):
            once(key, start(), tool)
    assert tool.calls == 1


def test_a_tool_s_exception_is_its_report_and_the_key_stays_spent(once, effects, start):
    tool = Tool(error=TimeoutError("no answer " + "x" * 20_000))
    with pytest.raises(TimeoutError):
        once("k", start(), tool)
    stored = effects.get("k")
    assert (stored.state, stored.may_run_again) == (EffectState.FAILED, False)
    assert stored.error.startswith("TimeoutError: no answer") and len(stored.error) < 10_050
    with pytest.raises(EffectFailed, match="new key"):
        once("k", start(), tool)
    assert tool.calls == 1
    with pytest.raises(TimeoutError):
        once("k", start(), tool, idempotent=True)
    assert tool.calls == 2


def test_what_another_live_process_does_is_busy(once, effects, start):
    run_id = start()
    effects.intend("k", run_id, "refund", ARGUMENTS)
    with pytest.raises(EffectBusy, match="about to be run"):
        once("k", start(), Tool())
    effects.start("k", run_id)
    with pytest.raises(EffectBusy, match="is being run"):
        once("k", start(), Tool(), idempotent=True)


def test_what_a_dead_process_intended_runs_and_what_it_started_does_not(once, effects, start):
    effects.intend("intended", start(owner=DEAD), "refund", ARGUMENTS)
    tool, dead = Tool(1), start(owner=DEAD)
    assert once("intended", start(), tool) == 1
    effects.intend("started", dead, "refund", ARGUMENTS)
    effects.start("started", dead)
    with pytest.raises(EffectUnknown, match="human"):
        once("started", start(), tool)
    assert tool.calls == 1
    assert once("started", start(), tool, idempotent=True) == 1


def test_what_was_withdrawn_runs(once, effects, start):
    run_id = start()
    effects.intend("k", run_id, "refund", ARGUMENTS)
    effects.start("k", run_id)
    effects.withdraw("k", run_id)
    assert once("k", run_id, Tool(5)) == 5
    effects.withdraw("k", run_id)  # nothing to withdraw any more
    assert effects.get("k").state is EffectState.DONE


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), GeneratorExit()])
def test_an_interruption_is_no_report_and_goes_to_a_human(effects, database, start, error):
    tool, run_id = Tool(error=error), start()
    with pytest.raises(type(error)):
        effects.run_once("k", run_id, "refund", ARGUMENTS, tool)
    assert effects.get("k").state is EffectState.UNKNOWN
    assert RunLog(database, SystemClock()).get(run_id).state is RunState.UNKNOWN
    (item,) = ReviewQueue(database, SystemClock()).of_run(run_id)
    assert item.kind is ReviewKind.EFFECT_UNKNOWN
    assert item.due_at is None
    for part in (type(error).__name__, "refund", '"cents":1250', "'k'"):
        assert part in item.reason
    with pytest.raises(EffectUnknown):
        effects.run_once("k", start(), "refund", ARGUMENTS, tool)
    assert tool.calls == 1


def test_an_interrupted_idempotent_tool_needs_no_human(effects, database, start):
    run_id = start()
    with pytest.raises(KeyboardInterrupt):
        effects.run_once("k", run_id, "refund", ARGUMENTS, Tool(error=KeyboardInterrupt()), idempotent=True)
    assert effects.get("k").may_run_again
    assert ReviewQueue(database, SystemClock()).of_run(run_id) == []


async def test_cancelled_while_it_runs_nobody_knows(effects, database, start):
    began, run_id = asyncio.Event(), start()

    async def tool():
        began.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(effects.arun_once("k", run_id, "refund", ARGUMENTS, tool))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert effects.get("k").state is EffectState.UNKNOWN
    assert len(ReviewQueue(database, SystemClock()).of_run(run_id)) == 1


async def test_cancelled_before_it_is_called_it_is_withdrawn(effects, start, monkeypatch):
    tool, run_id, loop = Tool(1), start(), asyncio.get_running_loop()
    original = effects.start
    task = None

    def start_and_cancel(key, run):
        loop.call_soon_threadsafe(task.cancel)
        original(key, run)

    monkeypatch.setattr(effects, "start", start_and_cancel)
    task = asyncio.create_task(effects.arun_once("k", run_id, "refund", ARGUMENTS, tool.later))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert tool.calls == 0
    stored = effects.get("k")
    assert (stored.state, stored.may_run_again) == (EffectState.FAILED, True)


async def test_cancelled_while_done_is_written_it_is_done(effects, start, monkeypatch):
    tool, run_id, loop = Tool(1), start(), asyncio.get_running_loop()
    original = effects.finish
    task = None

    def finish_and_cancel(*arguments, **options):
        loop.call_soon_threadsafe(task.cancel)
        original(*arguments, **options)

    monkeypatch.setattr(effects, "finish", finish_and_cancel)
    task = asyncio.create_task(effects.arun_once("k", run_id, "refund", ARGUMENTS, tool.later))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await effects.aget("k")).state is EffectState.DONE


@pytest.mark.parametrize("same_run", [True, False])
def test_of_many_threads_one_runs_it(effects, start, same_run):
    tool, barrier, said = Tool(7), threading.Barrier(8), []
    shared = start()

    def work(run_id):
        barrier.wait()
        try:
            said.append(effects.run_once("k", run_id, "refund", ARGUMENTS, tool))
        except (EffectBusy, EffectUnknown) as error:
            said.append(type(error))

    threads = [threading.Thread(target=work, args=(shared if same_run else start(),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tool.calls == 1
    assert 7 in said and set(said) <= {7, EffectBusy}


@pytest.mark.parametrize("state", ["intended", "started"])
def test_a_store_that_fails_before_the_tool_stops_it(once, effects, database, start, state):
    """Refused writes stand for a full disk."""
    run_id, tool = start(), Tool(1)
    with database.transaction() as connection:
        action = "INSERT" if state == "intended" else "UPDATE"
        connection.execute(
            text(f"CREATE TRIGGER full BEFORE {action} ON effects BEGIN SELECT RAISE(FAIL, 'disk full'); END")
        )
    with pytest.raises(StoreError, match="disk full"):
        once("k", run_id, tool)
    assert tool.calls == 0


@pytest.mark.parametrize("error", [None, ValueError("tool")])
def test_a_store_that_fails_after_the_tool_does_not_call_that_nothing(once, database, effects, start, error):
    run_id, tool = start(), Tool(1, error)
    with database.transaction() as connection:
        connection.execute(
            text(
                "CREATE TRIGGER full BEFORE UPDATE ON effects WHEN NEW.state IN ('done', 'failed') "
                "BEGIN SELECT RAISE(FAIL, 'disk full'); END"
            )
        )
    with pytest.raises(EffectUnknown if error is None else ValueError) as caught:
        once("k", run_id, tool)
    assert error is None or "could not be stored" in caught.value.__notes__[0]
    assert effects.get("k").state is EffectState.STARTED
    # The router ends the run: a human is asked.
    assert RunLog(database, SystemClock()).fail(run_id, caught.value) is RunState.UNKNOWN
    assert len(ReviewQueue(database, SystemClock()).of_run(run_id)) == 1
    with pytest.raises(EffectUnknown):
        once("k", start(), tool)
    assert tool.calls == 1


def test_only_what_was_started_ends(effects, start):
    run_id = start()
    effects.intend("k", run_id, "refund", ARGUMENTS)
    with pytest.raises(EffectUnknown, match="intended"):
        effects.finish("k", run_id, EffectState.DONE, 1)
    with pytest.raises(BadInput, match="done or failed"):
        effects.finish("k", run_id, EffectState.UNKNOWN)
    effects.start("k", run_id)
    with pytest.raises(EffectBusy):
        effects.start("k", run_id)


def test_each_state_is_committed_before_the_next_thing_happens(database, effects, start):
    """Another connection sees `started` while the tool runs."""
    run_id, other = start(), EffectLog(Database(database.engine.url.database), SystemClock())
    seen = []
    effects.run_once("k", run_id, "refund", ARGUMENTS, lambda: seen.append(other.get("k").state))
    seen.append(other.get("k").state)
    assert seen == [EffectState.STARTED, EffectState.DONE]
