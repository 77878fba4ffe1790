"""Expected calibration error over bins: the figure of most papers, biased upwards on few rows."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import ConfigurationError
from ..inputs import Floats, check_scored
from .bootstrap import Statistic
from .ece import equal_mass_bins

BINS = 15
Scheme = Literal["equal_width", "equal_mass"]


def binned_ece(confidence: ArrayLike, correct: ArrayLike, *, bins: int = BINS, scheme: Scheme = "equal_width") -> float:
    """Σ_b (n_b / n) |p̄_b − ȳ_b| (Naeini et al. 2015; 15 bins as in arXiv 1706.04599), in [0, 1], 0 is best.

    Not 0 for a calibrated forecaster on finitely many rows, and it changes with the bins: compare at the same n and
    bins only. `smece` and `debiased_squared_ece` are the ones to decide by.

    Args:
        scheme: "equal_width": ((b−1)/B, b/B], 0 in the first. "equal_mass": about n/B rows each, ties together.

    Raises:
        BadInput: not probabilities, not labels, lengths differ, or no rows.
        ConfigurationError: bins < 1, or no such scheme.
    """
    numbers, labels = check_scored(confidence, correct, probabilities=True)
    return float(binned_ece_statistic(numbers, labels, bins=bins, scheme=scheme)(np.ones((1, labels.size)))[0])


def binned_ece_statistic(
    confidence: Floats, labels: Floats, *, bins: int = BINS, scheme: Scheme = "equal_width"
) -> Statistic:
    """The error of resamples, in the bins of all rows."""
    if scheme not in ("equal_width", "equal_mass"):
        raise ConfigurationError(f"scheme={scheme!r} is neither 'equal_width' nor 'equal_mass'")
    codes = equal_width_bins(confidence, bins) if scheme == "equal_width" else equal_mass_bins(confidence, bins)
    used = np.unique(codes, return_inverse=True)[1]
    gaps = np.eye(int(used.max()) + 1)[used] * (confidence - labels)[:, None]

    def statistic(weights: Floats) -> Floats:
        return np.abs(weights @ gaps).sum(axis=1) / weights.sum(axis=1)

    return statistic


def equal_width_bins(numbers: Floats, bins: int) -> NDArray[np.intp]:
    """Bin 0 … bins−1 of every number in [0, 1], shape (n,); an upper edge belongs to the bin below it."""
    if bins < 1:
        raise ConfigurationError(f"bins={bins} must be at least 1")
    return np.searchsorted(np.arange(1, bins) / bins, numbers, side="left").astype(np.intp)
