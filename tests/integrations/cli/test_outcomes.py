"""`demur outcomes`: grades in, grades taken back, grades looked at; whole files or nothing."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from demur import Call, Router, Settings
from demur.core.database import Database
from demur.core.database.outcome_log import OutcomeLog
from demur.core.outcome import Outcome, OutcomeSource
from demur.integrations.cli.main import main
from demur.testing import ScriptedModel

HOSTILE = "[bold]t[/]\x1b[2J\u202e"
EARLY = "2026-01-05T12:00:00+00:00"


@pytest.fixture
def answered(tmp_path, monkeypatch):
    """The ids of five responses in the log of `demur.db`, which is here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "250")
    settings = Settings(database="demur.db", learning={"refit_growth": 0.0})
    router = Router(ScriptedModel(["Paris"] * 5, name="small"), settings=settings)
    ids = [router.run(Call.ask(f"q{number}", task=HOSTILE)).response_id for number in range(5)]
    router.close()
    Path("demur.toml").write_text("database = 'demur.db'\n[learning]\nrefit_growth = 0.0\n")
    return ids


@pytest.fixture
def log(answered):
    return OutcomeLog(Database("demur.db"))


@pytest.fixture
def demur(monkeypatch, capsys):
    """Run `demur outcomes ...`: (exit code, what it said)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["demur", "outcomes", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return ended.value.code or 0, said.out + said.err

    return run


def written(*rows):
    Path("grades.jsonl").write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return "grades.jsonl"


def test_a_file_is_imported_and_a_second_time_changes_nothing(demur, answered, log):
    a, b, c, *_ = answered
    data = written(
        {"response_id": a, "correct": True},
        "",
        {"response_id": b, "correct": 0, "corrected_answer": "Rome", "graded_at": "2026-01-05T12:00:00"},
        {"response_id": c, "score": 0.4, "cut": 0.5, "source": "judge", "source_name": "big", "label_propensity": 0.3},
    )
    code, said = demur("import", "--data", data, "--source-name", "ada")
    assert (code, "3 grades stored, 0 were known, 0 of unknown" in said) == (0, True), said
    assert "Learned from 3 changes" in said
    outcome = log.effective(b)
    assert (outcome.is_right, outcome.corrected_answer, outcome.source_name) == (False, "Rome", "ada")
    assert outcome.graded_at == datetime(2026, 1, 5, 12, tzinfo=UTC)
    assert log.effective(a).label_propensity == 0.02
    assert (log.effective(c).source, log.effective(c).label_propensity) == (OutcomeSource.JUDGE, 0.3)
    spent = log.last_change()
    code, said = demur("import", "--data", data, "--source-name", "ada")
    assert (code, "0 grades stored, 3 were known" in said, log.last_change()) == (0, True, spent)


BAD = {
    "no JSON": ("{", "line 2: "),
    "a list": ([1], "line 2: expected an object, found list"),
    "an unknown key": ({"response_id": "r", "correct": True, "grade": 1}, "line 2: unknown key 'grade'"),
    "no response": ({"correct": True}, "line 2: response_id is missing"),
    "no grade": ({"response_id": "r"}, "line 2: Value error, an outcome needs"),
    "no cut": ({"response_id": "r", "score": 0.5}, "named cut"),
    "a word for a grade": ({"response_id": "r", "correct": "no"}, "line 2: correct='no' must be true or false"),
    "a number for a grade": ({"response_id": "r", "correct": 2}, "line 2: correct=2 must be true or false"),
    "a list for a grade": ({"response_id": "r", "correct": []}, "line 2: correct=[] must be true or false"),
    "NaN": ('{"response_id": "r", "score": NaN, "cut": 0.5}', "line 2: score"),
    "text for a score": ({"response_id": "r", "score": "1", "cut": 0.5}, "line 2: score='1' must be a number"),
    "a propensity above 1": ({"response_id": "r", "correct": True, "label_propensity": 2}, "line 2: label_propensity"),
    "a source": ({"response_id": "r", "correct": True, "source": "oracle"}, "line 2: source='oracle' is not one of"),
    "the model itself": ({"response_id": "r", "correct": True, "source": "self"}, "own verdict"),
    "a long name": ({"response_id": "r", "correct": True, "source_name": "x" * 201}, "at most 200"),
    "no time": ({"response_id": "r", "correct": True, "graded_at": "yesterday"}, "line 2: 'yesterday' is no time"),
    "a number for a time": ({"response_id": "r", "correct": True, "graded_at": 17}, "graded_at=17 must be text"),
    "the future": ({"response_id": "r", "correct": True, "graded_at": "2999-01-01"}, "has not come yet"),
    "a surrogate": ('{"response_id": "r", "correct": true, "corrected_answer": "\\ud800"}', "line 2: "),
}


@pytest.mark.parametrize(("row", "said"), BAD.values(), ids=BAD)
def test_one_bad_line_keeps_the_whole_file_out(demur, answered, log, row, said):
    data = written({"response_id": answered[0], "correct": True}, row)
    code, told = demur("import", "--data", data)
    assert (code, said in told, "nothing is imported" in told) == (2, True, True), told
    assert log.last_change() == 0


def test_every_bad_line_is_named(demur, answered):
    rows = [{"response_id": answered[0], "correct": True}, *[{"response_id": ""}] * 13, {"correct": True}]
    rows += [{"response_id": answered[1], "correct": True}, "{"]
    code, said = demur("import", "--data", written(*rows))
    assert code == 2
    assert all(f"line {number}: " in said for number in range(2, 12))
    assert "and 5 more lines: 12–15, 17" in said


def test_lines_that_contradict_each_other_are_refused(demur, answered, log):
    one = {"response_id": answered[0], "correct": True}
    code, said = demur("import", "--data", written(one, one, one | {"correct": False}))
    assert (code, "line 3: contradicts line 1" in said) == (2, True)
    dated = [one | {"graded_at": EARLY}, one | {"correct": False, "graded_at": "2026-01-06"}]
    assert demur("import", "--data", written(*reversed(dated)))[0] == 0
    assert log.effective(answered[0]).is_right is False


def test_unknown_responses_are_refused_or_left_out_and_counted(demur, answered, log):
    data = written(
        {"response_id": answered[0], "correct": True},
        {"response_id": "resp_\x1b[31mtypo", "correct": True},
        {"response_id": "run_1", "correct": True},
    )
    code, said = demur("import", "--data", data)
    assert (code, log.last_change()) == (2, 0)
    assert "line 2: no response" in said and "line 3: no response 'run_1'" in said and "--skip-unknown" in said
    assert "\x1b" not in said
    code, said = demur("import", "--data", data, "--skip-unknown")
    assert (code, "1 grades stored, 0 were known, 2 of unknown responses left out" in said) == (0, True)


def test_the_model_that_answered_is_no_judge_of_it(demur, answered, log):
    data = written(
        {"response_id": answered[0], "correct": True},
        {"response_id": answered[1], "correct": True, "source": "judge", "source_name": "Small"},
    )
    code, said = demur("import", "--data", data)
    assert (code, "own verdict never counts" in said, log.last_change()) == (2, True, 0)


def test_files_that_are_none_are_refused(demur, answered):
    assert demur("import", "--data", "nowhere.jsonl")[0] == 2
    assert demur("import", "--data", written("", " "))[0] == 2
    Path("binary.jsonl").write_bytes(b"\xff\xfe\x00")
    assert demur("import", "--data", "binary.jsonl")[0] == 2
    assert demur("import", "--data", written({"response_id": answered[0], "correct": True}), "--source", "me")[0] == 2
    assert demur("import", "--data", "grades.jsonl", "--database", "other.db")[0] == 2
    assert not Path("other.db").exists()


def test_a_long_file_shows_a_bar(demur, answered, log):
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        {
            "response_id": answered[number % 5],
            "correct": True,
            "graded_at": (start + timedelta(number)).isoformat()[:10],
        }
        for number in range(300)
    ]
    code, said = demur("import", "--data", written(*rows, *rows, *rows, *rows, *rows, *rows, *rows))
    assert (code, "2100/2100" in said) == (0, True), said
    assert log.counts().right == 5


@pytest.fixture
def wrong_grader(answered, log):
    """A rule that graded three responses on two days, over a judge's word about the first."""
    at = datetime(2026, 1, 5, 12, tzinfo=UTC)
    log.record(Outcome(response_id=answered[0], correct=True, source="judge", source_name="big", graded_at=at))
    for days, response in ((0, answered[0]), (1, answered[1]), (1, answered[2])):
        when = at + timedelta(days)
        log.record(Outcome(response_id=response, correct=False, source="rule", source_name="regex", graded_at=when))
    return answered


