"""How well a fitted head does on the rows it was fitted on, each judged while it was held out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...evaluation.estimate import Estimate
from ...evaluation.evaluate import evaluate
from ...probes.artefact import Artefact
from ...probes.head import Head
from .baseline import against_baseline
from .table import GradedTable


@dataclass(frozen=True)
class HeadReport:
    """One head.

    Attributes:
        scored: rows that carried enough signals for an out-of-fold probability.
        metrics: out-of-fold estimates by name: those of `evaluate`, `mean_logprob_auroc` and
            `fused_minus_mean_logprob_auroc`. The base rate is that of the same rows: the hardest constant to beat.
    """

    key: str
    labels: int
    right: int
    tier: str
    calibrator: str
    scored: int
    metrics: Mapping[str, Estimate]
    notes: tuple[str, ...]

    @property
    def wrong(self) -> int:
        return self.labels - self.right


def fit_report(artefact: Artefact, rows: GradedTable, *, seed: int = 0) -> list[HeadReport]:
    """A report of every head that was fitted on exactly these rows."""
    return [_of_head(head, rows, seed) for head in artefact.heads.values() if head.labels == len(rows)]


def _of_head(head: Head, rows: GradedTable, seed: int) -> HeadReport:
    held_out = head.out_of_fold
    scored = np.isfinite(held_out.probability)
    metrics = evaluate(
        held_out.probability[scored], held_out.correct[scored], groups=held_out.groups[scored], seed=seed
    )
    for item in against_baseline(held_out.probability, rows, held_out.groups, seed=seed):
        metrics[item.name] = item
    return HeadReport(
        key=head.key,
        labels=head.labels,
        right=head.right,
        tier=head.tier,
        calibrator=head.calibrator.name,
        scored=int(scored.sum()),
        metrics=metrics,
        notes=head.notes,
    )
