"""L2 logistic regression and the choice of its strength, shared by fusion and hidden-state probes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def fit_coefficients(
    features: Floats, correct: Floats, weights: Floats, C: float, trust: Floats | None = None
) -> tuple[Floats, float]:
    """Coefficients (k,) and intercept of an L2 logistic regression (the intercept is free).

    Args:
        features: (n, k), finite.
        correct: (n,) of 0.0 and 1.0, both present among rows of positive weight.
        C: inverse strength, as scikit-learn counts it.
        trust: (k,) above 0: a coefficient may be so many times as large at the same penalty; None: all alike.
    """
    from sklearn.linear_model import LogisticRegression

    present = weights > 0.0
    model = LogisticRegression(C=C, solver="newton-cholesky", max_iter=200, tol=1e-8)
    scale = np.ones(features.shape[1]) if trust is None else trust
    model.fit(features[present] * scale, correct[present], sample_weight=weights[present])
    return np.ravel(np.asarray(model.coef_, dtype=np.float64)) * scale, float(np.ravel(model.intercept_)[0])


def choose_strength(
    features: Floats,
    correct: Floats,
    weights: Floats,
    folds: NDArray[np.integer],
    grid: Sequence[float],
    trust: Floats | None = None,
) -> float:
    """The C of the grid with the lowest cross-validated log loss; ties go to the smaller.

    Folds whose training part lacks a class are left out of the comparison.
    """
    losses = np.zeros(len(grid))
    for fold in np.unique(folds):
        held_out = folds == fold
        train = ~held_out
        if np.unique(correct[train & (weights > 0.0)]).size < 2:
            continue
        for place, C in enumerate(grid):
            coefficients, intercept = fit_coefficients(features[train], correct[train], weights[train], C, trust)
            log_odds = features[held_out] @ coefficients + intercept
            loss = np.logaddexp(0.0, log_odds) - correct[held_out] * log_odds
            losses[place] += float(weights[held_out] @ loss)
    order = sorted(range(len(grid)), key=lambda place: (losses[place], grid[place]))
    return float(grid[order[0]])
