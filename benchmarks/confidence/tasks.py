"""The tasks of the confidence benchmark: which rows, which model, how it is asked, how it is graded."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from demur.core.evidence import CaptureRequest
from demur.evaluation.graders.registry import VersionedGrader, get_grader
from demur.evaluation.near_duplicates import question_groups
from demur.integrations.demo.model import small_model
from demur.integrations.models.huggingface.model import HuggingFaceModel
from demur.integrations.models.recipe import recipe_for
from demur.integrations.models.store import find_model
from demur.router.pipelines.rows import QuestionRow, read_rows

SEED = 7
REFUSAL = "unanswerable"


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        name: as in the figures, such as "triviaqa_gemma".
        model: in the catalogue.
        fit, test: number of rows.
        wanted: which rows of the file take part.
        batch_size: rows asked together.
    """

    name: str
    file: str
    model: str
    grader: str
    fit: int
    test: int
    wanted: Callable[[QuestionRow], bool] = lambda row: True
    passages: str | None = None
    batch_size: int = 16

    def judge(self) -> VersionedGrader:
        return get_grader(self.grader, refusal=REFUSAL) if self.grader == "abstain_ok" else get_grader(self.grader)

    def load_model(self, name: str | None = None) -> HuggingFaceModel:
        """The task's model, or another one asked in the same way."""
        chosen = name or self.model
        folder = find_model(chosen)
        if chosen == "gemma-270m":
            return small_model(folder)
        recipe = recipe_for(self.grader, REFUSAL)
        # bfloat16 is far slower on processors without kernels for it.
        return HuggingFaceModel(
            folder,
            name=chosen,
            chat=recipe.examples is None,
            prompt_template=recipe.examples,
            system=recipe.system,
            max_new_tokens=recipe.max_new_tokens or 32,
            answer=recipe.answer,
            dtype="float32",
        )

    def rows(self, data: Path) -> tuple[list[QuestionRow], list[QuestionRow]]:
        """Rows to fit on and rows to test on; no test row nearly repeats a fitted one."""
        found = [row for row in read_rows(data / self.file) if isinstance(row, QuestionRow) and self.wanted(row)]
        ordered = sorted(found, key=lambda row: row.id)
        random.Random(SEED).shuffle(ordered)
        groups = question_groups([row.question for row in ordered])
        fitted = set(groups[: self.fit].tolist())
        others = [
            row for row, group in zip(ordered[self.fit :], groups[self.fit :], strict=True) if int(group) not in fitted
        ]
        return ordered[: self.fit], others[: self.test]

    def read_passages(self, data: Path) -> dict[str, str]:
        if self.passages is None:
            return {}
        lines = (data / self.passages).read_text(encoding="utf-8").splitlines()
        return {each["id"]: each["text"] for each in map(json.loads, lines)}


def _one_call(row: QuestionRow) -> bool:
    return (row.model_extra or {})["meta"]["category"] in ("simple_python", "multiple")


TASKS = {
    task.name: task
    for task in (
        Task("triviaqa_gemma", "triviaqa.jsonl", "gemma-270m", "alias", 1500, 900),
        Task("svamp_q05", "svamp.jsonl", "qwen-0.5b", "number", 300, 300),
        Task("squad2_q05", "squad2.jsonl", "qwen-0.5b", "abstain_ok", 300, 300, passages="squad2_passages.jsonl"),
        Task("bfcl_q05", "bfcl_call.jsonl", "qwen-0.5b", "bfcl_ast", 181, 180, wanted=_one_call, batch_size=8),
        Task("ste_q05", "ste_tool_calling.jsonl", "qwen-0.5b", "ste_exact", 250, 250, batch_size=8),
    )
}


def capture_for(model: HuggingFaceModel) -> CaptureRequest:
    """Vectors and both lenses at every third layer, the final one among them, and all else there is."""
    depth = model.layer_count
    layers = tuple(range(depth % 3 or 3, depth + 1, 3))
    return CaptureRequest(
        top_k=5,
        hidden_layers=layers,
        lens_layers=layers,
        fast_lens_layers=layers,
        lens_candidates=64,
        prompt_lens=True,
        question_logprobs=True,
    )


def all_rows(task: Task, data: Path) -> Sequence[QuestionRow]:
    fit, test = task.rows(data)
    return [*fit, *test]
