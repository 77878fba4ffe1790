"""`demur eval` on the terminal and as a page: groups, the report's place, and figures that survive a failing report."""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from demur.core.errors import Refused
from demur.integrations.cli import main as command_line
from demur.router.reports import page as page_module


@dataclass
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def demur(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Ran]:
    """Runs the command line in this process, in a folder of this test's own."""
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["demur", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            command_line.main()
        captured = capsys.readouterr()
        return Ran(ended.value.code if isinstance(ended.value.code, int) else 0, captured.out, captured.err)

    return run


def write_rows(path: Path, count: int, start: int = 0) -> Path:
    draw = random.Random(start)
    lines = []
    for number in range(count):
        sure = draw.gauss(0.3, 1.0)
        row: dict[str, Any] = {
            "id": f"g{start + number}",
            "prompt": f"Say {draw.getrandbits(60):x} {draw.getrandbits(60):x}",
            "response": "<b>bold</b> secret",
            "correct": draw.random() < 1.0 / (1.0 + math.exp(-2.0 * sure)),
            "logprobs": [-math.exp(-sure)] * 3,
        }
        lines.append(json.dumps(row) + "\n")
    path.write_text("".join(lines))
    return path


@pytest.fixture
def fitted(demur: Callable[..., Ran], tmp_path: Path) -> tuple[object, ...]:
    """Options of an evaluation with an artefact that fits."""
    data = write_rows(tmp_path / "fit.jsonl", 120)
    assert demur("fit", "--data", data, "--task", "calls", "--out", tmp_path / "artefact").code == 0
    tested = write_rows(tmp_path / "eval.jsonl", 60, 1000)
    return ("eval", "--data", tested, "--artefact", tmp_path / "artefact", "--out", tmp_path / "out")


def test_figures_are_grouped_and_the_report_is_named(
    demur: Callable[..., Ran], fitted: tuple[object, ...], tmp_path: Path
) -> None:
    ran = demur(*fitted)
    assert ran.code == 0, ran.err
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    lines = ran.out.splitlines()
    for name in metrics:
        assert sum(f" {name} " in line for line in lines) == 1, name
    assert all(len(line) <= 79 for line in lines[:-1]), "the table fits a terminal of 80 columns"
    assert "bas: ε = 0.0001" in ran.out and any(" auroc " in line and "↑" in line for line in lines)
    order = [ran.out.index(title) for title in ("Rows", "Ranking:", "Calibration:", "Answering only the surest")]
    assert order == sorted(order)
    assert str(tmp_path / "out" / "report.html") in lines[-1]
    written = (tmp_path / "out" / "report.html").read_bytes().decode("utf-8")
    assert f"{metrics['auroc']['value']:.3f}" in written
    assert "demur eval --data" in written and "task “calls”" in written
    assert "&lt;b&gt;bold&lt;/b&gt; secret" in written and "<b>bold" not in written
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["metrics.json", "report.html", "scores.jsonl"]


def test_examples_can_be_left_out(demur: Callable[..., Ran], fitted: tuple[object, ...], tmp_path: Path) -> None:
    assert demur(*fitted, "--no-examples").code == 0
    assert "secret" not in (tmp_path / "out" / "report.html").read_text()


def test_a_report_that_fails_costs_no_figures_and_leaves_no_stale_page(
    demur: Callable[..., Ran], fitted: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert demur(*fitted).code == 0
    (tmp_path / "out" / "metrics.json").unlink()

    def fails(*_: Any, **__: Any) -> str:
        raise Refused("no picture today")

    monkeypatch.setattr(page_module, "report", fails)
    ran = demur(*fitted)
    assert ran.code == 3 and "no picture today" in ran.err
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["metrics.json", "scores.jsonl"]