def test_a_wrong_grader_is_taken_back_and_stays_so(demur, wrong_grader, log):
    a, b, c, *_ = wrong_grader
    code, said = demur("retract", "--source", "rule", "--since", "2026-01-05", "--dry-run")
    assert (code, "3 of task [bold]t[/]⟨U+001B⟩[2J⟨U+202E⟩, tenant default" in said) == (0, True), said
    assert "3 grades of rule since 2026-01-05 00:00:00 UTC would be taken back. Nothing was changed." in said
    assert log.effective(a).is_right is False
    code, said = demur("retract", "--source", "rule", "--since", "2026-01-05", "--until", "2026-01-05", "--dry-run")
    assert "1 grades of rule" in said and "until 2026-01-05 23:59:59 UTC" in said
    code, said = demur(
        "retract", "--source", "rule", "--source-name", "regex", "--since", EARLY, "--because", "wrong field", "--yes"
    )
    assert (code, "3 grades taken back." in said, "Online calibration and episodes" in said) == (0, True, True)
    assert (log.effective(a).is_right, log.effective(b), log.effective(c)) == (True, None, None)
    again = written({"response_id": b, "correct": False}, {"response_id": c, "correct": False, "graded_at": EARLY})
    code, said = demur("import", "--data", again, "--source", "rule", "--source-name", "regex")
    assert (code, "0 grades stored" in said, "2 were taken back earlier and stay so" in said) == (0, True, True), said
    assert log.effective(b) is None


