"""The baseline that a fused confidence has to beat: the mean log-probability of the answer's tokens."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...evaluation.estimate import Estimate
from ...evaluation.metrics.auroc import auroc_statistic
from ...evaluation.metrics.bootstrap import estimate
from ...evaluation.metrics.paired import paired_difference
from .table import GradedTable

BASELINE = "token.mean_logprob"


def mean_logprob(rows: GradedTable) -> NDArray[np.float64]:
    """(n,) mean log-probability in nats; NaN where it is not known."""
    return rows.table.columns([BASELINE])[:, 0]


def against_baseline(
    probability: NDArray[np.float64], rows: GradedTable, groups: NDArray[np.integer], *, seed: int = 0
) -> list[Estimate]:
    """`mean_logprob_auroc` and `fused_minus_mean_logprob_auroc`, on the rows where both scores are known.

    Args:
        probability: (n,) fused probability; NaN where there is none.
        groups: (n,) rows of one group are drawn together.
    """
    baseline = mean_logprob(rows)
    both = np.isfinite(baseline) & np.isfinite(probability)
    count = int(both.sum())
    names = ("mean_logprob_auroc", "fused_minus_mean_logprob_auroc")
    if count == 0:
        reason = f"no row has both a confidence and {BASELINE}"
        return [Estimate(name=name, value=None, n=0, reason=reason) for name in names]
    labels = rows.correct[both].astype(np.float64)
    alone = estimate(
        names[0],
        auroc_statistic(baseline[both], labels),
        count,
        undefined="one class only: AUROC needs right and wrong rows",
        groups=groups[both],
        seed=seed,
        bounds=(0.0, 1.0),
    )
    difference = paired_difference(probability[both], baseline[both], labels, groups=groups[both], seed=seed)
    return [alone, difference.model_copy(update={"name": names[1]})]
