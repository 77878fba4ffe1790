"""Fusion: many signals, some missing, into one log-odds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import BadInput
from .calibration.base import checked_grades, checked_weights
from .estimator import Estimator
from .gaussian import SignalGaussian, patterns
from .logistic import choose_strength, fit_coefficients
from .trusted import trust_in

Floats = NDArray[np.float64]

STRENGTHS = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


@dataclass(frozen=True)
class Fused:
    """What fusion says about n rows; R sets of coefficients, the first being the fitted one.

    Attributes:
        log_odds: (n, R) fused log-odds.
        average: (n,) log-odds of the average call that misses the same signals.
        share: (n,) share of the variance of the log-odds that the observed signals explain, in [0, 1].
        contributions: (n, m) log-odds that each kept signal added to `average`; 0 where missing. They add up to
            log_odds[:, 0] - average.
        observed: (n, m) which kept signals were there.
    """

    log_odds: Floats
    average: Floats
    share: Floats
    contributions: Floats
    observed: NDArray[np.bool_]


class LogisticFusion(Estimator):
    """L2 logistic regression on standardised signals that marginalises over missing ones.

    Coefficients of the signals in `trusted.TRUSTED` are penalised less, so that few labels give what these say and many
    give what the labels say.

    With w the coefficients, missing signals m and observed ones o: the log-odds are b + w_o z_o + w_m E[z_m | z_o],
    divided by sqrt(1 + pi/8 v), v = w_m' Cov[z_m | z_o] w_m: MacKay's approximation of the mean of a sigmoid under a
    Gaussian (Neural Computation 4, 1992). So the less is known, the closer to even odds. See `SignalGaussian` for
    standardising, cutting at +-5 and the covariance.

    Args:
        names: the k signals, in the order of the columns.
        C: inverse strength; None chooses it by grouped cross-validation of the log loss over `STRENGTHS`.

    Attributes (after `fit`):
        gaussian_: the standardiser and covariance.
        names_: the m signals that are kept; `gaussian_.notes_` says why others are not.
        coefficients_: (m,); intercept_: float; C_: the strength used.
    """

    def __init__(self, names: Sequence[str], *, C: float | None = None) -> None:
        self.names = tuple(names)
        self.C = C

    def fit(
        self,
        values: Floats,
        correct: ArrayLike,
        folds: NDArray[np.integer] | None = None,
        weights: ArrayLike | None = None,
    ) -> LogisticFusion:
        """Fit on (n, k) values with NaN where missing.

        Raises:
            BadInput: shapes disagree, one class only, no usable signal, or neither C nor folds given.
        """
        if values.ndim != 2 or values.shape[1] != len(self.names):
            raise BadInput(f"values have shape {values.shape}; (rows, {len(self.names)}) is needed")
        y, w = checked_grades(correct, len(values)), checked_weights(weights, len(values))
        if np.unique(y[w > 0.0]).size < 2:
            raise BadInput(f"{len(y)} rows hold one class only; both right and wrong ones are needed")
        self.gaussian_ = SignalGaussian().fit(values, w, self.names)
        self.names_ = tuple(self.names[column] for column in self.gaussian_.columns_)
        if not self.names_:
            raise BadInput(f"no usable signal: {self.gaussian_.notes_ or 'none given'}")
        filled = self.filled(values)
        if self.C is not None:
            self.C_ = self.C
        elif folds is not None:
            self.C_ = choose_strength(filled, y, w, folds, STRENGTHS, self.trust)
        else:
            raise BadInput("give C, or folds to choose it by")
        self.coefficients_, self.intercept_ = fit_coefficients(filled, y, w, self.C_, self.trust)
        return self

    @property
    def trust(self) -> Floats:
        """(m,) how far each kept signal is trusted beforehand."""
        return trust_in(self.names_)

    def filled(self, values: Floats) -> Floats:
        """(n, m) standardised kept signals, missing ones at their conditional mean."""
        return self.gaussian_.fill(self.gaussian_.standardise(values))

    def predict(self, values: Floats, coefficients: Floats | None = None, intercepts: Floats | None = None) -> Fused:
        """Fuse (n, k) values.

        Args:
            coefficients, intercepts: (R-1, m) and (R-1,) of refits to evaluate beside the fitted ones.
        """
        extra = np.empty((0, len(self.names_))) if coefficients is None else coefficients
        w = np.vstack([self.coefficients_[None, :], extra])
        b = np.concatenate([[self.intercept_], [] if intercepts is None else intercepts])
        z = self.gaussian_.standardise(values)
        observed = ~np.isnan(z)
        log_odds = np.empty((len(z), len(w)))
        average, share = np.empty(len(z)), np.empty(len(z))
        contributions = np.zeros_like(z)
        total = float(w[0] @ self.gaussian_.covariance_ @ w[0])
        for pattern, rows in patterns(z):
            gain, residual = self.gaussian_.conditional(pattern)
            effective = w[:, pattern] + w[:, ~pattern] @ gain
            unknown = np.maximum(np.einsum("ri,ij,rj->r", w[:, ~pattern], residual, w[:, ~pattern]), 0.0)
            shrink = 1.0 / np.sqrt(1.0 + np.pi / 8.0 * unknown)
            seen = z[np.ix_(rows, pattern)]
            log_odds[rows] = (seen @ effective.T + b) * shrink
            average[rows] = b[0] * shrink[0]
            contributions[np.ix_(rows, pattern)] = seen * (effective[0] * shrink[0])
            share[rows] = 1.0 - unknown[0] / total if total > 1e-12 else pattern.mean()
        return Fused(log_odds, average, np.clip(share, 0.0, 1.0), contributions, observed)
