"""Stacking: members weighed by how well each judged rows that it was not fitted on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import BadInput
from ..core.signal import Direction
from .calibration.base import sigmoid
from .directions import signs_of
from .ensemble_fusion import EnsembleFusion, Floats
from .fusion import STRENGTHS
from .fusion_members import LinearMember, Member, grow_boosted, grow_forest
from .fusion_settings import BOOSTED, DEFAULTS, FOREST, LOGISTIC, STACKED, VECTORS, FusionSettings
from .logistic import choose_strength, fit_coefficients


class StackedFusion(EnsembleFusion):
    """Logistic regression, forest and boosting, combined on their cross-fitted log-odds (Wolpert, Neural Networks 5,
    1992).

    For each fold the members are fitted on the others and judge it. The weights are those of a logistic regression on
    these log-odds, not negative (Breiman, Machine Learning 24, 1996), and drawn by a ridge towards the plain average,
    so that with few labels stacking is averaging. Then the members are fitted again on all rows.

    Args:
        names: the k signals, in the order of the columns. Those that begin with `hidden.` are the scores of
            hidden-state probes, by which alone the member `vectors` goes; where there are none, or only they, it stays
            away.
        directions: see `BoostedFusion`.
        settings: which members, and theirs.
        seed: of forest and boosting.
        C: inverse strength of the logistic member; None chooses it by the folds.

    Attributes (after `fit`):
        crossfitted_: (n, M) log-odds of each member for the rows it was fitted on, each from the other folds.
    """

    method = STACKED

    def __init__(
        self,
        names: Sequence[str],
        *,
        directions: Mapping[str, Direction] | None = None,
        settings: FusionSettings = DEFAULTS,
        seed: int = 0,
        C: float | None = None,
    ) -> None:
        self.names = tuple(names)
        self.directions = directions
        self.settings = settings
        self.seed = seed
        self.C = C

    def fit(
        self,
        values: Floats,
        correct: ArrayLike,
        folds: NDArray[np.integer] | None = None,
        weights: ArrayLike | None = None,
    ) -> Self:
        """Fit on (n, k) values with NaN where missing, and fold numbers (n,).

        Raises:
            BadInput: shapes disagree, one class only, no usable signal, or no folds.
        """
        if folds is None or np.unique(folds).size < 2:
            raise BadInput("stacking needs at least 2 folds: members are weighed by rows that they were not fitted on")
        z, y, w = self._fit_logistic(values, correct, folds, weights, self.C)
        scores = np.array([name.startswith("hidden.") for name in self.names_])
        mixed = scores.any() and not scores.all()
        self.voices_ = tuple(name for name in self.settings.members if name != VECTORS or mixed) or (LOGISTIC,)
        strength = choose_strength(z[:, scores], y, w, folds, STRENGTHS) if VECTORS in self.voices_ else 0.0
        self.crossfitted_ = self._cross_fit(values, z, y, w, folds, scores, strength)
        self.weights_, self.bias_ = self.weigh(y, w)
        self.members_ = self._members(z, y, w, scores, strength, light=False)
        return self

    def weigh(self, correct: Floats, weights: Floats) -> tuple[Floats, float]:
        """Weights (M,) and bias on the cross-fitted log-odds of the rows it was fitted on, weighed anew."""
        return stack_weights(self.crossfitted_, correct, weights, self.settings.pull)

    def _cross_fit(
        self,
        values: Floats,
        z: Floats,
        y: Floats,
        w: Floats,
        folds: NDArray[np.integer],
        scores: NDArray[np.bool_],
        strength: float,
    ) -> Floats:
        numbers = np.unique(folds)
        found = np.empty((len(z), len(self.voices_)))
        slopes, intercepts = np.empty((len(numbers), z.shape[1])), np.empty(len(numbers))
        for place, fold in enumerate(numbers):
            held_out, train = folds == fold, folds != fold
            slopes[place], intercepts[place] = fit_coefficients(
                z[train], y[train], w[train], self.logistic_.C_, self.logistic_.trust
            )
            members = self._members(z[train], y[train], w[train], scores, strength, light=True)
            for column, name in enumerate(self.voices_):
                if name != LOGISTIC:
                    found[held_out, column] = members[name].log_odds(z[held_out])
        if LOGISTIC in self.voices_:
            said = self.logistic_.predict(values, slopes, intercepts).log_odds[:, 1:]
            found[:, self.voices_.index(LOGISTIC)] = said[np.arange(len(z)), np.searchsorted(numbers, folds)]
        return found

    def _members(
        self, z: Floats, y: Floats, w: Floats, scores: NDArray[np.bool_], strength: float, *, light: bool
    ) -> dict[str, Member]:
        """Those that are not the logistic one, fitted on z (n, m)."""
        forest = self.settings.forest
        if light:
            forest = replace(forest, trees=min(forest.trees, self.settings.cross_fit_trees))
        members: dict[str, Member] = {}
        if FOREST in self.voices_:
            members[FOREST] = grow_forest(z, y, w, forest, self.seed)
        if BOOSTED in self.voices_:
            signs = signs_of(self.names_, self.directions)
            members[BOOSTED] = grow_boosted(z, y, w, self.settings.boosted, signs, self.seed)
        if VECTORS in self.voices_:
            slopes = np.zeros(z.shape[1])
            slopes[scores], intercept = fit_coefficients(z[:, scores], y, w, strength)
            members[VECTORS] = LinearMember(slopes, intercept)
        return members


def stack_weights(log_odds: Floats, correct: Floats, weights: Floats, pull: float) -> tuple[Floats, float]:
    """Weights (M,) >= 0 and a bias that minimise the log loss of bias + log_odds · weights.

    The penalty pull/2 · Σ (weight - 1/M)² draws the weights towards the plain average; the bias is free.

    Args:
        log_odds: (n, M), finite.
        correct, weights: (n,).
    """
    from scipy.optimize import minimize

    count = log_odds.shape[1]

    def loss(at: Floats) -> tuple[float, Floats]:
        said = log_odds @ at[:-1] + at[-1]
        miss = weights * (sigmoid(said) - correct)
        value = weights @ (np.logaddexp(0.0, said) - correct * said)
        away = at[:-1] - 1.0 / count
        gradient = np.append(miss @ log_odds + pull * away, miss.sum())
        return float(value + 0.5 * pull * away @ away), gradient

    start = np.append(np.full(count, 1.0 / count), 0.0)
    bounds = [(0.0, None)] * count + [(None, None)]
    found = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500, "ftol": 1e-13, "gtol": 1e-7}
    )
    return np.asarray(found.x[:-1], dtype=np.float64), float(found.x[-1])
