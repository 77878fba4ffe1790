"""Grading what a model answered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...core.errors import BadInput
from ...evaluation.graders.abstain_ok import DEFAULT_REFUSAL
from ...evaluation.graders.registry import VersionedGrader
from .evidence_cache import CollectedRow
from .rows import QuestionRow

GIVEN = ("given", "1")
"""Name and version of the grader of rows that came with their grades."""


def grader_key(grader: VersionedGrader) -> tuple[str, str]:
    """Name and version for an artefact's binding; another refusal text makes another grader."""
    refusal = getattr(grader, "refusal", DEFAULT_REFUSAL)
    version = grader.version if refusal == DEFAULT_REFUSAL else f"{grader.version}:refusal={refusal}"
    return grader.name, version


def grade_rows(
    questions: Sequence[QuestionRow], collected: Sequence[CollectedRow], grader: VersionedGrader
) -> NDArray[np.bool_]:
    """Right or wrong, (n,).

    Args:
        questions, collected: the same rows in the same order.

    Raises:
        BadInput: the rows are not the same ones, or one cannot be graded; the message names it.
    """
    if [row.id for row in questions] != [row.id for row in collected]:
        raise BadInput(f"{len(questions)} questions and {len(collected)} answers do not belong together")
    grades = np.zeros(len(questions), dtype=np.bool_)
    for number, (question, answer) in enumerate(zip(questions, collected, strict=True)):
        try:
            grades[number] = grader.grade(answer.response, question.answers, question.model_dump())
        except BadInput as error:
            name = f"row {question.id!r}"
            raise error if name in str(error) else BadInput(f"{name}: {error}") from error
    return grades
