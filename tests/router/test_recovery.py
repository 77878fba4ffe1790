"""Recovery: what each state of an effect means for a run whose process is dead; and several recoveries at once."""

import multiprocessing
import os
import threading
from datetime import UTC, datetime

import psutil
import pytest

from demur.core.call import Call, CallKind
from demur.core.clock import ManualClock
from demur.core.database import Database
from demur.core.decision import Decision, Mode, Route, Stage
from demur.core.errors import ConfigurationError
from demur.core.review_item import Resolution, ReviewKind, Verdict
from demur.core.run import EffectState, NotStored, Round, Run, RunState
from demur.review.queue import ReviewQueue
from demur.router.effects import EffectLog
from demur.router.log import RunLog
from demur.router.owner import is_alive, this_process
from demur.router.recovery import arecover, recover

DEAD = this_process().rsplit("/", 1)[0] + "/1.00"
ELSEWHERE = "another-host/1/1.00"
ARGUMENTS = {"n": 1}


@pytest.fixture
def clock():
    return ManualClock(datetime(2026, 11, 30, tzinfo=UTC))


@pytest.fixture
def database(tmp_path):
    return Database(tmp_path / "demur.db")


@pytest.fixture
def log(database, clock):
    return RunLog(database, clock)


@pytest.fixture
def effects(database, clock):
    return EffectLog(database, clock)


@pytest.fixture
def start(log):
    def make(owner=DEAD, key="k"):
        call = Call(kind=CallKind.TOOL, tool_name="pay", arguments=ARGUMENTS, idempotency_key=key)
        return log.start(Run(call=call), Mode.ENFORCE, owner).id

    return make


def advance(effects, run_id, *states, result=None):
    """Take the effect under "k" through its states."""
    for state in states:
        if state is EffectState.INTENDED:
            effects.intend("k", run_id, "pay", ARGUMENTS)
        elif state is EffectState.STARTED:
            effects.start("k", run_id)
        else:
            effects.finish("k", run_id, state, result, "it said no" if state is EffectState.FAILED else None)


STATES = (EffectState.INTENDED, EffectState.STARTED)


@pytest.mark.parametrize(
    ("states", "end", "effect_end"),
    [
        ((), "failed", None),
        (STATES[:1], "failed", EffectState.FAILED),
        (STATES, "unknown", EffectState.UNKNOWN),
        ((*STATES, EffectState.DONE), "done", EffectState.DONE),
        ((*STATES, EffectState.FAILED), "failed", EffectState.FAILED),
    ],
)
def test_what_each_state_comes_to(database, clock, log, effects, start, states, end, effect_end):
    run_id = start()
    advance(effects, run_id, *states, result={"paid": True})
    report = recover(database, clock)
    assert {name: ids for name, ids in report.model_dump().items() if ids} == {end: (run_id,)}
    run, effect = log.get(run_id), effects.get("k")
    assert run.state.value == end
    assert (effect and effect.state) == effect_end
    items = ReviewQueue(database, clock).of_run(run_id)
    assert [item.kind for item in items] == ([ReviewKind.EFFECT_UNKNOWN] if end == "unknown" else [])
    if end == "done":
        assert run.result.value == {"paid": True}
        assert run.result.delivered
    # The key is free exactly where nothing can have happened.
    assert (start(this_process()) != run_id) is (states in ((), STATES[:1]))


def test_a_freed_key_runs_and_a_spent_one_does_not(database, clock, effects, start):
    advance(effects, start(), *STATES[:1])
    recover(database, clock)
    assert effects.run_once("k", start(this_process()), "pay", ARGUMENTS, lambda: 5) == 5


def test_a_result_that_was_not_json_stays_openly_lost(database, clock, log, effects, start):
    run_id = start()
    advance(effects, run_id, *STATES, EffectState.DONE, result={1, 2})
    recover(database, clock)
    assert log.get(run_id).result.value == NotStored(type_name="set", text="{1, 2}")


def test_living_and_faraway_runs_are_left_alone_until_they_are_old(database, clock, log, start):
    mine, far = start(this_process(), "a"), start(ELSEWHERE, "b")
    assert recover(database, clock, orphan_after=100).left == (mine, far)
    clock.advance(100)
    assert recover(database, clock, orphan_after=100).failed == ()
    clock.advance(1)
    assert recover(database, clock, orphan_after=None).failed == ()
    assert recover(database, clock, orphan_after=100).model_dump(include={"failed", "left"}) == {
        "failed": (far,),
        "left": (mine,),
    }
    assert log.get(mine).state is RunState.OPEN
    for seconds in (0, -1, float("nan")):
        with pytest.raises(ConfigurationError, match="orphan_after"):
            recover(database, clock, orphan_after=seconds)


