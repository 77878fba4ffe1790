"""Every metric of scores against labels, by name: what it needs, which way is better, how it is resampled."""

from __future__ import annotations

import math
from functools import partial

from numpy.typing import ArrayLike

from ...core.errors import ConfigurationError
from ..estimate import Estimate
from ..inputs import check_scored
from .auprc import auprc_statistic
from .auroc import auroc_statistic
from .bas import RiskWeight, bas_statistic, worst_bas
from .binned_ece import binned_ece_statistic
from .bootstrap import estimates
from .brier import brier_statistic
from .brier_decomposition import brier_reliability_statistic, brier_resolution_statistic, brier_uncertainty_statistic
from .confidence_weighted_accuracy import confidence_weighted_accuracy_statistic
from .ece import debiased_squared_ece_statistic
from .etcu import THRESHOLDS, etcu_statistic, worst_etcu
from .excess_aurc import excess_aurc_statistic
from .log_loss import log_loss_statistic
from .metric import Metric
from .risk_coverage import aurc_statistic, coverage_at_risk_statistic, selective_accuracy_statistic
from .smece import own_width_statistic, smece_excess_statistic
from .th_score import th_score_statistic

COVERAGES = (0.5, 0.8)
RISKS = (0.05, 0.1, 0.2)
ETCU_THRESHOLDS = (0.1, 0.5, 0.9)
_WEIGHTS: tuple[RiskWeight, ...] = ("uniform", "linear", "quadratic")

# Metrics of the order of the scores: any scale will do.
_ranked = partial(Metric, probabilities=False)
_surer_is_better = partial(_ranked, better="higher")
# Metrics of probabilities. Resampling inflates errors that are never negative: their intervals are centred.
_loss = partial(Metric, probabilities=True, better="lower")
_error = partial(_loss, method="centred")
_gain = partial(Metric, probabilities=True, better="higher")


def coverage_name(coverage: float) -> str:
    """Name of selective accuracy at a coverage."""
    return f"selective_accuracy_at_{round(100 * coverage)}_coverage"


def risk_name(risk: float) -> str:
    """Name of coverage at a risk."""
    return f"coverage_at_risk_{round(100 * risk):02d}"


_ALL = (
    _surer_is_better("auroc", auroc_statistic, undefined="AUROC needs both right and wrong rows"),
    _surer_is_better("auprc_right", auprc_statistic, undefined="no row is right: AUPRC has nothing to find"),
    _surer_is_better(
        "auprc_wrong",
        partial(auprc_statistic, positive="wrong"),
        undefined="no row is wrong: AUPRC has nothing to find",
    ),
    _ranked("aurc", aurc_statistic, better="lower"),
    # Rows drawn twice are ties, of which the best order is free: centred.
    _ranked("excess_aurc", excess_aurc_statistic, better="lower", method="centred"),
    *(
        _surer_is_better(coverage_name(each), partial(selective_accuracy_statistic, coverage=each))
        for each in COVERAGES
    ),
    *(_surer_is_better(risk_name(each), partial(coverage_at_risk_statistic, risk=each)) for each in RISKS),
    _loss("brier", brier_statistic),
    _error("brier_reliability", brier_reliability_statistic),
    _gain("brier_resolution", brier_resolution_statistic, bounds=(0.0, 0.25), method="centred"),
    Metric("brier_uncertainty", brier_uncertainty_statistic, probabilities=True, better="neither", bounds=(0.0, 0.25)),
    _loss("log_loss", log_loss_statistic, bounds=(0.0, math.inf)),
    _error("smece", own_width_statistic),
    _error("smece_excess", smece_excess_statistic, bounds=(-1.0, 1.0)),
    _error("ece_squared_debiased", debiased_squared_ece_statistic, undefined="needs two rows", bounds=(-1.0, 1.0)),
    _error("ece_15_equal_width", partial(binned_ece_statistic, bins=15, scheme="equal_width")),
    _error("ece_15_equal_mass", partial(binned_ece_statistic, bins=15, scheme="equal_mass")),
    *(_gain(f"bas_{each}", partial(bas_statistic, weight=each), bounds=(worst_bas(each), 1.0)) for each in _WEIGHTS),
    *(
        _gain(
            f"etcu_{round(100 * each):02d}",
            partial(etcu_statistic, thresholds=(each,)),
            bounds=(worst_etcu((each,)), 1.0),
        )
        for each in ETCU_THRESHOLDS
    ),
    _gain("etcu_auc", etcu_statistic, bounds=(worst_etcu(THRESHOLDS), 1.0)),
    _gain("th_score", th_score_statistic, bounds=(math.expm1(-0.5), math.expm1(0.5))),
    _gain(
        "confidence_weighted_accuracy",
        confidence_weighted_accuracy_statistic,
        undefined="all confidences are 0: there is nothing to weigh by",
    ),
)
METRICS = {each.name: each for each in _ALL}
"""By the names that `evaluate` gives."""


def metric_of(metric: str | Metric) -> Metric:
    """The metric of that name; a metric is handed through.

    Raises:
        ConfigurationError: there is none of that name.
    """
    if isinstance(metric, Metric):
        return metric
    if metric not in METRICS:
        raise ConfigurationError(f"metric={metric!r} is not one of {', '.join(METRICS)}")
    return METRICS[metric]


def measure(
    metric: str | Metric,
    scores: ArrayLike,
    correct: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    seed: int = 0,
    resamples: int = 1000,
) -> Estimate:
    """One metric with its 95 % bootstrap interval, drawn by the metric's own method.

    For metrics that need another column: `info_ece_metric(positions)`, `within_question_metric(questions)`,
    `turn_trend_metric(turns, conversations)`.

    Raises:
        BadInput: NaN, lengths differ, no rows, not probabilities where they are needed, groups that do not fit.
        ConfigurationError: no such metric.
    """
    found = metric_of(metric)
    numbers, labels = check_scored(scores, correct, probabilities=found.probabilities)
    wanted = found.measured(numbers, labels)
    return estimates([wanted], labels.size, groups=groups, seed=seed, resamples=resamples)[0]