def test_nothing_is_taken_back_unasked(demur, wrong_grader, log, monkeypatch):
    asked = ("retract", "--source", "rule", "--since", "2026-01-05")
    code, said = demur(*asked)
    assert (code, "say --yes" in said) == (2, True)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for answer, taken in ((False, 0), (True, 3)):
        monkeypatch.setattr("typer.confirm", lambda text, answer=answer: answer)
        code, said = demur(*asked)
        assert (code, 4 - log.counts().total) == (0, {0: 1, 3: 3}[taken]), said
    assert demur(*asked)[1].count("Nothing was changed") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--source", "me", "--since", "2026-01-05"), "source='me'"),
        (("--source", "rule", "--since", "soon"), "'soon' is no time"),
        (("--source", "rule", "--since", "2026-01-05", "--until", "2026-01-04"), "after until"),
    ],
)
def test_a_retraction_that_means_nothing_is_bad_input(demur, wrong_grader, arguments, said):
    code, told = demur("retract", *arguments, "--yes")
    assert (code, said in told) == (2, True), told


def test_the_list_shows_what_counts_and_what_was_taken_back_as_text(demur, wrong_grader, log):
    log.retract("rule", until=datetime(2026, 1, 5, 13, tzinfo=UTC), because="[red]bad\x1b[2J")
    code, said = demur("list")
    assert code == 0
    assert said.count("right") == 1 and said.count("wrong") == 3
    assert "taken back: [red]bad⟨U+001B⟩[2J" in said and "\x1b" not in said and "[bold]t[/]" in said
    assert demur("list", "--response", wrong_grader[1])[1].count("regex") == 1
    assert "regex" not in demur("list", "--task", "other")[1]
    assert demur("list", "--limit", "1")[1].count("big") + demur("list", "--limit", "1")[1].count("regex") == 1
