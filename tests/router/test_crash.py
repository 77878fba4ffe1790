"""kill -9 at every commit and inside the tool: the effect happens at most once, and every run comes to an end."""

import importlib.util
import multiprocessing
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import select

from demur.core.clock import SystemClock
from demur.core.database import Database
from demur.core.database.tables import runs
from demur.core.review_item import Resolution, ReviewKind, Verdict
from demur.core.run import EffectState, RunState
from demur.review.queue import ReviewQueue
from demur.router.effects import EffectLog
from demur.router.log import RunLog
from demur.router.recovery import recover

CHILD = Path(__file__).with_name("crash_child.py")
FORK = multiprocessing.get_context("fork")
COMMITS = 6  # start, round, intended, started, done, finish
POINTS = ["tool", *(f"{when}:{number}" for number in range(1, COMMITS + 1) for when in ("before", "after"))]


def arguments(folder, point, tool, kind="logs"):
    return [str(part) for part in (folder / "demur.db", folder / "counter", "key-1", point, tool, kind)]


@cache
def the_child():
    """Loaded, and its artefact fitted, once: forked processes start with that."""
    spec = importlib.util.spec_from_file_location("crash_child", CHILD)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.artefact()
    return module


def _tell(connection, folder, point, tool, kind):
    connection.send(the_child().main(*arguments(folder, point, tool, kind)))


def child(folder, point, tool="send_money", kind="logs"):
    """A process of its own, forked: it starts with everything loaded."""
    the_child()
    here, there = FORK.Pipe(duplex=False)
    process = FORK.Process(target=_tell, args=(there, folder, point, tool, kind))
    process.start()
    there.close()
    try:
        commits, value = here.recv()
    except EOFError:
        commits, value = None, None
    process.join()
    return SimpleNamespace(returncode=process.exitcode, commits=commits, value=value)


def times_it_happened(folder):
    counter = folder / "counter"
    return counter.stat().st_size if counter.exists() else 0


def states(database):
    with database.reading() as connection:
        return list(connection.execute(select(runs.c.state)).scalars())


@pytest.mark.parametrize("kind", ["logs", "router"])
def test_the_child_commits_as_often_as_the_points_say(tmp_path, kind):
    done = child(tmp_path, "none", kind=kind)
    assert (done.commits, done.value) == (COMMITS, {"ok": True, "n": 1})
    assert times_it_happened(tmp_path) == 1


def test_a_killed_interpreter_is_seen_from_another(tmp_path):
    """The same with interpreters of their own."""

    def run(point):
        command = [sys.executable, str(CHILD), *arguments(tmp_path, point, "send_money")]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert run("tool").returncode == -signal.SIGKILL
    database = Database(tmp_path / "demur.db")
    assert len(recover(database, SystemClock()).unknown) == 1
    assert run("none").stdout.strip().endswith("unknown")
    assert times_it_happened(tmp_path) == 1


@pytest.mark.parametrize("kind", ["logs", "router"])
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_run_ends_and_its_effect_never_happens_twice(tmp_path, point, kind):
    died = child(tmp_path, point, kind=kind)
    assert died.returncode == -signal.SIGKILL
    happened = times_it_happened(tmp_path)
    database = Database(tmp_path / "demur.db")
    report = recover(database, SystemClock())
    assert report.left == ()
    assert recover(database, SystemClock()).model_dump() == dict.fromkeys(report.model_dump(), ())
    queue, waiting = ReviewQueue(database, SystemClock()), []
    for state in states(database):
        assert state in ("done", "failed", "unknown")
    for run_id in report.unknown:
        waiting += queue.of_run(run_id)
    assert len(waiting) == len(report.unknown)
    assert all(item.kind is ReviewKind.EFFECT_UNKNOWN and "send_money" in item.reason for item in waiting)

    again = child(tmp_path, "none", kind=kind)
    assert again.returncode == 0
    assert times_it_happened(tmp_path) <= 1
    started, ended = point in ("after:4", "tool", "before:5"), point in ("after:5", "before:6", "after:6")
    assert bool(report.unknown) == started
    if started:
        # Nobody knows, so it is not run again, whether it had happened or not.
        assert times_it_happened(tmp_path) == happened
        assert again.value == "unknown"
    else:
        assert times_it_happened(tmp_path) == 1
        assert again.value == {"ok": True, "n": 1}
    if ended:
        assert happened == 1
        assert states(database) == ["done"]


@pytest.mark.parametrize(("verdict", "in_the_end"), [(Verdict.APPROVE, 1), (Verdict.REJECT, 1)])
def test_a_human_who_finds_out_settles_the_run(tmp_path, verdict, in_the_end):
    """Killed inside the tool (it did happen), or just before it (it did not): the human says which."""
    child(tmp_path, "tool" if verdict is Verdict.APPROVE else "after:4")
    database, clock = Database(tmp_path / "demur.db"), SystemClock()
    (run_id,) = recover(database, clock).unknown
    queue = ReviewQueue(database, clock)
    item = queue.claim("ada")
    assert item is not None
    queue.resolve(item.id, Resolution(verdict=verdict, reviewer="ada"), version=item.version)
    run, effect = RunLog(database, clock).get(run_id), EffectLog(database, clock).get("key-1")
    assert run is not None and effect is not None
    assert (run.state, effect.state) == (
        (RunState.DONE, EffectState.DONE) if verdict is Verdict.APPROVE else (RunState.FAILED, EffectState.FAILED)
    )
    assert child(tmp_path, "none").returncode == 0
    assert times_it_happened(tmp_path) == in_the_end


@pytest.mark.parametrize("kind", ["logs", "router"])
@pytest.mark.parametrize("point", ["after:4", "tool", "before:5"])
def test_a_tool_declared_idempotent_runs_again_under_its_key(tmp_path, point, kind):
    child(tmp_path, point, "set_value", kind)
    happened = times_it_happened(tmp_path)
    database = Database(tmp_path / "demur.db")
    assert len(recover(database, SystemClock(), idempotent_tools={"set_value"}).failed) == 1
    again = child(tmp_path, "none", "set_value", kind)
    assert again.value == {"ok": True, "n": 1}
    assert times_it_happened(tmp_path) == happened + 1
    assert sorted(states(database)) == ["done", "failed"]


ANSWER_COMMITS = 3  # start, round, finish
ANSWER_POINTS = [
    "tool",
    *(f"{when}:{number}" for number in range(1, ANSWER_COMMITS + 1) for when in ("before", "after")),
]


@pytest.mark.parametrize("point", ANSWER_POINTS)
def test_a_killed_model_call_fails_and_can_be_made_again(tmp_path, point):
    """ "tool" is while the model is being asked. There is no effect, so nothing is unknown."""
    assert child(tmp_path, point, kind="answer").returncode == -signal.SIGKILL
    database = Database(tmp_path / "demur.db")
    report = recover(database, SystemClock())
    assert (report.unknown, report.left) == ((), ())
    assert states(database) == {"before:1": [], "after:3": ["done"]}.get(point, ["failed"])
    again = child(tmp_path, "none", kind="answer")
    assert again.value == "Paris"
    assert set(states(database)) <= {"done", "failed"}
    assert again.commits == (0 if point == "after:3" else ANSWER_COMMITS)
