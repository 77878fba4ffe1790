"""What a report is made from: the evaluated rows as arrays, with their signals and figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.decision import Stage
from ...core.errors import Refused
from ...evaluation.inputs import Floats
from ...probes.artefact import Artefact
from ..pipelines.evaluate import Evaluation
from ..pipelines.fit import ANSWER
from ..pipelines.table import GradedTable

MEAN_LOGPROB = "token.mean_logprob"
SUM_LOGPROB = "token.sum_logprob"


@dataclass(frozen=True)
class Judged:
    """The n rows that got a confidence.

    Attributes:
        ids, questions, responses: texts; questions are "" where the table does not have them.
        confidence, correct: (n,) probabilities, and 0 or 1.
        groups: (n,) rows that belong together.
        signals: name → (n,) raw values, NaN where missing; a signal that is missing everywhere is left out.
        used: names that the fused confidence goes by.
        metrics: as written to `metrics.json`.
        rows: number of rows, those without a confidence included.
        fitted_rows, fitted_right: labels that the artefact was fitted on.
    """

    ids: tuple[str, ...]
    questions: tuple[str, ...]
    responses: tuple[str, ...]
    confidence: Floats
    correct: Floats
    groups: NDArray[np.int64]
    signals: Mapping[str, Floats]
    used: frozenset[str]
    metrics: Mapping[str, Mapping[str, Any]]
    rows: int
    fitted_rows: int
    fitted_right: int

    @property
    def n(self) -> int:
        return self.confidence.size

    @property
    def right(self) -> int:
        return int(self.correct.sum())

    @property
    def raw(self) -> Floats | None:
        """(n,) exp of the sum of log-probabilities: the model's own probability of its answer; None where unknown."""
        total = self.signals.get(SUM_LOGPROB)
        return None if total is None else np.exp(np.minimum(total, 0.0))


def judged(found: Evaluation, rows: GradedTable, artefact: Artefact) -> Judged:
    """Arrays of what `evaluate_artefact` found.

    Raises:
        Refused: no row has a confidence.
    """
    there = np.array([score["probability"] is not None for score in found.scores], dtype=np.bool_)
    places = np.flatnonzero(there)
    if not places.size:
        raise Refused("no row has a confidence: there is nothing to report")
    kept = [found.scores[place] for place in places]
    names = list(kept[0]["signals"])
    columns = {
        name: np.array([np.nan if one["signals"][name] is None else one["signals"][name] for one in kept])
        for name in names
    }
    head = artefact.head(ANSWER, Stage.AFTER)
    heads = [one for one in artefact.heads.values() if one.arm == ANSWER and one.stage is Stage.AFTER]
    questions = rows.questions or ("",) * len(rows)
    return Judged(
        ids=tuple(str(one["id"]) for one in kept),
        questions=tuple(questions[place] for place in places),
        responses=tuple(str(one["response"]) for one in kept),
        confidence=np.array([one["probability"] for one in kept], dtype=np.float64),
        correct=np.array([one["correct"] for one in kept], dtype=np.float64),
        groups=rows.groups[there],
        signals={name: column for name, column in columns.items() if np.isfinite(column).any()},
        used=frozenset(
            name for one in heads for name in (*one.signal_names, *(probe.name for probe in one.probes.values()))
        ),
        metrics=found.metrics,
        rows=len(found.scores),
        fitted_rows=0 if head is None else head.labels,
        fitted_right=0 if head is None else head.right,
    )
