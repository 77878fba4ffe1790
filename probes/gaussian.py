"""Standardised signals and how they go together: what a missing one probably was, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WINSOR = 5.0
"""Standardised signals are cut at this many standard deviations: one wild value must not decide alone."""

_WILD = 10.0
_LEAST_SHRINKAGE = 1e-3
_FEWEST_VALUES = 10
_PASSES = 2


class SignalGaussian:
    """Mean, spread and covariance of k signals, some missing, in a form that answers conditional questions.

    Centre and spread are taken after cutting each signal at 10 robust standard deviations (1.4826 times the median
    absolute deviation) from its median; then z = (value - centre) / spread, cut at +-5. The covariance of z is
    Ledoit and Wolf's shrunk estimate (J. Multivariate Analysis 88, 2004); rows with missing values enter with
    conditional means plus the conditional covariance, twice over (two steps of EM).

    Attributes (after `fit`):
        columns_: (m,) indices of the columns that are kept, ascending.
        notes_: why the others were dropped.
        centre_, scale_: (m,).
        covariance_: (m, m), positive definite.
    """

    def fit(self, values: Floats, weights: Floats, names: Sequence[str]) -> SignalGaussian:
        """Fit on (n, k) values with NaN where missing, and weights (n,) of mean 1. Grades are not looked at."""
        kept: list[int] = []
        centres: list[float] = []
        scales: list[float] = []
        self.notes_: dict[str, str] = {}
        for column, name in enumerate(names):
            centre, scale, problem = _centre_and_scale(values[:, column], weights)
            if problem:
                self.notes_[name] = problem
                continue
            kept.append(column)
            centres.append(centre)
            scales.append(scale)
        self.columns_ = np.asarray(kept, dtype=np.int64)
        self.centre_ = np.asarray(centres, dtype=np.float64)
        self.scale_ = np.asarray(scales, dtype=np.float64)
        self._fit_covariance(self.standardise(values), weights)
        return self

    def _fit_covariance(self, z: Floats, weights: Floats) -> None:
        self.covariance_ = np.eye(z.shape[1])
        if z.shape[1] == 0:
            return
        missing = np.isnan(z)
        if not missing.any():
            self.covariance_ = _shrunk(z, weights, np.zeros_like(self.covariance_))
            return
        # The first pass knows no correlations, so it fills with means; the next ones know better.
        for _ in range(_PASSES + 1):
            filled, spread = self._fill(z, weights)
            self.covariance_ = _shrunk(filled, weights, spread)

    def standardise(self, values: Floats) -> Floats:
        """(n, k) raw values to (n, m) standardised and cut ones; NaN stays NaN."""
        z = (values[:, self.columns_] - self.centre_) / self.scale_
        return np.clip(z, -WINSOR, WINSOR)

    def fill(self, z: Floats) -> Floats:
        """(n, m) with every NaN replaced by its conditional mean given what the row has."""
        return self._fill(z, np.ones(len(z)))[0]

    def conditional(self, observed: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """For a pattern (m,): the gain (missing, observed) and the residual covariance (missing, missing)."""
        seen, gone = np.flatnonzero(observed), np.flatnonzero(~observed)
        cross = self.covariance_[np.ix_(gone, seen)]
        own = self.covariance_[np.ix_(gone, gone)]
        if seen.size == 0 or gone.size == 0:
            return np.zeros((gone.size, seen.size)), own
        solved = np.linalg.solve(self.covariance_[np.ix_(seen, seen)], cross.T)
        gain = np.asarray(solved.T, dtype=np.float64)
        residual = own - gain @ cross.T
        return gain, np.asarray(0.5 * (residual + residual.T), dtype=np.float64)

    def _fill(self, z: Floats, weights: Floats) -> tuple[Floats, Floats]:
        filled = z.copy()
        spread = np.zeros_like(self.covariance_)
        for observed, rows in patterns(z):
            if observed.all():
                continue
            gain, residual = self.conditional(observed)
            filled[np.ix_(rows, ~observed)] = z[np.ix_(rows, observed)] @ gain.T
            spread[np.ix_(~observed, ~observed)] += weights[rows].sum() * residual
        return filled, np.asarray(spread / max(float(weights.sum()), 1e-12), dtype=np.float64)


def patterns(z: Floats) -> list[tuple[NDArray[np.bool_], NDArray[np.int64]]]:
    """The distinct patterns of what is observed (m,), each with the rows that show it."""
    if len(z) == 0:
        return []
    observed, membership = np.unique(~np.isnan(z), axis=0, return_inverse=True)
    membership = membership.reshape(-1)
    return [(row, np.flatnonzero(membership == number)) for number, row in enumerate(observed)]


def _centre_and_scale(column: Floats, weights: Floats) -> tuple[float, float, str]:
    present = ~np.isnan(column)
    x, w = column[present], weights[present]
    if x.size < _FEWEST_VALUES or w.sum() <= 0.0:
        return 0.0, 1.0, f"dropped: available in {x.size} rows, {_FEWEST_VALUES} are needed"
    median = float(np.median(x))
    robust = 1.4826 * float(np.median(np.abs(x - median)))
    if robust > 0.0:
        x = np.clip(x, median - _WILD * robust, median + _WILD * robust)
    centre = float(np.average(x, weights=w))
    scale = float(np.sqrt(np.average((x - centre) ** 2, weights=w)))
    # Rounding leaves a constant column with a spread of a few ulps.
    if not np.isfinite(scale) or scale <= 1e-10 * max(1e-300, float(np.abs(x).max())) or scale < 1e-200:
        return 0.0, 1.0, f"dropped: constant at {centre:.6g}"
    return centre, scale, ""


def _shrunk(filled: Floats, weights: Floats, extra: Floats) -> Floats:
    from sklearn.covariance import ledoit_wolf_shrinkage

    weighted = filled * np.sqrt(weights)[:, None]
    sample = weighted.T @ weighted / len(filled) + extra
    shrinkage = max(float(ledoit_wolf_shrinkage(weighted, assume_centered=True)), _LEAST_SHRINKAGE)
    if filled.shape[1] == 1:
        return sample
    level = float(np.trace(sample)) / len(sample)
    return (1.0 - shrinkage) * sample + shrinkage * level * np.eye(len(sample))
