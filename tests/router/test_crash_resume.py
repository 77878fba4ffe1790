"""kill -9 at every commit of deciding and resuming: the effect happens at most once, and every run comes to an end."""

import importlib.util
import itertools
import multiprocessing
import shutil
import signal
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from demur.core.call import Call
from demur.core.clock import SystemClock
from demur.core.database import Database
from demur.core.review_item import Resolution, ReviewKind, ReviewState, Verdict
from demur.core.run import RunState
from demur.review.queue import ReviewQueue

CHILD = Path(__file__).with_name("resume_child.py")
FORK = multiprocessing.get_context("fork")


def points(commits):
    return ["tool", *(f"{when}:{number}" for number in range(1, commits + 1) for when in ("before", "after"))]


# What is committed, in order; 0 is where nothing has happened yet, and the effect is between `started` and `done`.
APPROVED = ("taken", "intended", "started", "done", "finished")
EDITED = ("child started", "round", "intended", "started", "done", "both finished")


@cache
def the_child():
    spec = importlib.util.spec_from_file_location("resume_child", CHILD)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _tell(connection, arguments, barrier):
    connection.send(the_child().main(*arguments, barrier=barrier))


class Child:
    """A forked process that acts; `said()` is None where it was killed."""

    def __init__(self, house, point, act, barrier=None):
        the_child()
        self._here, there = FORK.Pipe(duplex=False)
        arguments = (str(house.path), str(house.counter), house.run_id, point, act)
        self._process = FORK.Process(target=_tell, args=(there, arguments, barrier))
        self._process.start()
        there.close()

    def said(self):
        try:
            said = self._here.recv()
        except EOFError:
            said = None
        self._process.join()
        assert self._process.exitcode == (-signal.SIGKILL if said is None else 0)
        return said


class House:
    """A database with one call that waits, in the state that a test wants."""

    def __init__(self, folder, run_id):
        self.path, self.counter, self.run_id = folder / "demur.db", folder / "counter", run_id
        self.database = Database(self.path)

    @property
    def queue(self):
        return ReviewQueue(self.database, SystemClock())

    def decide(self, **parts):
        item = self.queue.claim("ada")
        assert item is not None
        self.queue.resolve(item.id, Resolution(reviewer="ada", **parts), version=item.version)

    def times(self):
        return self.counter.stat().st_size if self.counter.exists() else 0

    def router(self):
        """A new process' router: recovers what dead ones left, and knows the tools."""
        return the_child().router_of(self.database, str(self.counter))

    def check_end(self, router):
        """Every run has ended; where nobody knows, a human is asked; nothing happened twice."""
        for run in router.log.list():
            assert run.state in (RunState.DONE, RunState.UNKNOWN, RunState.FAILED), run.state
            if run.state is RunState.UNKNOWN and run.parent_id is None and router.log.child_of(run.id) is None:
                kinds = [item.kind for item in self.queue.of_run(run.id)]
                assert ReviewKind.EFFECT_UNKNOWN in kinds
        assert self.times() <= 1


def build(folder, edit, approve, answer):
    """The run's id."""
    database = Database(folder / "demur.db")
    router = the_child().router_of(database, str(folder / "counter"))
    if answer:
        waiting = router.run(Call.ask("Capital?"), model=Answering())
    else:
        call = Call(kind="tool", tool_name="refund", arguments={"n": 1}, conversation_id="c1")
        waiting = router.run(call, tool=router.resumer.tools["refund"])
    assert waiting.state is RunState.WAITING
    house = House(folder, waiting.run_id)
    if edit is not None:
        house.decide(verdict=Verdict.EDIT, tool_name=edit, arguments={"n": 2})
    elif approve:
        house.decide(verdict=Verdict.APPROVE)
    house.database.close()
    router.close()
    return waiting.run_id


BUILT = {}


@pytest.fixture
def make_house(tmp_path, tmp_path_factory):
    """make_house(edit=None, approve=True, answer=False): each kind is built once and copied."""
    number = itertools.count()

    def make(*, edit=None, approve=True, answer=False):
        kind = (edit, approve, answer)
        if kind not in BUILT:
            folder = tmp_path_factory.mktemp("house")
            BUILT[kind] = folder, build(folder, *kind)
        built, run_id = BUILT[kind]
        folder = tmp_path / str(next(number))
        shutil.copytree(built, folder)
        return House(folder, run_id)

    return make


