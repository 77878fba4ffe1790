"""Files and names that no sane user would hand to a command."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from demur.core.errors import BadInput, ConfigurationError, DemurError
from demur.core.files import read_named
from demur.integrations.cli.main import app
from demur.probes.artefact import Artefact
from demur.router.pipelines.rows import read_rows
from demur.router.settings import Settings


def test_a_device_or_a_pipe_without_a_writer_is_not_read(tmp_path):
    pipe = tmp_path / "manifest.json"
    os.mkfifo(pipe)
    with pytest.raises(BadInput, match="not a regular file"):
        Artefact.load(tmp_path)
    for name in (os.devnull, tmp_path, tmp_path / "none", tmp_path / "a\0b"):
        with pytest.raises(OSError):
            read_named(name)
    with pytest.raises(BadInput, match="not a regular file"):
        read_rows(Path(os.devnull))


def test_a_file_is_read_up_to_its_limit(tmp_path):
    file = tmp_path / "f"
    file.write_bytes(b"12345")
    assert read_named(file, largest=5) == b"12345"
    with pytest.raises(OSError, match="over 4 bytes"):
        read_named(file, largest=4)


def test_a_pipe_with_a_writer_is_read():
    reader, writer = os.pipe()
    os.write(writer, b"rows")
    os.close(writer)
    try:
        assert read_named(f"/dev/fd/{reader}", pipes=True) == b"rows"
    finally:
        os.close(reader)


@pytest.mark.parametrize(
    "line",
    [
        '{"id": "a", "prompt": "p", "response": "r", "correct": true, "correct": false}',
        '{"id": "a", "id": "b", "question": "q", "answers": []}',
        '{"id": "a", "prompt": "p", "response": "r", "correct": true, "signals": {"x": 1, "x": 2}}',
    ],
)
def test_a_key_given_twice_is_refused(tmp_path, line):
    file = tmp_path / "rows.jsonl"
    file.write_text(line, encoding="utf-8")
    with pytest.raises(BadInput, match=r"rows.jsonl:1: .*appears twice"):
        read_rows(file)


@pytest.mark.parametrize("command", [["status"], ["recover"], ["review", "list"], ["review", "expire"]], ids=" ".join)
@pytest.mark.parametrize("name", ["no/such.db", "sqlite:///no/such.db", "folder", "dangling.db", ""])
def test_a_database_that_is_not_there_is_told_and_not_made(tmp_path, monkeypatch, command, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling.db").symlink_to("nowhere.db")
    before = sorted(tmp_path.rglob("*"))
    done = CliRunner().invoke(app, [*command, "--database", name])
    assert isinstance(done.exception, BadInput | ConfigurationError)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_queue_is_that_of_the_settings(tmp_path, monkeypatch):
    from demur.core.database import Database

    monkeypatch.chdir(tmp_path)
    (tmp_path / "demur.toml").write_text('database = "own.db"\n', encoding="utf-8")
    Database(tmp_path / "own.db").close()
    done = CliRunner().invoke(app, ["review", "list"])
    assert done.exit_code == 0 and "0 open" in done.output
    (tmp_path / "demur.toml").write_text('databse = "own.db"\n', encoding="utf-8")
    refused = CliRunner().invoke(app, ["review", "list"])
    assert isinstance(refused.exception, DemurError) and "did you mean database" in str(refused.exception)


@pytest.mark.parametrize(
    ("name", "value"),
    [("DEMUR_TASKS", "{"), ("DEMUR_TOOLS", "[1]"), ("DEMUR_TOOLS", '{"a": {}}'), ("DEMUR_COSTS", "5")],
)
def test_a_whole_section_in_a_variable_is_refused_and_not_passed_over(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=f"{name}__"):
        Settings()


@pytest.mark.parametrize("name", ["DEMUR_REVIEWER", "DEMUR_CACHE", "DEMUR_MODELS"])
def test_a_variable_of_a_command_does_not_break_the_settings(monkeypatch, name):
    monkeypatch.setenv(name, "ada")
    assert Settings().mode == "shadow"


def test_an_empty_word_is_not_meant(monkeypatch):
    monkeypatch.setenv("DEMUR_DATABASE", "")
    with pytest.raises(ConfigurationError) as told:
        Settings()
    assert "did you mean ''" not in str(told.value)
