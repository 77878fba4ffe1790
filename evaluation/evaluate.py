"""All metrics of calibrated confidences at once, each with its interval."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .estimate import Estimate
from .inputs import Floats, check_groups, check_scored
from .metrics.auroc import auroc_statistic
from .metrics.bootstrap import Statistic, estimate
from .metrics.brier import base_rate_statistic, brier_minus_base_rate, brier_statistic, check_base_rate
from .metrics.ece import debiased_squared_ece_statistic
from .metrics.log_loss import log_loss_statistic
from .metrics.proportion import proportion
from .metrics.risk_coverage import answered_at_coverage, aurc_statistic, coverage_at_risk_statistic
from .metrics.smece import smece_and_width, smece_if_calibrated, smece_statistic

COVERAGES = (0.5, 0.8)
RISKS = (0.05, 0.1, 0.2)


def evaluate(
    confidence: ArrayLike,
    correct: ArrayLike,
    groups: ArrayLike | None = None,
    seed: int = 0,
    *,
    base_rate: float | None = None,
    resamples: int = 1000,
) -> dict[str, Estimate]:
    """Every metric of probabilities against labels, by name, with 95 % intervals.

    Names: accuracy, auroc, brier, brier_base_rate, brier_minus_base_rate, log_loss, smece, ece_squared_debiased, aurc,
    selective_accuracy_at_50_coverage, …_at_80_coverage, coverage_at_risk_05, …_10, …_20.

    Proportions have Beta(1, 1) intervals (those of selective accuracy hold the threshold fixed; their n is the number
    of answered rows), calibration errors centred bootstrap intervals (smECE's begins at 0
    where a calibrated forecaster would show as much), the rest percentile bootstrap intervals.

    Args:
        confidence: probabilities of being right, shape (n,).
        correct: labels 0 or 1, shape (n,).
        groups: rows that belong together (one conversation, near-duplicates), shape (n,); drawn together.
        seed: of every bootstrap.
        base_rate: constant forecast fitted elsewhere; None: the share of right rows here.

    Returns:
        Estimates; where a metric is not defined on these rows (AUROC of one class) value None and a reason.

    Raises:
        BadInput: not probabilities, not labels, lengths differ, groups do not fit, or no rows.
    """
    numbers, labels = check_scored(confidence, correct, probabilities=True)
    n = labels.size
    codes = check_groups(groups, n)
    rate = check_base_rate(base_rate)

    def drawn(name: str, statistic: Statistic, *, undefined: str = "no rows", centred: bool = False) -> Estimate:
        return estimate(
            name,
            statistic,
            n,
            undefined=undefined,
            groups=codes,
            seed=seed,
            resamples=resamples,
            method="centred" if centred else "percentile",
            bounds=(0.0, np.inf) if name == "log_loss" else (-1.0 if name == "ece_squared_debiased" else 0.0, 1.0),
        )

    smece, width = smece_and_width(numbers, labels)
    found = [
        proportion("accuracy", labels, groups=codes),
        _auroc(drawn("auroc", auroc_statistic(numbers, labels), undefined=_one_class(labels)), labels, codes),
        drawn("brier", brier_statistic(numbers, labels)),
        drawn("brier_base_rate", base_rate_statistic(labels, rate)),
        brier_minus_base_rate(numbers, labels, base_rate=rate, groups=codes, seed=seed, resamples=resamples),
        drawn("log_loss", log_loss_statistic(numbers, labels)),
        _smece(drawn("smece", smece_statistic(numbers, labels, width), centred=True), numbers, smece, width, seed),
        drawn(
            "ece_squared_debiased",
            debiased_squared_ece_statistic(numbers, labels),
            undefined="needs two rows",
            centred=True,
        ),
        drawn("aurc", aurc_statistic(numbers, labels)),
    ]
    for coverage in COVERAGES:
        answered = answered_at_coverage(numbers, coverage)
        name = f"selective_accuracy_at_{round(100 * coverage)}_coverage"
        found.append(proportion(name, labels[answered], groups=codes[answered]))
    for risk in RISKS:
        name = f"coverage_at_risk_{round(100 * risk):02d}"
        found.append(drawn(name, coverage_at_risk_statistic(numbers, labels, risk)))
    return {item.name: item for item in found}


def _one_class(labels: Floats) -> str:
    return f"all {labels.size} rows are {'right' if labels[0] else 'wrong'}: AUROC needs both"


def _smece(found: Estimate, confidence: Floats, value: float, width: float, seed: int) -> Estimate:
    """The estimate moved to relplot's own value: its rounding to a grid shifts that by about one per cent."""
    if found.value is None or found.low is None or found.high is None:
        return found.model_copy(update={"value": value})
    low, high = (min(max(end + value - found.value, 0.0), 1.0) for end in (found.low, found.high))
    if value <= smece_if_calibrated(confidence, width, seed=seed):
        low = 0.0
    return found.model_copy(update={"value": value, "low": min(low, value), "high": max(high, value)})


def _auroc(found: Estimate, labels: Floats, codes: NDArray[np.intp]) -> Estimate:
    """With perfect separation every resample is perfect too; the interval then comes from the rarer class's count."""
    if found.value not in (0.0, 1.0):
        return found
    rarer = min(np.unique(codes[labels == label]).size for label in (0.0, 1.0))
    exact = proportion("auroc", np.full(rarer, found.value))
    return found.model_copy(update={"low": exact.low, "high": exact.high, "reason": None})
