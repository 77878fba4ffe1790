import io
import json
import shlex
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from demur.core.call import Call
from demur.core.clock import ManualClock
from demur.core.database import Database
from demur.core.database.tables import outcomes
from demur.core.decision import Decision, Mode, Route, Stage
from demur.core.errors import BadInput, ConfigurationError
from demur.core.outcome import Outcome, OutcomeSource
from demur.core.response import Response
from demur.core.run import Round, Run
from demur.integrations.cli.status import show, status_command
from demur.probes.artefact import Artefact
from demur.router.log import RunLog
from demur.router.settings import Settings
from demur.router.status import FittedOn, Status, TaskStatus, status

CLOCK = ManualClock()


@pytest.fixture
def database(tmp_path: Path):
    store = Database(tmp_path / "demur.db")
    yield store
    store.close()


@pytest.fixture
def ran(database: Database) -> Callable[..., str]:
    """Stores a run of one round and gives the id of its response."""
    log = RunLog(database, CLOCK)

    def store(route: Route = Route.ANSWER, *, propensity: float = 0.02, fallback: bool = False, **call: Any) -> str:
        run = log.start(Run(call=Call.ask("q", **call)), Mode.ENFORCE, "test")
        response = Response(text="a")
        decision = Decision(
            call_id=run.call.id,
            run_id=run.id,
            round=0,
            stage=Stage.AFTER,
            mode=Mode.ENFORCE,
            route=route,
            reason="because",
            confidence=None,
            fallback=fallback,
            policy_id="p",
            label_propensity=propensity,
            draw=0.5,
        )
        given = Round(number=0, arm="answer", response=response, signals=(), confidence=None, decision=decision)
        log.record_round(run.id, given)
        return response.id

    return store


@pytest.fixture
def grade(database: Database) -> Callable[..., None]:
    def store(
        response_id: str,
        right: bool,
        source: OutcomeSource = OutcomeSource.HUMAN,
        *,
        task: str | None = None,
        name: str = "ann",
        later: float = 0.0,
    ) -> None:
        at = CLOCK.now() + timedelta(seconds=later)
        outcome = Outcome(response_id=response_id, correct=right, source=source, source_name=name, graded_at=at)
        row = {
            "id": outcome.id,
            "response_id": response_id,
            "task": task,
            "is_right": right,
            "source": source.value,
            "source_name": name,
            "outcome": outcome.model_dump_json(),
            "graded_at": at,
            "change": 1,
            "revision": 0,
        }
        with database.transaction() as connection:
            connection.execute(outcomes.insert().values(row))

    return store


def only(found: Status) -> TaskStatus:
    (task,) = found.tasks
    return task


def test_an_empty_database_has_nothing_to_tell(database):
    found = status(database, Settings(), {})
    assert (found.tasks, found.waiting, found.mode, found.irreversible) == ((), 0, Mode.SHADOW, Mode.ENFORCE)


def test_a_configured_task_is_listed_before_its_first_run(database):
    task = only(status(database, Settings(tasks={"triage": {"mode": "advise"}}), {}))
    assert (task.task, task.mode, task.runs, task.right, task.wrong) == ("triage", Mode.ADVISE, 0, 0, 0)
    assert [(need.rarer, need.missing, need.of) for need in task.fitting] == [
        (10, 10, "either"),
        (25, 25, "either"),
        (100, 100, "either"),
        (200, 200, "either"),
    ]
    assert (task.guarantee.have, task.guarantee.need, task.guarantee.missing) == (0, 45, 45)
    assert task.next_steps == ("demur fit --data graded.jsonl --task triage --out triage-artefact",)


def test_runs_routes_and_the_queue_are_counted_by_task(database, ran):
    ran(task="a")
    ran(task="a", fallback=True)
    ran(Route.ABSTAIN, task="a")
    ran(Route.DEFER, task="b")
    a, b = status(database, Settings(), {}).tasks
    assert (a.task, a.runs, a.routes, a.fallbacks, a.waiting) == ("a", 3, {"answer": 2, "abstain": 1}, 1, 0)
    assert (b.task, b.runs, b.routes, b.waiting) == ("b", 1, {"defer": 1}, 1)
    assert b.next_steps[0] == "demur review next"


def test_a_response_has_one_grade_the_strongest_then_the_newest(database, ran, grade):
    judged = ran(task="t")
    grade(judged, True, OutcomeSource.HUMAN, later=0)
    grade(judged, False, OutcomeSource.JUDGE, later=60)
    corrected = ran(task="t")
    grade(corrected, True, name="ann", later=0)
    grade(corrected, False, name="bob", later=60)
    task = only(status(database, Settings(), {}))
    assert (task.right, task.wrong) == (1, 1)


def test_grades_without_a_run_count_for_the_task_they_name(database, grade):
    grade("imported-1", True, task="t")
    grade("imported-2", False, task="t")
    task = only(status(database, Settings(), {}))
    assert (task.right, task.wrong, task.guarantee.have, task.unweighable) == (1, 1, 0, 0)


