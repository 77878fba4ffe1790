"""Fusion by trees: a random forest, gradient boosting, and what they share with stacking."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.signal import Direction
from .calibration.base import checked_grades, checked_weights
from .directions import signs_of
from .estimator import Estimator
from .fusion import Fused, LogisticFusion
from .fusion_members import Member, grow_boosted, grow_forest
from .fusion_settings import BOOSTED, BOOSTED_TREES, FOREST, LOGISTIC, MICE_FOREST, BoostedSettings, ForestSettings
from .gaussian import SignalGaussian, patterns

Floats = NDArray[np.float64]

LOGISTIC_C = 0.5
"""Strength of the logistic member where no folds are given to choose it by (that of MICE, arXiv 2504.20168)."""


class EnsembleFusion(Estimator, ABC):
    """Members that each give log-odds, and a weighted sum of them.

    All read the same matrix: signals standardised, missing ones at their conditional mean given the others
    (`LogisticFusion.filled`), so that what is missing is dealt with once. How much was there to go by (`Fused.share`)
    is what `LogisticFusion` says, which is always fitted beside the members.

    Attributes (after `fit`):
        logistic_: the logistic regression; a voice of its own only where it is in `voices_`.
        voices_: names of the M members.
        members_: those that are not the logistic one, by name.
        weights_: (M,) not negative; bias_: float.
    """

    names: tuple[str, ...]
    method: str
    logistic_: LogisticFusion
    voices_: tuple[str, ...]
    members_: dict[str, Member]
    weights_: Floats
    bias_: float

    @abstractmethod
    def fit(
        self,
        values: Floats,
        correct: ArrayLike,
        folds: NDArray[np.integer] | None = None,
        weights: ArrayLike | None = None,
    ) -> Self:
        """Fit on (n, k) values with NaN where missing, grades (n,), fold numbers (n,) and weights (n,)."""

    @property
    def names_(self) -> tuple[str, ...]:
        """The m signals that are kept."""
        return self.logistic_.names_

    @property
    def gaussian_(self) -> SignalGaussian:
        """Standardiser and covariance."""
        return self.logistic_.gaussian_

    def filled(self, values: Floats) -> Floats:
        """(n, m) standardised kept signals, missing ones at their conditional mean."""
        return self.logistic_.filled(values)

    def voices(self, values: Floats) -> Floats:
        """(n, M) log-odds of each member for (n, k) values."""
        z = self.filled(values)
        said = np.empty((len(z), len(self.voices_)))
        for place, name in enumerate(self.voices_):
            own = self.logistic_.predict(values).log_odds[:, 0] if name == LOGISTIC else self.members_[name].log_odds(z)
            said[:, place] = own
        return said

    def predict(
        self,
        values: Floats,
        coefficients: Floats | None = None,
        intercepts: Floats | None = None,
        stacks: Floats | None = None,
        *,
        explain: bool = True,
    ) -> Fused:
        """Fuse (n, k) values.

        Args:
            coefficients, intercepts: (R-1, m) and (R-1,) refits of the logistic member.
            stacks: (R-1, M+1) refits of weights and bias; None: those that were fitted.
            explain: work out `Fused.contributions` and `Fused.average`; else they are NaN.
        """
        linear = self.logistic_.predict(values, coefficients, intercepts)
        count = linear.log_odds.shape[1]
        fitted = np.append(self.weights_, self.bias_)
        stack = np.tile(fitted, (count, 1)) if stacks is None else np.vstack([fitted, stacks])
        z = self.filled(values)
        log_odds = np.tile(stack[:, -1], (len(z), 1))
        for place, name in enumerate(self.voices_):
            said = linear.log_odds if name == LOGISTIC else self.members_[name].log_odds(z)[:, None]
            log_odds += said * stack[:, place]
        if explain:
            average, contributions = self._explained(values, z, linear)
        else:
            average, contributions = np.full(len(z), np.nan), np.full_like(z, np.nan)
        return Fused(log_odds, average, linear.share, contributions, linear.observed)

    def _explained(self, values: Floats, z: Floats, linear: Fused) -> tuple[Floats, Floats]:
        """Weighted sums of what the members say moved them: (n,) where they start from, (n, m) how far they moved."""
        average = np.full(len(z), self.bias_)
        moved, parts = np.zeros_like(z), np.zeros_like(z)
        for weight, name in zip(self.weights_, self.voices_, strict=True):
            if name == LOGISTIC:
                average += weight * linear.average
                moved += weight * linear.contributions
            else:
                base, own = self.members_[name].explained(z)
                average += weight * base
                parts += weight * own
        left_over = self._credit(values, parts)
        return average + left_over, moved + parts

    def _credit(self, values: Floats, parts: Floats) -> Floats:
        """Hand what filled-in signals moved, in place, to the observed ones that they were filled in from.

        Each gets as much as its share in the sum of the absolute terms of the conditional mean. Returns (n,) what
        nothing observed is behind.
        """
        standard = self.gaussian_.standardise(values)
        left_over = np.zeros(len(parts))
        for pattern, rows in patterns(standard):
            if pattern.all():
                continue
            gone = parts[np.ix_(rows, ~pattern)]
            parts[np.ix_(rows, ~pattern)] = 0.0
            if not pattern.any():
                left_over[rows] = gone.sum(axis=1)
                continue
            gain, _ = self.gaussian_.conditional(pattern)
            pull = np.abs(gain[None, :, :] * standard[np.ix_(rows, pattern)][:, None, :])
            total = pull.sum(axis=2, keepdims=True)
            share = np.where(total > 0.0, pull / np.where(total > 0.0, total, 1.0), 1.0 / pattern.sum())
            parts[np.ix_(rows, pattern)] += np.einsum("rm,rmo->ro", gone, share)
        return left_over

    def _fit_logistic(
        self,
        values: Floats,
        correct: ArrayLike,
        folds: NDArray[np.integer] | None,
        weights: ArrayLike | None,
        strength: float | None,
    ) -> tuple[Floats, Floats, Floats]:
        """The logistic member; returns the filled matrix, grades and weights."""
        chosen = LOGISTIC_C if strength is None and folds is None else strength
        self.logistic_ = LogisticFusion(self.names, C=chosen).fit(values, correct, folds, weights)
        y, w = checked_grades(correct, len(values)), checked_weights(weights, len(values))
        return self.logistic_.filled(values), y, w

    def _alone(self, name: str, member: Member) -> None:
        self.voices_, self.members_ = (name,), {name: member}
        self.weights_, self.bias_ = np.ones(1), 0.0


class ForestFusion(EnsembleFusion):
    """A random forest; the defaults are those of MICE (arXiv 2504.20168): 1000 trees, depth 20, 10 signals a split.

    Deviation: MICE's features are never missing; here a missing one is filled in.

    Args:
        names: the k signals, in the order of the columns.
        trees, depth, max_features, leaf: see `fusion_settings.ForestSettings`.
        seed: of the resampling.
        C: inverse strength of the logistic member; None chooses it where folds are given.
    """

    method = FOREST

    def __init__(
        self,
        names: Sequence[str],
        *,
        trees: int = MICE_FOREST.trees,
        depth: int = MICE_FOREST.depth,
        max_features: int = MICE_FOREST.max_features,
        leaf: int = MICE_FOREST.leaf,
        seed: int = 0,
        C: float | None = None,
    ) -> None:
        self.names = tuple(names)
        self.trees = trees
        self.depth = depth
        self.max_features = max_features
        self.leaf = leaf
        self.seed = seed
        self.C = C

    def fit(
        self,
        values: Floats,
        correct: ArrayLike,
        folds: NDArray[np.integer] | None = None,
        weights: ArrayLike | None = None,
    ) -> Self:
        """Fit on (n, k) values with NaN where missing.

        Raises:
            BadInput: shapes disagree, one class only, or no usable signal.
            ConfigurationError: a setting outside its range.
        """
        settings = ForestSettings(self.trees, self.depth, self.max_features, self.leaf)
        z, y, w = self._fit_logistic(values, correct, folds, weights, self.C)
        self._alone(FOREST, grow_forest(z, y, w, settings, self.seed))
        return self


class BoostedFusion(EnsembleFusion):
    """Gradient boosting that is never less sure where a signal says surer, all others being equal.

    Args:
        names: the k signals, in the order of the columns.
        directions: which way signals point; None: as `directions.standard_direction` says. A signal without a stated
            direction may go either way.
        settings: see there; `monotone=False` lifts the constraint.
        seed: of the choice of signals at each split.
        C: inverse strength of the logistic member; None chooses it where folds are given.
    """

    method = BOOSTED

    def __init__(
        self,
        names: Sequence[str],
        *,
        directions: Mapping[str, Direction] | None = None,
        settings: BoostedSettings = BOOSTED_TREES,
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
        """Fit on (n, k) values with NaN where missing.

        Raises:
            BadInput: shapes disagree, one class only, or no usable signal.
        """
        z, y, w = self._fit_logistic(values, correct, folds, weights, self.C)
        signs = signs_of(self.names_, self.directions)
        self._alone(BOOSTED, grow_boosted(z, y, w, self.settings, signs, self.seed))
        return self
