"""Graded answers of real models with a confidence each, out of the `records_*` files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from demur.evaluation.graders.registry import get_grader
from demur.probes.calibration.base import logit

MODELS = ("Llama3-8b", "Mistral", "gpt-3.5-turbo", "gpt-4-turbo")
CHOICES = ("arc", "mmlu")
SAMPLES, FORECASTS = "triviaqa_samples", "forecasts"
EDGE = 1e-3
"""Stated probabilities of 0 and 1 are taken to be so far off."""


@dataclass(frozen=True)
class Answers:
    """The answers of one model on one set.

    Attributes:
        scores: (n,) log-odds of the model's own probability of being right.
        correct: (n,) of 0.0 and 1.0.
        questions: (n,) names; answers of two models to one question share it.
    """

    scores: np.ndarray
    correct: np.ndarray
    questions: np.ndarray

    def take(self, rows: np.ndarray) -> Answers:
        return Answers(self.scores[rows], self.correct[rows], self.questions[rows])

    def halves(self, seed: int) -> tuple[Answers, Answers]:
        """Half the questions to fit on, the others to test on."""
        names = np.unique(self.questions)
        first = np.random.default_rng(seed).permutation(names)[: names.size // 2]
        fit = np.isin(self.questions, first)
        return self.take(fit), self.take(~fit)


def choice_answers(data: Path) -> dict[str, Answers]:
    """ARC and MMLU: the probability of the letter that the model chose; by "set model"."""
    found: dict[str, Answers] = {}
    for name in CHOICES:
        lines = _lines(data / f"records_{name}_14models.jsonl")
        for model in MODELS:
            kept = [
                (*line["meta"]["records"][model][:2], line["meta"]["q_index"])
                for line in lines
                if None not in line["meta"]["records"].get(model, [None])[:2]
            ]
            # On MMLU the two Llama3 were asked in another order: their q_index is of another question.
            order = "llama3" if name == "mmlu" and model.startswith("Llama3") else "all"
            found[f"{name} {model}"] = _answers(
                [p for _, p, _ in kept],
                [right for right, _, _ in kept],
                [f"{name} {order} {index:05d}" for _, _, index in kept],
            )
    return found


def sample_answers(data: Path) -> Answers:
    """TriviaQA, Llama-3.1-8b: how far five samples agree (1 - semantic inconsistency), graded anew by aliases."""
    lines = _lines(data / "records_triviaqa_samples.jsonl")
    grader = get_grader("alias")
    return _answers(
        [1.0 - line["meta"]["features"]["semantic_inconsistency"] for line in lines],
        [grader.grade(line["meta"]["model_answer"], line["answers"], line) for line in lines],
        [line["id"] for line in lines],
    )


def forecast_answers(data: Path) -> Answers:
    """Stated P(yes) of frontier models on yes-no questions about the future, against what came of it."""
    told = [
        (stated / 100.0, line["meta"]["future_outcome_yes"], line["id"])
        for line in _lines(data / "records_abstain_12models.jsonl")
        if line["meta"].get("future_outcome_yes") is not None
        for action, stated, _ in line["meta"]["records"].values()
        if action == "ANSWER" and stated is not None
    ]
    return _answers([p for p, _, _ in told], [yes for _, yes, _ in told], [name for _, _, name in told])


def tool_calls(data: Path) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """STE: (500,) grades by system, of those that are right and wrong at least 2 % of the time, and the gold APIs."""
    lines = _lines(data / "rec_ste_toolcalls.jsonl")
    grades = {
        system: np.array([float(line["meta"]["records"][system]["correct"]) for line in lines])
        for system in lines[0]["meta"]["records"]
    }
    return (
        {system: each for system, each in grades.items() if 0.02 < each.mean() < 0.98},
        np.array([line["meta"]["gold_api"] for line in lines]),
    )


def _answers(p: Sequence[float], correct: Sequence[Any], questions: Sequence[str]) -> Answers:
    return Answers(logit(np.array(p), EDGE), np.array(correct, dtype=np.float64), np.array(questions))


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
