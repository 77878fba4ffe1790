"""A network with one hidden layer on few features: fitted by scikit-learn, kept as arrays, evaluated by numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.errors import BadInput

Floats = NDArray[np.float64]

_ITERATIONS = 200


@dataclass(frozen=True)
class HiddenLayer:
    """log-odds = max(x @ weights + bias, 0) @ output + intercept.

    Attributes:
        weights: (features, units); bias, output: (units,).

    Raises:
        BadInput: shapes disagree, or a value is not finite.
    """

    weights: Floats
    bias: Floats
    output: Floats
    intercept: float

    def __post_init__(self) -> None:
        units = self.bias.shape
        if self.weights.ndim != 2 or len(units) != 1 or self.weights.shape[1:] != units or self.output.shape != units:
            raise BadInput(
                f"a hidden layer has weights {self.weights.shape}, bias {units} and output {self.output.shape}; "
                "(features, units), (units,) and (units,) are needed"
            )
        parts = (self.weights, self.bias, self.output, np.asarray(self.intercept))
        if self.weights.size == 0 or not all(np.isfinite(part).all() for part in parts):
            raise BadInput("a hidden layer is empty or holds values that are not finite")

    def log_odds(self, x: Floats) -> Floats:
        """(n,) for x (n, features)."""
        return np.maximum(x @ self.weights + self.bias, 0.0) @ self.output + self.intercept


def fit_hidden_layer(x: Floats, correct: Floats, weights: Floats, C: float, units: int, seed: int) -> HiddenLayer:
    """Fit by scikit-learn's MLPClassifier (relu, L-BFGS).

    Args:
        x: (n, k), finite.
        correct: (n,) of 0.0 and 1.0, both present among rows of positive weight.
        weights: (n,) of mean about 1.
        C: inverse strength of the L2 penalty, on the scale of `fit_coefficients`: scikit-learn's alpha is 1 / C.
        seed: of the starting weights.
    """
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    present = weights > 0.0
    model = MLPClassifier((units,), solver="lbfgs", alpha=1.0 / C, random_state=seed, max_iter=_ITERATIONS)
    with warnings.catch_warnings():
        # Stopped after so many steps it is a fit like any other, and cross-validation judges it.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x[present], correct[present].astype(np.int64), sample_weight=weights[present])
    first, second = (np.asarray(block, dtype=np.float64) for block in model.coefs_)
    bias, intercept = (np.asarray(block, dtype=np.float64) for block in model.intercepts_)
    return HiddenLayer(first, bias, np.ravel(second), float(intercept[0]))


def choose_hidden_layer_strength(
    x: Floats,
    correct: Floats,
    weights: Floats,
    folds: NDArray[np.integer],
    grid: Sequence[float],
    units: int,
    seed: int,
) -> float:
    """The C of the grid with the lowest cross-validated log loss; ties go to the smaller, folds without both classes in
    their training part are left out (as `choose_strength`)."""
    losses = np.zeros(len(grid))
    for fold in np.unique(folds):
        held_out = folds == fold
        train = ~held_out
        if np.unique(correct[train & (weights > 0.0)]).size < 2:
            continue
        for place, C in enumerate(grid):
            layer = fit_hidden_layer(x[train], correct[train], weights[train], C, units, seed)
            log_odds = layer.log_odds(x[held_out])
            losses[place] += float(weights[held_out] @ (np.logaddexp(0.0, log_odds) - correct[held_out] * log_odds))
    order = sorted(range(len(grid)), key=lambda place: (losses[place], grid[place]))
    return float(grid[order[0]])