def test_only_answered_rows_that_can_be_weighed_count_for_the_guarantee(database, ran, grade):
    for _ in range(3):
        grade(ran(task="t"), True)
    grade(ran(task="t", propensity=0.0), True)
    grade(ran(Route.DEFER, task="t", propensity=1.0), False)
    task = only(status(database, Settings(), {}))
    assert (task.right, task.wrong, task.unweighable) == (4, 1, 1)
    assert (task.guarantee.have, task.guarantee.errors, task.guarantee.need) == (3, 0, 45)
    other = only(status(database, Settings(), {}, alpha=0.1, delta=0.05))
    assert (other.guarantee.need, other.guarantee.missing) == (29, 26)


def test_an_error_among_the_answered_raises_what_is_needed(database, ran, grade):
    grade(ran(task="t"), False)
    assert only(status(database, Settings(), {})).guarantee.need == 77  # the binomial's smallest n for one error


def test_an_artefacts_labels_count_for_what_may_be_fitted(database):
    task = only(status(database, Settings(), {"t": FittedOn("art_1", right=150, wrong=120)}))
    assert (task.artefact_id, task.fitted_right, task.fitted_wrong) == ("art_1", 150, 120)
    assert task.allows == "hidden states"
    assert [(need.rarer, need.missing, need.of) for need in task.fitting] == [(200, 80, "wrong")]
    enough = only(status(database, Settings(), {"t": FittedOn("art_1", right=500, wrong=500)}))
    assert (enough.fitting, enough.next_steps) == ((), ())


def test_tenants_are_counted_apart(database, ran):
    ran(task="t", tenant="one")
    ran(Route.DEFER, task="t", tenant="two")
    task = only(status(database, Settings(), {}, tenant="one"))
    assert (task.runs, task.routes, task.waiting) == (1, {"answer": 1}, 0)


@pytest.mark.parametrize("levels", [{"alpha": 0.0}, {"delta": 1.0}, {"alpha": float("nan")}], ids=str)
def test_levels_that_mean_nothing_are_refused(database, levels):
    with pytest.raises(ConfigurationError):
        status(database, Settings(), {}, **levels)


def test_a_status_survives_json(database, ran):
    ran(task="t")
    found = status(database, Settings(), {})
    assert Status.model_validate_json(found.model_dump_json()) == found


# --- on the command line -----------------------------------------------------------------------------------------


def printed(found: Status) -> str:
    console = Console(file=io.StringIO(), width=200)
    show(found, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_tables_say_what_is_missing_and_how_to_get_there(database, ran, grade):
    for _ in range(3):
        grade(ran(task="triage"), True)
    ran(Route.DEFER, task="triage")
    text = printed(status(database, Settings(), {}))
    assert "answer 3, defer 1" in text
    assert "10 labels of wrong answers" in text
    assert "42 graded answered rows (3 of 45; 0 wrong so far)" in text
    assert "$ demur review next" in text
    assert "$ demur fit --data graded.jsonl --task triage --out triage-artefact" in text


def test_names_are_shown_as_text_and_quoted_for_the_shell(database, ran):
    task = "[bold]x[/]\x1b[31m; rm -rf '~'"
    ran(task=task)
    text = printed(status(database, Settings(), {}))
    assert "[bold]x[/]" in text
    assert "\x1b" not in text
    assert "--out bold-x-----31m--rm--rf-artefact" in text
    assert "--task '[bold]x[/]" in text
    assert shlex.split(status(database, Settings(), {}).tasks[0].next_steps[0])[5] == task


@pytest.fixture
def command() -> typer.Typer:
    app = typer.Typer()
    app.command()(status_command)
    return app


def test_the_command_prints_tables_or_json(command, database, ran, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran(task="a")
    ran(task="b")
    plain = CliRunner().invoke(command, [])
    assert plain.exit_code == 0, plain.output
    assert "What is known" in plain.output
    machine = CliRunner().invoke(command, ["--json", "--task", "b", "--database", str(tmp_path / "demur.db")])
    assert machine.exit_code == 0, machine.output
    assert [task["task"] for task in json.loads(machine.output)["tasks"]] == ["b"]


def test_the_artefact_named_in_the_settings_is_looked_into(command, database, tmp_path, monkeypatch):
    heads = {
        "answer/before": SimpleNamespace(labels=20, right=10),
        "answer/after": SimpleNamespace(labels=270, right=150),
    }
    fitted = SimpleNamespace(id="f" * 64, heads=heads)
    monkeypatch.setattr(Artefact, "load", lambda folder: fitted if folder == Path("fitted") else None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demur.toml").write_text("[tasks.t]\nartefact = 'fitted'\n")
    done = CliRunner().invoke(command, ["--json"])
    assert done.exit_code == 0, done.output
    (task,) = json.loads(done.output)["tasks"]
    assert (task["artefact_id"], task["fitted_right"], task["fitted_wrong"]) == ("f" * 64, 150, 120)


def test_asking_leaves_no_empty_database_behind(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused = CliRunner().invoke(command, [])
    assert isinstance(refused.exception, BadInput)
    assert list(tmp_path.iterdir()) == []