def test_an_approved_call_that_was_cut_off_before_its_effect_can_be_resumed_again(database, clock, log, effects, start):
    run_id = start()
    decision = Decision(
        call_id="call", run_id=run_id, round=0, stage=Stage.AFTER, mode=Mode.ENFORCE, route=Route.DEFER,
        reason="-", confidence=None, policy_id="p", draw=0.0,
    )  # fmt: skip
    round_ = Round(number=0, arm="answer", response=None, signals=(), confidence=None, decision=decision)
    review_id = log.record_round(run_id, round_)
    assert recover(database, clock).left == ()  # it waits; nobody needs to be alive for that
    queue = ReviewQueue(database, clock)
    item = queue.claim("ada")
    queue.resolve(review_id, Resolution(verdict=Verdict.APPROVE, reviewer="ada"), version=item.version)
    log.resume(run_id, DEAD)
    advance(effects, run_id, *STATES[:1])
    assert recover(database, clock).waiting == (run_id,)
    resumed = log.resume(run_id, this_process())
    assert effects.run_once("k", run_id, "pay", resumed.arguments, lambda: 1) == 1
    with database.transaction() as connection:
        connection.exec_driver_sql("UPDATE runs SET owner = ?", (DEAD,))
    assert recover(database, clock).done == (run_id,)


def test_an_exception_in_the_router_ends_a_run_as_a_crash_would(log, effects, start):
    unharmed, unsure, finished = start(key="a"), start(key="k"), start(key="c")
    advance(effects, unsure, *STATES)
    effects.run_once("c", finished, "pay", ARGUMENTS, lambda: 3)
    error = ValueError("out of luck")
    assert log.fail(unharmed, error) is RunState.FAILED
    assert log.get(unharmed).error == "ValueError: out of luck"
    assert log.fail(unsure, error) is RunState.UNKNOWN
    assert log.fail(finished, error) is RunState.DONE
    assert log.get(finished).result.value == 3


async def test_the_async_twin(database, clock, start):
    run_id = start()
    assert (await arecover(database, clock)).failed == (run_id,)


def _recover_in_a_process(path, barrier, answers):
    database = Database(path)
    barrier.wait()
    report = recover(database, ManualClock(datetime(2026, 11, 30, tzinfo=UTC)))
    answers.put((report.failed, report.unknown))


def test_processes_that_recover_at_once_share_the_runs_out(tmp_path, database, effects, start):
    runs = [start(key=f"k{number}") for number in range(30)]
    for number, run_id in enumerate(runs):
        effects.intend(f"k{number}", run_id, "pay", ARGUMENTS)
        if number % 2:
            effects.start(f"k{number}", run_id)
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(3), context.Queue()
    children = [
        context.Process(target=_recover_in_a_process, args=(tmp_path / "demur.db", barrier, answers)) for _ in range(3)
    ]
    for child in children:
        child.start()
    reports = [answers.get(timeout=60) for _ in children]
    for child in children:
        child.join()
    assert sorted(run for failed, _ in reports for run in failed) == sorted(runs[::2])
    assert sorted(run for _, unknown in reports for run in unknown) == sorted(runs[1::2])


def test_this_process_lives_and_others_are_told_apart():
    me = this_process()
    host, pid, started = me.split("/")
    assert int(pid) == os.getpid()
    assert is_alive(me) is True
    assert is_alive(f"{host}/{pid}/{float(started) - 5:.2f}") is False  # its number was given to us
    unused = max(psutil.pids()) + 1_000_000
    assert is_alive(f"{host}/{unused}/{started}") is False
    for other in (f"not-{host}/{pid}/{started}", "", "a/b", f"{host}/x/y", f"{host}/{pid}", f"{me}/more"):
        assert is_alive(other) is None


def test_a_child_is_another_owner_and_dead_once_it_ended():
    context = multiprocessing.get_context("fork")
    answers, done = context.Queue(), context.Event()

    def work():
        answers.put(this_process())
        done.wait(60)

    child = context.Process(target=work)
    child.start()
    owner = answers.get(timeout=60)
    assert owner != this_process()
    assert is_alive(owner) is True
    done.set()
    child.join(60)
    assert is_alive(owner) is False


def test_threads_share_their_process():
    seen = []
    thread = threading.Thread(target=lambda: seen.append(this_process()))
    thread.start()
    thread.join()
    assert seen == [this_process()]
