"""The numbers behind the pictures: each curve agrees with the metric of the same name."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...core.utility import Utility
from ...evaluation.inputs import Floats
from ...evaluation.metrics.smece import smece_and_width

MESH = 101
"""Confidences at which the smooth curve is worked out."""
FEWEST_ROWS = 5.0
"""The smooth curve is drawn where rows nearby, weighed by the kernel, come to so many, or to a sixth of few rows."""
NARROWEST, WIDEST = 0.04, 0.1
"""A narrower kernel would follow single rows, a wider one would iron out what it should show."""
RESAMPLES = 500
_BLOCK = 2_000_000


@dataclass(frozen=True)
class Reliability:
    """How often answers of each confidence were right, smoothed.

    Attributes:
        confidence: (k,) places at which enough rows speak.
        observed: (k,) smoothed share of right answers.
        low, high: (k,) pointwise 95 % bootstrap band; NaN where it cannot be drawn.
        rows: (k,) rows behind each point, weighed by the kernel: one at the place counts 1, one a width away .61.
        width: standard deviation of the kernel.
    """

    confidence: Floats
    observed: Floats
    low: Floats
    high: Floats
    rows: Floats
    width: float

    def parts(self) -> list[slice]:
        """The stretches without a gap: where too few rows speak nothing is drawn across."""
        if not self.confidence.size:
            return []
        breaks = np.flatnonzero(np.diff(self.confidence) > 1.5 / (MESH - 1)) + 1
        ends = [0, *breaks.tolist(), self.confidence.size]
        return [slice(start, end) for start, end in pairwise(ends)]


def reliability(
    confidence: Floats, correct: Floats, groups: NDArray[np.integer], *, seed: int = 0, resamples: int = RESAMPLES
) -> Reliability:
    """Kernel regression of right − confidence on confidence, drawn on top of the diagonal.

    smECE (arXiv 2309.12236) measures these smoothed residuals; smoothing right itself would flatten the ends of a
    perfectly calibrated curve. Its reflected Gaussian kernel, and its own width, kept within `NARROWEST` and `WIDEST`.

    Args:
        confidence: (n,) probabilities.
        correct: (n,) of 0 and 1.
        groups: (n,) rows of one group are drawn together.
    """
    _, width = smece_and_width(confidence, correct)
    width = min(max(width, NARROWEST), WIDEST)
    mesh = np.linspace(0.0, 1.0, MESH)
    kernel = np.zeros((confidence.size, MESH))
    for image in (confidence, -confidence, 2.0 - confidence):
        kernel += np.exp(-((image[:, None] - mesh[None, :]) ** 2) / (2.0 * width**2))
    rows = np.minimum(kernel, 1.0).sum(axis=0)
    spread = width / 2.0
    inside = (mesh >= confidence.min() - spread) & (mesh <= confidence.max() + spread)
    shown = inside & (rows >= min(FEWEST_ROWS, confidence.size / 6.0))
    kernel, rows = kernel[:, shown], rows[shown]
    places, residual = mesh[shown], correct - confidence
    observed = np.clip(places + (residual @ kernel) / kernel.sum(axis=0), 0.0, 1.0)
    low, high = (np.clip(places + end, 0.0, 1.0) for end in _band(kernel, residual, groups, seed, resamples))
    return Reliability(places, observed, np.minimum(low, observed), np.maximum(high, observed), rows, width)


def _band(
    kernel: Floats, residual: Floats, groups: NDArray[np.integer], seed: int, resamples: int
) -> tuple[Floats, Floats]:
    names, codes = np.unique(groups, return_inverse=True)
    empty = np.full(kernel.shape[1], np.nan)
    if names.size < 2 or not kernel.shape[1]:
        return empty, empty
    generator = np.random.default_rng(seed)
    off = kernel * residual[:, None]
    draws = []
    block = max(1, _BLOCK // codes.size)
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        drawn = generator.integers(0, names.size, size=(size, names.size))
        flat = (drawn + names.size * np.arange(size)[:, None]).ravel()
        times = np.bincount(flat, minlength=size * names.size).reshape(size, names.size)[:, codes].astype(np.float64)
        mass = times @ kernel
        draws.append(np.divide(times @ off, mass, out=np.full_like(mass, np.nan), where=mass > 1e-9))
    found = np.concatenate(draws)
    low, high = np.nanquantile(found, [0.025, 0.975], axis=0)
    return low, high


@dataclass(frozen=True)
class Histogram:
    """Right and wrong answers by confidence, in bins of equal width; the last bin holds 1."""

    edges: Floats
    right: NDArray[np.int64]
    wrong: NDArray[np.int64]


def histogram(confidence: Floats, correct: Floats, bins: int = 20) -> Histogram:
    """Counts; they add up to the rows."""
    edges = np.linspace(0.0, 1.0, bins + 1)
    right, _ = np.histogram(confidence[correct == 1.0], edges)
    wrong, _ = np.histogram(confidence[correct == 0.0], edges)
    return Histogram(edges, right.astype(np.int64), wrong.astype(np.int64))


@dataclass(frozen=True)
class Roc:
    """Share of wrong answers let through (x) against share of right ones kept (y), strictest threshold first."""

    wrong_kept: Floats
    right_kept: Floats

    @property
    def area(self) -> float:
        """Equals AUROC."""
        return float(np.trapezoid(self.right_kept, self.wrong_kept))


def roc(scores: Floats, correct: Floats) -> Roc | None:
    """The curve of scores on any scale (higher is surer); None where all rows are of one class."""
    if correct.min() == correct.max():
        return None
    order = np.argsort(-scores, kind="stable")
    ordered, right = scores[order], correct[order]
    last = np.flatnonzero(np.concatenate([ordered[1:] != ordered[:-1], [True]]))
    kept = np.concatenate([[0.0], np.cumsum(right)[last]])
    let_through = np.concatenate([[0.0], np.cumsum(1.0 - right)[last]])
    return Roc(let_through / let_through[-1], kept / kept[-1])


def utility_over_thresholds(confidence: Floats, correct: Floats, thresholds: Floats) -> Floats:
    """Mean worth of a call where answers of a confidence above τ are given, at each τ (MICE's ETCU, arXiv 2504.20168).

    Right +1, withheld 0, wrong −τ/(1−τ): `core.utility.Utility.from_threshold(τ)`.

    Args:
        thresholds: (k,) strictly between 0 and 1.

    Returns:
        (k,).
    """
    values = []
    for threshold in thresholds:
        worth = Utility.from_threshold(float(threshold))
        answered = confidence > threshold
        right = float(correct[answered].sum())
        wrong = float(answered.sum()) - right
        values.append((right * worth.tp + wrong * worth.fp) / confidence.size)
    return np.array(values)
