"""The one optimiser behind the parametric calibrators: logistic likelihood, bounds, a Gaussian prior."""

from __future__ import annotations

import numpy as np

from .base import Floats, sigmoid


def fit_logistic(
    features: Floats,
    targets: Floats,
    weights: Floats,
    *,
    start: Floats,
    lower: Floats,
    upper: Floats,
    prior_mean: Floats | None = None,
    prior_precision: Floats | None = None,
) -> Floats:
    """Maximise sum_i w_i log-likelihood(target_i; sigmoid(features_i . theta)) + log prior within bounds.

    Args:
        features: (n, p). Columns should be of order one.
        targets: (n,) in [0, 1]; smoothed targets are fine.
        start, lower, upper: (p,).
        prior_mean, prior_precision: (p,) of an independent Gaussian; None for none.

    Returns:
        theta (p,). The problem is convex; L-BFGS-B is deterministic.
    """
    from scipy.optimize import minimize

    mean = np.zeros_like(start) if prior_mean is None else prior_mean
    precision = np.zeros_like(start) if prior_precision is None else prior_precision
    total = float(weights.sum())

    def loss(theta: Floats) -> tuple[float, Floats]:
        log_odds = features @ theta
        value = float(weights @ (np.logaddexp(0.0, log_odds) - targets * log_odds))
        gradient = features.T @ (weights * (sigmoid(log_odds) - targets))
        gap = theta - mean
        value += 0.5 * float(precision @ (gap * gap))
        return value / total, (gradient + precision * gap) / total

    result = minimize(
        loss,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(lower, upper, strict=True)),
        options={"maxiter": 500, "ftol": 1e-14, "gtol": 1e-9},
    )
    return np.clip(np.asarray(result.x, dtype=np.float64), lower, upper)
