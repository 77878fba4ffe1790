"""Judging an artefact: figures on other rows, nothing guessed, results written whole."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from demur.core.errors import ArtefactMismatch, BadInput, Refused, StoreError
from demur.evaluation.metrics.info_ece import info_ece, normalised_positions
from demur.evaluation.metrics.turn_trend import turn_trend
from demur.evaluation.metrics.within_question import within_question
from demur.probes.artefact import Artefact
from demur.router.pipelines.evaluate import check_overlap, evaluate_artefact
from demur.router.pipelines.fit import fit_artefact
from demur.router.pipelines.grade import GIVEN
from demur.router.pipelines.output import json_line, write_results
from demur.router.pipelines.rows import GradedRow
from demur.router.pipelines.table import graded_table

Graded = Callable[..., list[GradedRow]]


def no_constant(text: str) -> Any:
    raise AssertionError(f"{text} is not JSON")


@pytest.fixture(scope="module")
def artefact(graded: Graded) -> Artefact:
    return fit_artefact(graded_table(graded(300)), task="t", grader=GIVEN, model=None, method="logistic")


def test_figures_are_those_of_the_written_scores(artefact: Artefact, graded: Graded) -> None:
    rows = graded_table(graded(200, start=1000))
    found = evaluate_artefact(artefact, rows)
    probability = np.array([score["probability"] for score in found.scores])
    correct = np.array([score["correct"] for score in found.scores], dtype=float)
    head = artefact.heads["answer/after"]
    rate = head.right / head.labels
    assert rate != correct.mean()
    brier = np.mean((probability - correct) ** 2)
    assert found.metrics["auroc"]["value"] == pytest.approx(roc_auc_score(correct, probability))
    assert found.metrics["brier"]["value"] == pytest.approx(brier)
    assert found.metrics["brier_base_rate"]["value"] == pytest.approx(np.mean((rate - correct) ** 2))
    assert found.metrics["brier_minus_base_rate"]["value"] == pytest.approx(brier - np.mean((rate - correct) ** 2))
    logprob = [score["signals"]["token.mean_logprob"] for score in found.scores]
    alone = roc_auc_score(correct, logprob)
    assert found.metrics["mean_logprob_auroc"]["value"] == pytest.approx(alone)
    assert found.metrics["fused_minus_mean_logprob_auroc"]["value"] == pytest.approx(
        roc_auc_score(correct, probability) - alone
    )
    assert found.metrics["unavailable"] == {"value": 0, "low": 0, "high": 0, "n": 200}
    assert all(set(metric) - {"reason"} == {"value", "low", "high", "n"} for metric in found.metrics.values())
    assert all(score["low"] <= score["probability"] <= score["high"] for score in found.scores)


def test_a_row_with_too_few_signals_is_counted_and_not_guessed(artefact: Artefact, graded: Graded) -> None:
    rows = graded(100, start=1000)
    blind = [row.model_copy(update={"logprobs": (math.nan, None), "signals": {}}) for row in rows[:30]]
    found = evaluate_artefact(artefact, graded_table([*blind, *rows[30:]]))
    for score in found.scores[:30]:
        assert (score["probability"], score["low"], score["high"]) == (None, None, None)
        assert score["signals"]["token.mean_logprob"] is None
    assert found.metrics["unavailable"]["value"] == 30
    assert found.metrics["auroc"]["n"] == 70
    assert found.metrics["accuracy_all_rows"]["n"] == 100
    with pytest.raises(Refused, match=r"none of the 30 rows.*signals at hand carry"):
        evaluate_artefact(artefact, graded_table(blind))


def test_without_log_probabilities_the_baseline_is_undefined(graded: Graded) -> None:
    def bare(rows: list[GradedRow]) -> list[GradedRow]:
        return [row.model_copy(update={"logprobs": None}) for row in rows]

    artefact = fit_artefact(graded_table(bare(graded(200))), task="t", grader=GIVEN, model=None)
    metrics = evaluate_artefact(artefact, graded_table(bare(graded(50, start=1000)))).metrics
    assert metrics["mean_logprob_auroc"]["value"] is None
    assert "token.mean_logprob" in metrics["mean_logprob_auroc"]["reason"]
    assert metrics["auroc"]["value"] is not None


def test_answers_to_one_question_and_turns_of_one_conversation_are_measured_within_them(
    artefact: Artefact, graded: Graded
) -> None:
    rows = graded(120, start=1000)
    # Every question is answered twice; conversations of three questions; the last 20 rows belong to none.
    related = [
        row.model_copy(
            update={"prompt": rows[place // 2].prompt}
            | ({"conversation": f"c{place // 6}", "turn": place % 6 // 2 + 1} if place < 100 else {})
        )
        for place, row in enumerate(rows)
    ]
    table = graded_table(related)
    assert np.unique(table.groups[:96]).size == 16, "conversations are whole groups"
    found = evaluate_artefact(artefact, table)
    probability = np.array([score["probability"] for score in found.scores])
    correct = np.array([score["correct"] for score in found.scores], dtype=float)
    within = within_question(probability, correct, np.arange(120) // 2)
    assert found.metrics["within_question_discrimination"]["value"] == pytest.approx(within.discrimination)
    assert found.metrics["within_question_discrimination"]["n"] == 120
    turns = np.array([row.turn for row in related[:100]])
    conversations = np.array([row.conversation for row in related[:100]])
    assert found.metrics["turn_trend"]["value"] == pytest.approx(turn_trend(probability[:100], turns, conversations))
    expected = info_ece(probability[:100], correct[:100], normalised_positions(turns, conversations))
    assert found.metrics["info_ece"]["value"] == pytest.approx(expected)
    assert found.metrics["info_ece"]["n"] == 100
    alone = evaluate_artefact(artefact, graded_table(rows)).metrics
    assert not {"info_ece", "turn_trend", "within_question_discrimination"} & set(alone)


def test_one_class_has_no_auroc_and_says_so(artefact: Artefact, graded: Graded) -> None:
    rows = [row for row in graded(100, start=1000) if row.correct]
    metrics = evaluate_artefact(artefact, graded_table(rows)).metrics
    for name in ("auroc", "mean_logprob_auroc", "fused_minus_mean_logprob_auroc"):
        assert metrics[name]["value"] is None
        assert metrics[name]["reason"]


def test_rows_that_were_fitted_on_are_refused(artefact: Artefact) -> None:
    with pytest.raises(Refused, match=r"2 of 3 rows .*'g1', 'g2'.*--allow-overlap"):
        check_overlap(artefact, ["g1", "new", "g2"])
    assert check_overlap(artefact, ["g1", "new"], allow=True) == ("g1",)
    assert check_overlap(artefact, ["new"]) == ()


def test_hostile_ids_are_shown_without_their_tricks(graded: Graded) -> None:
    hostile = "\x1b[2J\u202e" + "[bold]" * 100
    rows = graded(100)
    rows[0] = rows[0].model_copy(update={"id": hostile})
    artefact = fit_artefact(graded_table(rows), task="t", grader=GIVEN, model=None)
    with pytest.raises(Refused) as caught:
        check_overlap(artefact, [hostile])
    assert "\x1b" not in str(caught.value) and "\u202e" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_an_artefact_without_a_first_head_is_refused(artefact: Artefact, graded: Graded) -> None:
    headless = Artefact({}, artefact.binding.model_copy(update={"feature_schema": ""}))
    with pytest.raises(ArtefactMismatch, match="no head 'answer/after'"):
        evaluate_artefact(headless, graded_table(graded(5)))


def test_results_are_strict_json_line_by_line(tmp_path: Path) -> None:
    scores = [{"id": "a\u2028b", "response": "é\ud800"}, {"id": "\x85", "response": "日本"}]
    write_results(tmp_path / "out", scores, {"auroc": {"value": None}})
    text = (tmp_path / "out" / "scores.jsonl").read_text(encoding="utf-8")
    assert len(text.splitlines()) == 2
    assert [json.loads(line, parse_constant=no_constant) for line in text.splitlines()] == scores
    assert "日本" in text
    with pytest.raises(ValueError, match="JSON compliant"):
        json_line({"value": math.nan})


def test_only_its_own_two_files_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    write_results(tmp_path, [{"id": "a"}], {"n": {"value": 1}})
    write_results(tmp_path, [{"id": "b"}], {"n": {"value": 2}})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.json", "notes.txt", "scores.jsonl"]
    assert json.loads((tmp_path / "scores.jsonl").read_text()) == {"id": "b"}
    assert json.loads((tmp_path / "metrics.json").read_text()) == {"n": {"value": 2}}


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    write_results(tmp_path, [{"id": "old"}], {})

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, failing, full)
    with pytest.raises(StoreError, match="No space left"):
        write_results(tmp_path, [{"id": "new"}], {})
    monkeypatch.undo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.json", "scores.jsonl"]
    assert json.loads((tmp_path / "scores.jsonl").read_text()) == {"id": "old"}


def test_results_do_not_go_into_a_file_or_an_artefact(tmp_path: Path, artefact: Artefact) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="is a file"):
        write_results(tmp_path / "file", [], {})
    with pytest.raises(BadInput, match="holds an artefact"):
        write_results(artefact.save(tmp_path / "artefact"), [], {})
