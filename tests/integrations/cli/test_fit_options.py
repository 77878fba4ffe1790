"""`demur fit`: how signals are fused and calibrated, tools, and grades that look wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from demur.core.decision import Stage
from demur.probes.artefact import Artefact
from tests.integrations.cli.test_fit_eval import Ran, demur, graded_rows, write  # noqa: F401 - fixtures

Run = Callable[..., Ran]


def test_fusion_and_calibrator_are_chosen_by_name(demur: Run, write: Any, tmp_path: Path) -> None:  # noqa: F811
    data = write("fit.jsonl", graded_rows(120))
    ran = demur("fit", "--data", data, "--out", tmp_path / "a", "--fusion", "boosted", "--calibrator", "venn_abers")
    assert ran.code == 0, ran.err
    head = Artefact.load(tmp_path / "a").heads["answer/after"]
    assert (head.fusion.method, head.calibrator.name) == ("boosted", "venn_abers")
    for option, value, told in (
        ("--fusion", "magic", "logistic"),
        ("--lens", "magic", "exact"),
        ("--calibrator", "magic", "isotonic"),
    ):
        ran = demur("fit", "--data", data, "--out", tmp_path / "b", option, value)
        assert ran.code == 2 and "magic" in ran.err and told in ran.err
        assert not (tmp_path / "b").exists()


def test_grades_that_look_wrong_are_listed(demur: Run, write: Any, tmp_path: Path) -> None:  # noqa: F811
    rows = graded_rows(400)

    # The surest right rows are graded wrong.
    def doubt(row: dict[str, Any]) -> float:
        return math.log(-row["logprobs"][0]) - row["signals"]["votes"]

    surest = sorted((row for row in rows if row["correct"]), key=doubt)[:10]
    for row in surest:
        row["correct"] = False
    ran = demur(
        "fit", "--data", write("fit.jsonl", rows), "--out", tmp_path / "a", "--suspects", tmp_path / "suspects.jsonl"
    )
    assert ran.code == 0, ran.err
    listed = [json.loads(line) for line in (tmp_path / "suspects.jsonl").read_text().splitlines()]
    assert f"{len(listed)} of 400 grades look wrong; listed in" in ran.out
    assert sum(row["id"] in {each["id"] for each in surest} for row in listed) >= 5
    assert [row["self_confidence"] for row in listed] == sorted(row["self_confidence"] for row in listed)
    assert {"id", "question", "response", "correct", "probability", "self_confidence", "threshold"} == set(listed[0])


def test_grades_that_look_wrong_are_counted_unasked(demur: Run, write: Any, tmp_path: Path) -> None:  # noqa: F811
    ran = demur("fit", "--data", write("fit.jsonl", graded_rows(120)), "--out", tmp_path / "a")
    assert ran.code == 0, ran.err
    assert "of 120 grades look wrong; --suspects FILE lists them" in ran.out


def test_rows_tell_what_they_call(demur: Run, write: Any, tmp_path: Path) -> None:  # noqa: F811
    rows = graded_rows(300)
    for number, row in enumerate(rows):
        row["tool"] = ("refund", "search", "mail")[number % 3]
        row["correct"] = row["correct"] and row["tool"] != "refund"
    ran = demur("fit", "--data", write("fit.jsonl", rows), "--out", tmp_path / "a")
    assert ran.code == 0, ran.err
    artefact = Artefact.load(tmp_path / "a")
    pooling = artefact.head("answer", Stage.AFTER).pooling  # type: ignore[union-attr]
    assert pooling is not None and pooling.offsets["refund"] < -1.0 < pooling.offsets["search"]
    tested = graded_rows(60, start=1000)
    for row in tested:
        row["tool"] = "refund"
        row["correct"] = False
    ran = demur("eval", "--data", write("eval.jsonl", tested), "--artefact", tmp_path / "a", "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    scores = [json.loads(line) for line in (tmp_path / "out" / "scores.jsonl").read_text().splitlines()]
    assert sum(row["probability"] for row in scores) / 60 < 0.15
