"""Two scores on the same rows: the difference of a metric, resampled together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from numpy.typing import ArrayLike

from ...core.errors import ConfigurationError
from ..estimate import Estimate
from ..inputs import Floats, check_same_length, check_scored
from .auroc import auroc_statistic
from .bootstrap import Method, Statistic, estimate
from .brier import brier_statistic
from .log_loss import log_loss_statistic
from .risk_coverage import aurc_statistic

PairedMetric = Literal["auroc", "brier", "log_loss", "aurc"]

# Whether the metric needs probabilities, and its form for the bootstrap.
_METRICS: dict[str, tuple[bool, Callable[[Floats, Floats], Statistic]]] = {
    "auroc": (False, auroc_statistic),
    "brier": (True, brier_statistic),
    "log_loss": (True, log_loss_statistic),
    "aurc": (False, aurc_statistic),
}


def paired_difference(
    first: ArrayLike,
    second: ArrayLike,
    correct: ArrayLike,
    *,
    metric: PairedMetric = "auroc",
    groups: ArrayLike | None = None,
    seed: int = 0,
    resamples: int = 1000,
    method: Method = "percentile",
) -> Estimate:
    """metric(first) − metric(second) with its 95 % paired bootstrap interval; named `<metric>_difference`.

    Rows are drawn once for both scores, so that what both find hard does not widen the interval. Without a value
    (and with a reason) where AUROC meets one class only.

    Args:
        first, second: scores of the same rows in the same order, shape (n,); probabilities for brier and log_loss.
        groups: rows of one group are drawn together.

    Raises:
        BadInput: NaN, lengths differ, no rows, or not probabilities where they are needed.
        ConfigurationError: no such metric.
    """
    if metric not in _METRICS:
        raise ConfigurationError(f"metric={metric!r} is not one of {', '.join(_METRICS)}")
    probabilities, build = _METRICS[metric]
    one, labels = check_scored(first, correct, probabilities=probabilities)
    two, _ = check_scored(second, correct, probabilities=probabilities)
    check_same_length(first=one, second=two)
    of_first, of_second = build(one, labels), build(two, labels)
    return estimate(
        f"{metric}_difference",
        lambda weights: of_first(weights) - of_second(weights),
        labels.size,
        undefined="one class only: the metric is not defined",
        groups=groups,
        seed=seed,
        resamples=resamples,
        method=method,
    )