class Answering:
    name, provides = "m", frozenset()

    def fingerprint(self):
        from demur.core.protocols import Fingerprint

        return Fingerprint("m", "m", True, "", "")

    def generate(self, call, **options):
        from demur.core.protocols import Generation
        from demur.core.response import Response

        return Generation(Response(text="Paris"))


def began(point, commits):
    """Is `started` committed at this point, and `done` not?"""
    if point == "tool":
        return True
    when, number = point.split(":")
    done = int(number) - (when == "before")
    return done == commits.index("started") + 1


def after_effect(point, commits):
    return point != "tool" and int(point.split(":")[1]) - point.startswith("before") > commits.index("started") + 1


@pytest.mark.parametrize("point", points(len(APPROVED)))
def test_killed_while_it_carries_out_what_was_approved(make_house, point):
    house = make_house()
    assert Child(house, point, "resume").said() is None
    happened = house.times()
    router = house.router()
    ended = router.resume_all()
    house.check_end(router)
    if began(point, APPROVED):
        assert router.resume(house.run_id).state is RunState.UNKNOWN
        assert house.times() == happened
    else:
        assert router.resume(house.run_id).value == {"used": {"n": 1}}
        assert house.times() == 1
    assert bool(ended) == (not began(point, APPROVED) and not after_effect(point, APPROVED))
    assert Child(house, "none", "resume").said() in ("done", "unknown")
    assert house.times() <= 1


@pytest.mark.parametrize("point", points(len(EDITED)))
def test_killed_while_it_carries_out_what_an_edit_made_of_it(make_house, point):
    house = make_house(edit="lookup")
    assert Child(house, point, "resume").said() is None
    happened = house.times()
    router = house.router()
    router.resume_all()
    result = router.resume(house.run_id)
    child = router.log.child_of(house.run_id)
    if began(point, EDITED):
        assert (result.state, house.times()) == (RunState.UNKNOWN, happened)
        (item,) = [each for each in house.queue.list() if each.kind is ReviewKind.EFFECT_UNKNOWN]
        assert item.run_id == child.id
        # A human finds out that it did happen: both runs end with that.
        claimed = house.queue.claim("bob", item_id=item.id)
        house.queue.resolve(item.id, Resolution(verdict=Verdict.APPROVE, reviewer="bob"), version=claimed.version)
        assert router.resume(house.run_id).state is RunState.DONE
    else:
        assert (result.value, result.run_id, house.times()) == ({"used": {"n": 2}}, house.run_id, 1)
    house.check_end(router)
    assert child.parent_id == house.run_id
    assert router.log.get(house.run_id).state is router.log.get(child.id).state


@pytest.mark.parametrize("point", [each for each in points(3) if each != "tool"])
def test_killed_while_the_edit_is_gated_again(make_house, point):
    """Commits: the child's start, its round with its review, its cost."""
    house = make_house(edit="delete")
    assert Child(house, point, "resume").said() is None
    router = house.router()
    assert router.resume_all() == {}
    waiting = router.log.get(house.run_id)
    (item,) = [each for each in house.queue.list() if each.state is ReviewState.OPEN]
    assert (waiting.state, waiting.result.review_id, item.call.tool_name) == (RunState.WAITING, item.id, "delete")
    assert house.times() == 0
    house.decide(verdict=Verdict.APPROVE)
    assert router.resume(house.run_id).value == {"used": {"n": 2}}
    house.check_end(router)
    assert house.times() == 1


@pytest.mark.parametrize("point", points(len(APPROVED)))
def test_killed_while_it_carries_out_what_the_second_look_let_through(make_house, point):
    house = make_house(edit="delete")
    assert Child(house, "none", "resume").said() == "waiting"
    house.decide(verdict=Verdict.APPROVE)
    assert Child(house, point, "resume").said() is None
    router = house.router()
    router.resume_all()
    house.check_end(router)
    result = router.resume(house.run_id)
    assert result.state is (RunState.UNKNOWN if began(point, APPROVED) else RunState.DONE)
    assert router.log.get(house.run_id).state is router.log.child_of(house.run_id).state


