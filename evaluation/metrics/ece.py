"""Debiased squared calibration error over equal-mass bins (arXiv 1909.10155)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import ConfigurationError, NotEnoughLabels
from ..inputs import Floats, check_scored
from .bootstrap import Statistic

BINS = 10


def debiased_squared_ece(confidence: ArrayLike, correct: ArrayLike, *, bins: int = BINS) -> float:
    """Σ_b w_b [(p̄_b − ȳ_b)² − ȳ_b (1 − ȳ_b) / (n_b − 1)]: about 0 when calibrated, and below 0 as often as above.

    Equal confidences share a bin, so there may be fewer bins than asked for, and each has two rows or more. A square:
    its root is on the scale of ECE.

    Raises:
        BadInput: not probabilities, not labels, lengths differ, or no rows.
        NotEnoughLabels: a single row.
        ConfigurationError: bins < 1.
    """
    numbers, labels = check_scored(confidence, correct, probabilities=True)
    if labels.size < 2:
        raise NotEnoughLabels("debiased calibration error needs two rows", have=labels.size, need=2)
    return float(debiased_squared_ece_statistic(numbers, labels, bins=bins)(np.ones((1, labels.size)))[0])


def debiased_squared_ece_statistic(confidence: Floats, labels: Floats, *, bins: int = BINS) -> Statistic:
    """The error of resamples, in the bins of all rows; bins of which fewer than two rows were drawn are left out."""
    codes = equal_mass_bins(confidence, bins)
    member = np.eye(int(codes.max()) + 1)[codes]

    def statistic(weights: Floats) -> Floats:
        rows = weights @ member
        used = rows >= 2.0
        safe = np.where(used, rows, 2.0)
        mean_confidence = weights @ (member * confidence[:, None]) / safe
        mean_label = weights @ (member * labels[:, None]) / safe
        terms = (mean_confidence - mean_label) ** 2 - mean_label * (1.0 - mean_label) / (safe - 1.0)
        total = (rows * used).sum(axis=1)
        summed = (rows * np.where(used, terms, 0.0)).sum(axis=1)
        return np.divide(summed, total, out=np.full(len(weights), np.nan), where=total > 0)

    return statistic


def equal_mass_bins(confidence: Floats, bins: int) -> NDArray[np.intp]:
    """Bin of every row, 0 … B−1, in order of confidence; ties together, no bin of a single row (but a single bin)."""
    if bins < 1:
        raise ConfigurationError(f"bins={bins} must be at least 1")
    edges = np.quantile(confidence, np.linspace(0.0, 1.0, bins + 1)[1:-1])
    codes = np.unique(np.searchsorted(edges, confidence, side="right"), return_inverse=True)[1]
    while codes.max() > 0 and (counts := np.bincount(codes)).min() < 2:
        lonely = int(counts.argmin())
        codes = np.where(codes > max(lonely - 1, 0), codes - 1, codes)
    return codes.astype(np.intp)
