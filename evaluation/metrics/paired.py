"""Two scores on the same rows: the difference of a metric, resampled together."""

from __future__ import annotations

from numpy.typing import ArrayLike

from ..estimate import Estimate
from ..inputs import Floats, check_same_length, check_scored
from .bootstrap import Method, Statistic, estimate
from .metric import Metric
from .registry import metric_of


def paired_difference(
    first: ArrayLike,
    second: ArrayLike,
    correct: ArrayLike,
    *,
    metric: str | Metric = "auroc",
    groups: ArrayLike | None = None,
    seed: int = 0,
    resamples: int = 1000,
    method: Method = "percentile",
) -> Estimate:
    """metric(first) − metric(second) with its 95 % paired bootstrap interval; named `<metric>_difference`.

    Rows are drawn once for both scores, so that what both find hard does not widen the interval. Without a value
    (and with a reason) where AUROC meets one class only. On fewer than about 100 rows take method="bca"; for two
    accuracies `paired_accuracy`.

    Args:
        first, second: scores of the same rows in the same order, shape (n,); probabilities where the metric needs them.
        metric: a name of `METRICS`, or a metric of its own (`within_question_metric(questions)`).
        groups: rows of one group are drawn together.

    Raises:
        BadInput: NaN, lengths differ, no rows, or not probabilities where they are needed.
        ConfigurationError: no such metric.
    """
    found = metric_of(metric)
    statistic, n = difference_statistic(found, first, second, correct)
    return estimate(
        f"{found.name}_difference",
        statistic,
        n,
        undefined=found.undefined,
        groups=groups,
        seed=seed,
        resamples=resamples,
        method=method,
    )


def difference_statistic(
    metric: Metric, first: ArrayLike, second: ArrayLike, correct: ArrayLike
) -> tuple[Statistic, int]:
    """The difference of resamples, and the number of rows.

    Raises:
        BadInput: as `paired_difference`.
    """
    one, labels = check_scored(first, correct, probabilities=metric.probabilities)
    two, _ = check_scored(second, correct, probabilities=metric.probabilities)
    check_same_length(first=one, second=two)
    of_first, of_second = metric.build(one, labels), metric.build(two, labels)

    def statistic(weights: Floats) -> Floats:
        return of_first(weights) - of_second(weights)

    return statistic, labels.size
