"""Members of an ensemble: each turns standardised, filled-in signals into log-odds and says what moved them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.errors import BadInput
from .calibration.base import logit
from .fusion_settings import BoostedSettings, ForestSettings
from .tree_ensemble import TreeEnsemble, from_boosting, from_forest, rounded_down

Floats = NDArray[np.float64]


class Member(Protocol):
    """Fitted on the m signals that fusion keeps."""

    def log_odds(self, z: Floats) -> Floats:
        """(n,) for z (n, m)."""
        ...

    def explained(self, z: Floats) -> tuple[float, Floats]:
        """A base, and (n, m) what each signal added to it; with the base they add up to `log_odds`."""
        ...


@dataclass(frozen=True)
class LinearMember:
    """base + z · coefficients (m,); 0 for signals that it does not read."""

    coefficients: Floats
    intercept: float

    def __post_init__(self) -> None:
        if not np.isfinite(self.coefficients).all() or not np.isfinite(self.intercept):
            raise BadInput("a linear member has coefficients that are not finite")

    def log_odds(self, z: Floats) -> Floats:
        return z @ self.coefficients + self.intercept

    def explained(self, z: Floats) -> tuple[float, Floats]:
        return self.intercept, z * self.coefficients


@dataclass(frozen=True)
class ForestMember:
    """A random forest: the mean over its trees of the share p of right rows in the leaf.

    Its log-odds are those of (rows p + 1/2) / (rows + 1): a forest of pure leaves says 0 and 1, which `rows` graded
    calls do not bear out. Its order is that of p. The mean is taken of probabilities, so what a signal moved is told in
    p first and then stretched so that all signals together move the log-odds as far as they moved.

    Attributes:
        trees: values are shares of right rows.
        rows: it was fitted on.
    """

    trees: TreeEnsemble
    rows: int

    def __post_init__(self) -> None:
        if self.rows < 1 or (self.trees.value < 0.0).any() or (self.trees.value > 1.0).any():
            raise BadInput("a forest needs shares of right rows in [0, 1], and at least one row")

    def probability(self, z: Floats) -> Floats:
        """(n,) mean share of right rows: what scikit-learn's `predict_proba` says."""
        return self.trees.sums(z) / len(self.trees)

    def log_odds(self, z: Floats) -> Floats:
        return self._log_odds(self.probability(z))

    def explained(self, z: Floats) -> tuple[float, Floats]:
        root, parts = self.trees.paths(z)
        root, parts = root / len(self.trees), parts / len(self.trees)
        base = float(self._log_odds(np.array([root]))[0])
        moved = parts.sum(axis=1)
        # Where p ends at the base again, the secant is the tangent there.
        softened = (self.rows * root + 0.5) / (self.rows + 1.0)
        tangent = self.rows / (self.rows + 1.0) / (softened * (1.0 - softened))
        far = np.abs(moved) > 1e-9
        slope = np.full(len(z), tangent)
        slope[far] = (self._log_odds(root + moved[far]) - base) / moved[far]
        return base, parts * slope[:, None]

    def _log_odds(self, probability: Floats) -> Floats:
        p = np.clip(probability, 0.0, 1.0)
        return logit((self.rows * p + 0.5) / (self.rows + 1.0))


@dataclass(frozen=True)
class BoostedMember:
    """Gradient-boosted trees: a start plus the sum over trees, in log-odds."""

    trees: TreeEnsemble
    start: float

    def __post_init__(self) -> None:
        if not np.isfinite(self.start):
            raise BadInput("boosted trees start from a value that is not finite")

    def log_odds(self, z: Floats) -> Floats:
        return self.start + self.trees.sums(z)

    def explained(self, z: Floats) -> tuple[float, Floats]:
        root, parts = self.trees.paths(z)
        return self.start + root, parts


def grow_forest(z: Floats, y: Floats, w: Floats, settings: ForestSettings, seed: int) -> ForestMember:
    """Fit scikit-learn's RandomForestClassifier on z (n, m), grades y (n,) and weights w (n,); both classes present."""
    from sklearn.ensemble import RandomForestClassifier

    present = w > 0.0
    model = RandomForestClassifier(
        n_estimators=settings.trees,
        max_depth=settings.depth,
        max_features=min(settings.max_features, z.shape[1]),
        min_samples_leaf=settings.leaf,
        random_state=seed,
        n_jobs=1,
    )
    # With weights, scikit-learn draws otherwise; where all are alike, the forest is to be that of no weights.
    weights = None if np.ptp(w[present]) == 0.0 else w[present]
    model.fit(z[present].astype(np.float32), y[present], sample_weight=weights)
    return ForestMember(from_forest(model, z.shape[1]), int(present.sum()))


def grow_boosted(
    z: Floats, y: Floats, w: Floats, settings: BoostedSettings, signs: NDArray[np.integer], seed: int
) -> BoostedMember:
    """Fit scikit-learn's HistGradientBoostingClassifier, which rises in the signals of sign 1, falls in those of -1.

    It is given bin numbers, and its thresholds are turned back into those of z: to find the bins by itself takes it
    minutes where rows have weights.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    present = w > 0.0
    seen = z[present].astype(np.float32)
    edges = [bin_edges(column, settings.bins) for column in seen.T]
    codes = np.column_stack([np.searchsorted(cut, column) for cut, column in zip(edges, seen.T, strict=True)])
    model = HistGradientBoostingClassifier(
        max_iter=settings.rounds,
        learning_rate=settings.rate,
        max_leaf_nodes=settings.leaves,
        min_samples_leaf=settings.leaf,
        l2_regularization=settings.l2,
        max_bins=255,
        max_features=settings.share,
        monotonic_cst=signs if settings.monotone else None,
        early_stopping=False,  # pyright: ignore[reportArgumentType] - the default "auto" hides that it may be a bool
        random_state=seed,
    )
    # The matrices are small: more threads cost more than they bring.
    with threadpool_limits(1):
        model.fit(codes.astype(np.float64), y[present], sample_weight=w[present])
    trees, start = from_boosting(model, z.shape[1], edges)
    return BoostedMember(trees, start)


def bin_edges(column: NDArray[np.float32], bins: int) -> NDArray[np.float32]:
    """Edges of at most `bins` bins that hold about as many of the values (n,) each; a value at an edge is below it."""
    quantiles = np.quantile(column.astype(np.float64), np.linspace(0.0, 1.0, bins + 1)[1:-1])
    return np.unique(rounded_down(quantiles))
