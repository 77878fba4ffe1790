"""`demur learn`: what the log taught, in a table, and everything made again on demand."""

from __future__ import annotations

import random

import pytest
import typer
from typer.testing import CliRunner

from demur import Call, Router, Settings
from demur.core.clock import SystemClock
from demur.core.database import Database
from demur.core.database.tables import learned
from demur.core.protocols import Fingerprint, Generation
from demur.core.response import Response, TokenTrace
from demur.integrations.cli.learn import figure_text, learn_command
from demur.memory.episode_store import EpisodeStore
from demur.router.learning.learning import Learning


class Model:
    """Its answers are right where it is sure of them."""

    name, provides = "scripted", frozenset()
    logprob = -0.1

    def fingerprint(self):
        return Fingerprint("scripted", "scripted", True, "", "")

    def generate(self, call, **_):
        trace = TokenTrace(logprobs=(self.logprob,))
        return Generation(Response(text=f"answer to {call.question}", trace=trace, model=self.name))


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """A database with sixty graded calls of two tasks, nothing learned from them yet."""
    path = tmp_path_factory.mktemp("learn") / "demur.db"
    model, draw = Model(), random.Random(4)
    router = Router(model, settings=Settings(learning={"refit_growth": 0.0}), database=path, seed=1)
    for number in range(60):
        model.logprob = -3.0 * draw.random()
        task = "[red]tasks[/red]" if number % 6 else "small"
        result = router.run(Call.ask(f"question {number} on {number**3}", task=task))
        router.record_outcome(result.response_id, model.logprob > -1.5, source="test")
    router.close()
    return path


def learn(*arguments):
    app = typer.Typer()
    app.command()(learn_command)
    return CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "200"})


def test_heads_are_fitted_and_shown_with_what_was_said_before(logged):
    done = learn("--database", logged)
    assert done.exit_code == 0, done.output
    assert "[red]tasks[/red]" in done.output  # a name is data
    assert "small" not in done.output  # ten rows are too few
    assert "Brier" in done.output
    assert "AUROC" in done.output
    assert "yes" in done.output
    learning = Learning(Database(logged), SystemClock(), refit_growth=0.0)
    (head,) = learning.heads.all()
    figures = head.report["figures"]
    assert figures["auroc"]["value"] > 0.9
    assert figures["auroc"]["low"] <= figures["auroc"]["value"] <= figures["auroc"]["high"]
    assert figures["brier"]["value"] == head.report["brier"] < head.report["brier_before"]
    assert figure_text(head.report, "brier") in done.output


def test_only_what_was_asked_for(logged):
    assert "Nothing to learn yet" in learn("--database", logged, "--task", "small").output
    assert "Nothing to learn yet" in learn("--database", logged, "--tenant", "nobody").output


def test_everything_can_be_made_again(logged):
    database = Database(logged)
    store = EpisodeStore(database)
    before = store.list(tenant=None)
    with database.transaction() as connection:
        connection.execute(learned.update().where(learned.c.name == "follower").values(through=0))
    done = learn("--database", logged, "--rebuild", "--task", "small")
    assert "60 changes of grades taken in." in done.output
    assert store.list(tenant=None) == before


def test_a_missing_database_is_not_made(tmp_path):
    done = learn("--database", tmp_path / "typo.db")
    assert done.exit_code != 0
    assert not (tmp_path / "typo.db").exists()


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ({"brier": 0.25}, "0.2500"),  # a head of an earlier version
        ({"figures": {"brier": {"value": None}}}, "–"),
        ({"figures": {"brier": {"value": 0.1, "low": None}}}, "0.1000"),
        ({"figures": {"brier": {"value": 0.1, "low": 0.05, "high": 0.2}}}, "0.1000 [0.0500, 0.2000]"),
    ],
)
def test_figures_say_their_interval_where_there_is_one(report, said):
    assert figure_text(report, "brier") == said
