"""kill -9 in the middle of learning, and several processes learning at once: every outcome counts once."""

import multiprocessing
import os
import signal

import pytest

from demur import Call
from demur.core.clock import SystemClock
from demur.core.database import Database
from demur.core.outcome import Outcome, OutcomeSource
from demur.memory.episode_store import EpisodeStore
from demur.probes.calibration.online import OnlineCalibration
from demur.router.learning import online_store
from demur.router.learning.learning import Learning

FORK = multiprocessing.get_context("fork")
OUTCOMES, BATCH = 25, 10
COMMITS = 6  # three batches of the episodes, three of the calibration
POINTS = ["teach:1", "teach:7", "teach:13", *(f"{w}:{n}" for n in range(1, COMMITS + 1) for w in ("before", "after"))]


def learning_on(path):
    learning = Learning(Database(path), SystemClock(), refit_growth=0.0)
    for follower in (learning.online.follower, learning.episodes.follower):
        follower.batch = BATCH
    return learning


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def catch_up_and_die(path, point):
    """Catch up in this process until `point`: the Nth outcome taught, or before or after the Nth commit."""
    what, number = point.split(":")
    learning, count = learning_on(path), 0
    dialect, commit, teach = learning.database.engine.dialect, None, online_store.teach
    commit = dialect.do_commit
    writing = set()

    def counted_teach(state, row):
        nonlocal count
        teach(state, row)
        count += 1
        if count == int(number):
            die()

    def counted_commit(connection):
        nonlocal count
        driver = connection.driver_connection
        if (id(driver), driver.total_changes) in writing or driver.total_changes == 0:
            commit(connection)  # a view that only reads
            return
        writing.add((id(driver), driver.total_changes))
        count += 1
        if what == "before" and count == int(number):
            die()
        commit(connection)
        if what == "after" and count == int(number):
            die()

    if what == "teach":
        online_store.teach = counted_teach
    else:
        dialect.do_commit = counted_commit
    learning.catch_up()


@pytest.fixture
def graded(make_router, scripted, tmp_path):
    """A database with graded answers of which nothing was learned; and what should be learned of them."""
    router = make_router(scripted(), settings={"learning": {"refit_growth": 0.0}})
    told = OnlineCalibration()
    results = [router.run(Call.ask(f"question {number}")) for number in range(OUTCOMES)]
    for number, result in enumerate(results):
        right = number % 3 > 0
        outcome = Outcome(
            response_id=result.response_id, correct=right, source=OutcomeSource.TEST, graded_at=router.clock.now()
        )
        router.queue.outcomes.record(outcome)
        told.update(result.confidence.value, right, weight=1.0 / 0.02)
    router.close()
    return tmp_path / "demur.db", told.to_dict()


def check(path, told):
    learning = learning_on(path)
    learning.catch_up()
    ((_, state),) = learning.online.states()
    assert state.to_dict() == told
    episodes = EpisodeStore(learning.database).list(tenant=None)
    assert [episode.question for episode in episodes] == [f"question {number}" for number in range(OUTCOMES)]
    assert learning.catch_up() == 0
    learning.database.close()


def test_killed_anywhere_each_outcome_teaches_once(graded, tmp_path):
    path, told = graded
    whole = path.read_bytes()
    for point in POINTS:
        for name in ("demur.db-wal", "demur.db-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        path.write_bytes(whole)
        child = FORK.Process(target=catch_up_and_die, args=(path, point))
        child.start()
        child.join()
        assert child.exitcode == -signal.SIGKILL, point
        check(path, told)


def test_processes_that_learn_at_once_take_turns(graded):
    path, told = graded
    children = [FORK.Process(target=lambda: learning_on(path).catch_up()) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * 4
    check(path, told)


def test_killed_while_everything_is_made_again(graded):
    path, told = graded
    learning_on(path).catch_up()

    def rebuild_and_die():
        online_store.teach = lambda state, row: die()
        learning_on(path).rebuild()

    child = FORK.Process(target=rebuild_and_die)
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    check(path, told)
