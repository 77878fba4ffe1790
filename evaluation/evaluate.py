"""All metrics of calibrated confidences at once, each with its interval."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import BadInput
from .estimate import Estimate
from .evaluate_related import along_conversations, within_questions
from .inputs import Floats, check_groups, check_scored
from .metrics.bootstrap import Measured, estimates
from .metrics.brier import base_rate_statistic, brier_statistic, check_base_rate
from .metrics.proportion import proportion
from .metrics.registry import COVERAGES, METRICS, coverage_name
from .metrics.risk_coverage import answered_at_coverage
from .metrics.smece import NULL_DRAWS, at_relplot, excess_of, smece_and_width, smece_if_calibrated, smece_statistic

# Where a perfect score leaves no resample that is less than perfect.
_PERFECT = ("auroc", "auprc_right", "auprc_wrong")


def evaluate(
    confidence: ArrayLike,
    correct: ArrayLike,
    groups: ArrayLike | None = None,
    seed: int = 0,
    *,
    base_rate: float | None = None,
    questions: ArrayLike | None = None,
    conversations: ArrayLike | None = None,
    turns: ArrayLike | None = None,
    resamples: int = 1000,
    null_draws: int = NULL_DRAWS,
) -> dict[str, Estimate]:
    """Every metric of probabilities against labels, by name, with 95 % intervals.

    Names: accuracy, those of `METRICS`, and brier_base_rate and brier_minus_base_rate; with questions
    within_question_discrimination and within_question_ties; with conversations and turns info_ece and turn_trend.

    Proportions have Beta(1, 1) intervals (those of selective accuracy hold the threshold fixed; their n is the number
    of answered rows), calibration errors centred bootstrap intervals (smECE's begins at 0
    where a calibrated forecaster would show as much), the rest percentile bootstrap intervals. All are drawn from the
    same resamples.

    Args:
        confidence: probabilities of being right, shape (n,).
        correct: labels 0 or 1, shape (n,).
        groups: rows that belong together (one conversation, near-duplicates), shape (n,); drawn together.
        seed: of every draw.
        base_rate: constant forecast fitted elsewhere; None: the share of right rows here.
        questions: which question each row answers, shape (n,); worth giving where one has several answers.
        conversations, turns: which conversation each row belongs to and its place in it, from 1; shape (n,).
        null_draws: how often labels are redrawn for `smece_excess`.

    Returns:
        Estimates; where a metric is not defined on these rows (AUROC of one class) value None and a reason.

    Raises:
        BadInput: not probabilities, not labels, lengths differ, groups do not fit, no rows, or one of conversations
            and turns without the other.
        ConfigurationError: fewer than 100 resamples or redraws.
    """
    numbers, labels = check_scored(confidence, correct, probabilities=True)
    n = labels.size
    codes = check_groups(groups, n)
    if (conversations is None) != (turns is None):
        raise BadInput("conversations and turns belong together; give both or neither")
    smece, width = smece_and_width(numbers, labels)
    expected = smece_if_calibrated(numbers, draws=null_draws, seed=seed)

    at_width = smece_statistic(numbers, labels, width)
    wanted = [
        Measured("smece", at_width, "no rows", "centred", (0.0, 1.0)),
        *(each.measured(numbers, labels) for name, each in METRICS.items() if name not in _APART),
        *_against_base_rate(numbers, labels, check_base_rate(base_rate)),
    ]
    found = {item.name: item for item in estimates(wanted, n, groups=codes, seed=seed, resamples=resamples)}
    found["smece"] = at_relplot(found["smece"], smece)
    found["smece_excess"] = excess_of(found["smece"], expected)
    if smece <= expected and found["smece"].low is not None:
        found["smece"] = found["smece"].model_copy(update={"low": 0.0})
    for name in _PERFECT:
        found[name] = _if_perfect(found[name], labels, codes)
    found["accuracy"] = proportion("accuracy", labels, groups=codes)
    for coverage in COVERAGES:
        answered = answered_at_coverage(numbers, coverage)
        name = coverage_name(coverage)
        found[name] = proportion(name, labels[answered], groups=codes[answered])
    every = {name: found[name] for name in _ORDER}
    related: list[Estimate] = []
    if questions is not None:
        related += within_questions(numbers, labels, questions, groups=groups, seed=seed, resamples=resamples)
    if conversations is not None and turns is not None:
        related += along_conversations(
            numbers, labels, conversations, turns, groups=groups, seed=seed, resamples=resamples
        )
    return every | {each.name: each for each in related}


# Not from the registry: their estimates are made here.
_APART = frozenset({"smece", "smece_excess", *map(coverage_name, COVERAGES)})


def _order() -> tuple[str, ...]:
    names = ["accuracy", *METRICS]
    after_brier = names.index("brier") + 1
    return (*names[:after_brier], "brier_base_rate", "brier_minus_base_rate", *names[after_brier:])


_ORDER = _order()


def _against_base_rate(numbers: Floats, labels: Floats, rate: float | None) -> list[Measured]:
    ours, constant = brier_statistic(numbers, labels), base_rate_statistic(labels, rate)
    return [
        Measured("brier_base_rate", constant, "no rows", bounds=(0.0, 1.0)),
        Measured(
            "brier_minus_base_rate", lambda weights: ours(weights) - constant(weights), "no rows", bounds=(-1.0, 1.0)
        ),
    ]


def _if_perfect(found: Estimate, labels: Floats, codes: NDArray[np.intp]) -> Estimate:
    """With perfect separation every resample is perfect too; the interval then comes from the rarer class's count."""
    if labels.min() == labels.max() or not (found.value == 1.0 or (found.name == "auroc" and found.value == 0.0)):
        return found
    rarer = min(np.unique(codes[labels == label]).size for label in (0.0, 1.0))
    exact = proportion(found.name, np.full(rarer, found.value))
    return found.model_copy(update={"low": exact.low, "high": exact.high, "reason": None})