@pytest.mark.parametrize("answer", [False, True])
@pytest.mark.parametrize("point", ["before:1", "after:1", "before:2", "after:2"])
def test_killed_while_a_reviewer_decides(make_house, point, answer):
    """Commits: claim; resolve. The decision, its grade and what it makes of the run come together, or not at all."""
    house = make_house(approve=False, answer=answer)
    assert Child(house, point, "approve").said() is None
    (item,) = house.queue.of_run(house.run_id)
    decided = point == "after:2"
    expected = ReviewState.RESOLVED if decided else ReviewState.OPEN if point == "before:1" else ReviewState.CLAIMED
    assert item.state is expected
    grades = house.queue.outcomes.counts()
    assert grades.right == (1 if decided and answer else 0)  # without a proposal a tool call has no response to grade
    router = house.router()
    run = router.log.get(house.run_id)
    assert run.state is (RunState.DONE if decided and answer else RunState.WAITING)
    assert router.log.resumable() == ((house.run_id,) if decided and not answer else ())
    if decided and answer:
        assert run.result.value == "Paris"


def test_killed_while_it_expires(make_house):
    for point in ("before:1", "after:1"):
        house = make_house(approve=False)
        with house.database.transaction() as connection:
            connection.exec_driver_sql("UPDATE review_items SET due_at = '2026-01-01T00:00:00.000000+00:00'")
        assert Child(house, point, "expire").said() is None
        (item,) = house.queue.of_run(house.run_id)
        router = house.router()
        if point == "before:1":
            assert (item.state, router.log.get(house.run_id).state) == (ReviewState.OPEN, RunState.WAITING)
        assert router.poll(house.run_id).delivered is False
        house.check_end(router)
        assert house.times() == 0


@pytest.mark.parametrize("edit", [None, "lookup"])
@pytest.mark.parametrize("act", ["resume", "wait"])
def test_four_processes_race_to_resume(make_house, edit, act):
    house = make_house(edit=edit)
    barrier = FORK.Barrier(4)
    children = [Child(house, "none", act, barrier) for _ in range(4)]
    said = [child.said() for child in children]
    assert house.times() == 1
    assert set(said) <= {"done", "still waiting"}
    assert "done" in said
    if act == "wait":
        assert said == ["done"] * 4
    router = house.router()
    house.check_end(router)
    assert router.resume(house.run_id).state is RunState.DONE


@pytest.mark.parametrize(
    ("edit", "point"),
    [
        *itertools.product([None], ["tool", "after:1", "after:2", "after:3", "after:4"]),
        *itertools.product(["lookup"], ["tool", "after:1", "after:2", "after:3", "after:5"]),
    ],
)
def test_one_dies_and_the_other_goes_on_waiting(make_house, edit, point):
    """The second waits in a process of its own from the start; whatever the first one leaves, it comes to an end."""
    house = make_house(edit=edit)
    barrier = FORK.Barrier(2)
    first, second = Child(house, point, "resume", barrier), Child(house, "none", "wait", barrier)
    died, ended = first.said(), second.said()
    assert died in (None, "done", "still waiting")
    assert ended in ("done", "unknown")
    router = house.router()
    house.check_end(router)
    assert router.log.get(house.run_id).state.value == ended


def test_a_decision_and_the_end_of_time_race(make_house):
    """Whoever is first wins whole: never a resolution with an expired run, nor an expiry with an approved one."""
    for _ in range(6):
        house = make_house(approve=False, answer=True)
        item = house.queue.claim("ada")
        with house.database.transaction() as connection:
            connection.exec_driver_sql("UPDATE review_items SET due_at = '2100-01-01T00:00:00.000000+00:00'")
        start, tries = FORK.Barrier(2), SimpleNamespace(here=None)
        racer = FORK.Process(target=_expire, args=(str(house.path), start))
        racer.start()
        start.wait()
        try:
            house.queue.resolve(item.id, Resolution(verdict=Verdict.APPROVE, reviewer="ada"), version=item.version)
            tries.here = "resolved"
        except Exception as error:  # which one is what the test is about
            tries.here = type(error).__name__
        racer.join()
        (stored,) = house.queue.of_run(house.run_id)
        run = house.router().log.get(house.run_id)
        if tries.here == "resolved":
            assert (stored.state, run.result.value) == (ReviewState.RESOLVED, "Paris")
            assert house.queue.outcomes.counts().right == 1
        else:
            assert tries.here == "StaleItem"
            assert (stored.state, run.result.value) == (ReviewState.EXPIRED, None)
            assert house.queue.outcomes.counts().right == 0
        assert run.state is RunState.DONE


def _expire(path, start):
    """With a clock that is past the due time."""
    from datetime import UTC, datetime

    from demur.core.clock import ManualClock

    queue = ReviewQueue(Database(path), ManualClock(datetime(2101, 1, 1, tzinfo=UTC)))
    start.wait()
    queue.expire_due()
