"""Waiting: nobody spins, a decision made here is heard at once, time-outs hold, futures share a thread."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from itertools import islice

import pytest

from demur import Call, ConfigurationError, Settings
from demur.core.decision import Route
from demur.core.errors import StillWaiting
from demur.core.run import RunState
from demur.review.bell import Bell, bell
from demur.router.site import Tool
from demur.router.waiting import Futures, await_result, heard_in, pauses, wait
from demur.testing import Reviewer

WAITS = StillWaiting("run_1", "rev_1")
SETTINGS = {"tools": {"refund": {"side_effects": "irreversible"}}}


class Time:
    """A clock and a way to pause that only moves it."""

    def __init__(self):
        self.now, self.slept = 0.0, []

    def monotonic(self):
        return self.now

    def pause(self, event, seconds):
        self.slept.append(seconds)
        self.now += seconds

    async def apause(self, event, seconds):
        self.pause(event, seconds)


def waited(kind, look, timeout, between, time):
    if kind == "sync":
        return wait(look, timeout, between, monotonic=time.monotonic, pause=time.pause)

    async def alook():
        return look()

    return asyncio.run(await_result(alook, timeout, between, monotonic=time.monotonic, pause=time.apause))


both = pytest.mark.parametrize("kind", ["sync", "async"])


def test_pauses_grow_to_the_longest():
    first = list(islice(pauses(0.05, 2.0), 20))
    assert first[:3] == pytest.approx([0.05, 0.075, 0.1125])
    assert first == sorted(first)
    assert first[-1] == 2.0


@both
def test_the_time_out_is_kept_to_the_end_and_says_what_waits(kind):
    time = Time()
    with pytest.raises(StillWaiting) as nobody:
        waited(kind, lambda: WAITS, 1.0, pauses(0.3, 5.0), time)
    assert (nobody.value.run_id, nobody.value.review_id) == ("run_1", "rev_1")
    assert time.slept == pytest.approx([0.3, 0.45, 0.25])
    none = Time()
    with pytest.raises(StillWaiting):
        waited(kind, lambda: WAITS, 0, pauses(0.3, 5.0), none)
    assert none.slept == []


@both
def test_without_a_time_out_it_waits_until_there_is_something(kind):
    time, found = Time(), iter([WAITS, WAITS, WAITS, "the result"])
    assert waited(kind, lambda: next(found), None, pauses(1.0, 4.0), time) == "the result"
    assert time.slept == pytest.approx([1.0, 1.5, 2.25])


@both
@pytest.mark.parametrize("timeout", [-1.0, float("nan"), "10", True])
def test_a_time_out_that_is_none_is_refused(kind, timeout):
    with pytest.raises(ConfigurationError, match="timeout"):
        waited(kind, lambda: WAITS, timeout, pauses(1.0, 4.0), Time())


@both
def test_a_ring_ends_the_pause(kind):
    """The pause is a minute; with the bell rung while it was looked, nothing is slept at all."""
    looks = []

    def look():
        looks.append(None)
        if len(looks) == 1:
            bell.ring()
            return WAITS
        return "the result"

    async def alook():
        return look()

    if kind == "sync":
        assert wait(look, None, iter([60.0])) == "the result"
    else:
        assert asyncio.run(await_result(alook, None, iter([60.0]))) == "the result"
    assert len(looks) == 2


def test_the_bell_forgets_who_has_left():
    own, heard = Bell(), []
    with own.heard_by(lambda: heard.append(1)), own.heard_by(lambda: heard.append(2)):
        own.ring()
    own.ring()
    assert heard == [1, 2]


def test_a_loop_that_is_gone_does_not_disturb_who_decides():
    loop, heard = asyncio.new_event_loop(), []
    loop.close()
    with bell.heard_by(heard_in(loop, asyncio.Event())), bell.heard_by(lambda: heard.append("the next one")):
        bell.ring()
    assert heard == ["the next one"]


def test_futures_share_one_thread_which_ends_with_them():
    looked, go = threading.Event(), threading.Event()
    names = set()

    def look(run_id):
        names.add(threading.current_thread().name)
        looked.set()
        return run_id.upper() if go.is_set() else StillWaiting(run_id, None)

    futures = Futures(look, lambda: pauses(60.0, 60.0))
    several = [futures.of(f"run_{number % 3}") for number in range(9)]
    assert looked.wait(30)
    go.set()
    bell.ring()
    assert {future.result(30) for future in several} == {"RUN_0", "RUN_1", "RUN_2"}
    assert names == {"demur-waiting"}
    futures.close()
    assert not any(thread.name == "demur-waiting" for thread in threading.enumerate())


def test_cancelled_futures_are_not_looked_at_any_more():
    looked, seen = [], threading.Event()

    def look(run_id):
        looked.append(run_id)
        seen.set()
        return StillWaiting(run_id, None)

    futures = Futures(look, lambda: pauses(60.0, 60.0))
    gone, stays = futures.of("gone"), futures.of("stays")
    assert seen.wait(30)
    assert gone.cancel()
    del looked[:]
    seen.clear()
    bell.ring()
    assert seen.wait(30)
    futures.close()
    # One look may have been under way already; the last one knew.
    assert looked[-1] == "stays"
    assert stays.cancelled()


def test_an_error_belongs_to_who_waits_for_that_run():
    def look(run_id):
        if run_id == "bad":
            raise OSError("no bank")
        return run_id

    futures = Futures(look, lambda: pauses(60.0, 60.0))
    bad, good = futures.of("bad"), futures.of("good")
    with pytest.raises(OSError, match="no bank"):
        bad.result(30)
    assert good.result(30) == "good"
    futures.close()


def deferred(router, order="A", **fields):
    call = Call(kind="tool", tool_name="refund", arguments={"order": order}, **fields)
    result = router.run(call, tool=Tool("refund", run=lambda order: f"paid {order}"))
    assert result.state is RunState.WAITING
    return result


@pytest.fixture
def router(make_router):
    made = make_router(settings={**SETTINGS, "waiting": {"poll_first": 50.0, "poll_longest": 50.0}})
    made.register_tool(Tool("refund", run=lambda order: f"paid {order}"))
    yield made
    made.close()


def test_a_decision_in_this_process_is_heard_at_once(router):
    """The pauses are 50 seconds: only the bell can have ended them."""
    run_ids = [deferred(router, order).run_id for order in "ABC"]
    futures = [router.future(run_id) for run_id in run_ids]
    results = []
    blocked = threading.Thread(target=lambda: results.append(router.wait(run_ids[0], timeout=40).value))
    blocked.start()

    async def act():
        task = asyncio.create_task(router.await_result(run_ids[1], timeout=40))
        for run_id in run_ids:
            await asyncio.to_thread(Reviewer(router).approve, run_id)
        return await task

    assert asyncio.run(act()).value == "paid B"
    blocked.join()
    assert results == ["paid A"]
    assert [future.result(40).value for future in futures] == ["paid A", "paid B", "paid C"]


def test_waiting_ends_safely_when_the_time_is_up(router, clock):
    run_id = deferred(router, deadline=clock.now() + timedelta(seconds=30)).run_id
    assert router.poll(run_id) is None
    clock.advance(31)
    result = router.wait(run_id, timeout=0)
    assert (result.route, result.state) == (Route.ABSTAIN, RunState.DONE)
    assert router.message_for(result) == Settings().waiting.expired


def test_who_only_looks_carries_nothing_out(router):
    run_id = deferred(router).run_id
    Reviewer(router).approve()
    assert router.poll(run_id, resume=False) is None
    with pytest.raises(StillWaiting, match="let through, and waits to be carried out"):
        router.wait(run_id, timeout=0, resume=False)
    assert router.log.get(run_id).state is RunState.WAITING
    assert router.poll(run_id).value == "paid A"
    assert router.poll(run_id, resume=False).value == "paid A"


def test_a_tool_may_be_handed_in_for_waiting(make_router):
    router = make_router(settings=SETTINGS)
    run_id = deferred(router).run_id
    Reviewer(router).approve()
    with pytest.raises(ConfigurationError, match="no tool of that name"):
        router.wait(run_id, timeout=0)
    assert router.wait(run_id, timeout=0, tool=Tool("refund", run=lambda order: 7)).value == 7


@pytest.mark.parametrize("poll", [0, -1.0, float("nan"), "1", True])
def test_a_pause_that_is_none_is_refused(router, poll):
    with pytest.raises(ConfigurationError, match="poll="):
        router.wait(deferred(router).run_id, timeout=0, poll=poll)


def test_pauses_of_the_settings_are_checked():
    with pytest.raises(ConfigurationError, match=r"poll_first=3.* must not be above poll_longest=2"):
        Settings(waiting={"poll_first": 3.0})


def test_a_run_left_by_a_dead_process_is_found_by_who_waits(router):
    run_id = deferred(router).run_id
    Reviewer(router).approve()
    router.log.resume(run_id, "localhost/999999999/1.00")  # of another machine: it may live
    assert router.poll(run_id) is None
    from demur.router.owner import this_process

    host = this_process().split("/")[0]
    with router.database.transaction() as connection:
        connection.exec_driver_sql("UPDATE runs SET owner = ? WHERE id = ?", (f"{host}/999999999/1.00", run_id))
    assert router.poll(run_id).value == "paid A"


def test_texts_for_users(make_router, scripted):
    texts = {"message": "wait {review_id} {run_id}", "abstained": "unsure", "rejected": "no", "expired": "late {{}}"}
    settings = {**SETTINGS, "waiting": texts, "tasks": {"shop": {"waiting": {"rejected": "sorry ({run_id})"}}}}
    router = make_router(scripted(), settings=settings, artefact=None)
    waiting = deferred(router, task="shop")
    assert router.message_for(waiting) == f"wait {waiting.review_id} {waiting.run_id}"
    Reviewer(router).reject(note="nobody decided by noon")
    rejected = router.resume(waiting.run_id)
    assert router.message_for(rejected) == f"sorry ({waiting.run_id})"
    assert asyncio.run(router.amessage_for(rejected)) == f"sorry ({waiting.run_id})"
    assert router.message_for(router.run(Call.ask("?"))) == "unsure"
    done = deferred(router, "B")
    Reviewer(router).respond("by hand")
    assert router.message_for(router.resume(done.run_id)) is None
    failed = deferred(router, "C")
    Reviewer(router).approve()

    def fails(order):
        raise OSError("no bank")

    with pytest.raises(OSError, match="no bank"):
        router.resume(failed.run_id, tool=Tool("refund", run=fails))
    assert router.message_for(router.resume(failed.run_id)) is None


@pytest.mark.parametrize("text", ["{review_id!r}", "{review_id:>9999}", "{}", "{Review_id}", "}", ""])
def test_places_with_a_twist_are_refused(text):
    with pytest.raises(ConfigurationError):
        Settings(waiting={"expired": text})
