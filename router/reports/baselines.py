"""What the model's own probability comes to without Demur, beside the fused confidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.decision import Route
from ...core.errors import NotEnoughLabels
from ...evaluation.estimate import Estimate
from ...evaluation.inputs import Floats
from ...evaluation.metrics.auroc import auroc_statistic
from ...evaluation.metrics.bootstrap import Statistic, estimate
from ...evaluation.metrics.brier import brier_statistic
from ...evaluation.metrics.proportion import proportion
from ...evaluation.metrics.risk_coverage import aurc
from ...evaluation.metrics.smece import smece
from ...probes.baselines.base import Baseline
from ...probes.baselines.four_tier import PAPER
from ...probes.baselines.hallunox import HALLUNOX
from ...probes.baselines.histogram_regression import HistogramRegression
from ...probes.baselines.kernel_regression import KernelRegression
from ...probes.baselines.route_tiers import RouteTiers
from ...probes.folds import grouped_folds
from .curves import utility_over_thresholds
from .judged import MEAN_LOGPROB, SUM_LOGPROB, Judged

_FOLDS = 5


@dataclass(frozen=True)
class Compared:
    """One way to a confidence, on the rows on which all of them have one.

    Attributes:
        note: where its numbers come from.
        confidence: (m,) probabilities of those rows.
        auroc, brier: with intervals; AUROC has no value where all rows are of one class.
        smece, aurc: their values.
        utility: mean worth of a call at thresholds .1, .5 and .9.
    """

    name: str
    note: str
    confidence: Floats
    auroc: Estimate
    brier: Estimate
    smece: float
    aurc: float
    utility: tuple[float, float, float]


@dataclass(frozen=True)
class Tier:
    """What falls into one tier: where it goes, rows of it, and how many of these were right."""

    route: Route
    low: float
    high: float
    rows: int
    right: int
    accuracy: Estimate


@dataclass(frozen=True)
class Comparison:
    """All baselines.

    Attributes:
        rows: (n,) which of the judged rows are compared.
        methods: the fused confidence first.
        missing: what could not be compared, and why.
    """

    rows: NDArray[np.bool_]
    methods: tuple[Compared, ...]
    missing: tuple[str, ...]


def compare(data: Judged, *, seed: int = 0) -> Comparison:
    """The fused confidence, the base rate, and what can be made of log-probabilities alone.

    Histogram and kernel regression need grades. An artefact does not keep raw log-probabilities, so they are
    cross-fitted on the evaluated rows themselves: each row is predicted by a fit on the other folds. That suits them
    better than an artefact, which comes from other rows.
    """
    everything = np.ones(data.n, dtype=np.bool_)
    base_rate = data.fitted_right / data.fitted_rows if data.fitted_rows else float(data.correct.mean())
    total = data.signals.get(SUM_LOGPROB)
    if total is None:
        reason = "No row has log-probabilities, so there is no raw confidence to compare with."
        return Comparison(
            everything,
            _measured([("Demur", "fused", data.confidence), _base_rate(base_rate, data.n)], data, everything, seed),
            (reason,),
        )
    there = np.isfinite(total)
    clipped = np.minimum(total[there], 0.0)  # rounding can put a log-probability just above 0
    methods = [
        ("Demur", "fused from all signals", data.confidence[there]),
        _base_rate(base_rate, int(there.sum())),
        ("raw", "exp of the sum of log-probabilities", np.exp(clipped)),
    ]
    mean = data.signals.get(MEAN_LOGPROB)
    if mean is not None and np.isfinite(mean[there]).all():
        methods.append(("raw, per token", "exp of the mean log-probability", np.exp(np.minimum(mean[there], 0.0))))
    missing: list[str] = []
    try:
        folds = grouped_folds(data.groups[there], data.correct[there], _FOLDS, seed)
    except NotEnoughLabels:
        missing.append("There are too few right or wrong rows to cross-fit histogram and kernel regression.")
    else:
        for name, note, kind in (
            ("histogram", "25 equal bins of raw confidence", HistogramRegression),
            ("kernel regression", "Nadaraya–Watson on raw confidence", KernelRegression),
        ):
            fitted = cross_fitted(kind(SUM_LOGPROB), clipped, data.correct[there], folds)
            methods.append((name, f"{note}; cross-fitted on these very rows", fitted))
    left_out = data.n - int(there.sum())
    if left_out:
        missing.append(f"{left_out} rows without log-probabilities are left out of this comparison.")
    return Comparison(there, _measured(methods, data, there, seed), tuple(missing))


def cross_fitted(baseline: Baseline, total: Floats, correct: Floats, folds: NDArray[np.int64]) -> Floats:
    """(m,) predictions, each by a fit on the rows of other folds.

    Args:
        baseline: reads `SUM_LOGPROB`; fitted anew for each fold.
    """
    found = np.empty(total.size)
    for fold in np.unique(folds):
        held_out = folds == fold
        baseline.fit({SUM_LOGPROB: total[~held_out]}, correct[~held_out])
        found[held_out] = baseline.predict({SUM_LOGPROB: total[held_out]})
    return np.clip(found, 0.0, 1.0)  # a weighted mean of ones can come out above 1 by rounding


def tiers(confidence: Floats, correct: Floats, groups: NDArray[np.integer], cuts: RouteTiers) -> list[Tier]:
    """Rows and accuracy in each of four fixed tiers, the surest first."""
    levels = cuts.levels(confidence)
    ends = (0.0, *cuts.edges, 1.0)
    routes = (Route.DEFER, Route.ESCALATE, Route.RETRIEVE, Route.ANSWER)
    found = []
    for level in (3, 2, 1, 0):
        inside = levels == level
        rows = int(inside.sum())
        share = proportion(routes[level].value, correct[inside], groups=groups[inside] if rows else None)
        found.append(Tier(routes[level], ends[level], ends[level + 1], rows, int(correct[inside].sum()), share))
    return found


CUTS = (("the routing paper (arXiv 2510.01237)", PAPER), ("HalluNox 0.6.3", HALLUNOX))


def _base_rate(rate: float, rows: int) -> tuple[str, str, Floats]:
    return "base rate", "always the share of right rows in the fitted data", np.full(rows, rate)


def _measured(
    methods: list[tuple[str, str, Floats]], data: Judged, rows: NDArray[np.bool_], seed: int
) -> tuple[Compared, ...]:
    correct, groups = data.correct[rows], data.groups[rows]

    def drawn(name: str, statistic: Statistic) -> Estimate:
        return estimate(
            name,
            statistic,
            correct.size,
            undefined="all rows are of one class",
            groups=groups,
            seed=seed,
            bounds=(0.0, 1.0),
        )

    found = []
    for name, note, confidence in methods:
        low, middle, high = utility_over_thresholds(confidence, correct, np.array([0.1, 0.5, 0.9]))
        found.append(
            Compared(
                name,
                note,
                confidence,
                auroc=drawn("auroc", auroc_statistic(confidence, correct)),
                brier=drawn("brier", brier_statistic(confidence, correct)),
                smece=smece(confidence, correct),
                aurc=aurc(confidence, correct),
                utility=(float(low), float(middle), float(high)),
            )
        )
    return tuple(found)
