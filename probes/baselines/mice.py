"""MICE's own classifiers: similarity of each layer's reading to the output, and raw confidence (arXiv 2504.20168)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...core.errors import ConfigurationError
from ..calibration.base import sigmoid
from ..logistic import fit_coefficients
from .base import Baseline, Floats, need_both, unfitted
from .raw_confidence import SUM_LOGPROB, as_probability

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestClassifier


class _Mice(Baseline):
    """Reads one similarity a layer (in the paper BERTScore of what it would have said), and raw confidence last."""

    def __init__(self, similarities: Sequence[str], confidence: str = SUM_LOGPROB, *, log: bool = True) -> None:
        if isinstance(similarities, str) or not similarities:
            raise ConfigurationError(
                f"similarities={similarities!r}: give the column of each layer's similarity to the output; without "
                "them use RawConfidence, HistogramRegression or KernelRegression"
            )
        super().__init__((*similarities, confidence))
        self.log = log

    def _features(self, block: Floats) -> Floats:
        raw = as_probability(block[:, -1], self.columns[-1], log=self.log)
        return np.column_stack([block[:, :-1], raw])


class MiceForest(_Mice):
    """Random forest with MICE's settings. Held in memory by scikit-learn; for benchmarks only.

    Args:
        similarities: columns, one a layer.
        confidence, log: as of `RawConfidence`.
        trees, depth, max_features: 1000, 20 and 10 in the paper; fewer features where there are fewer columns.
        seed: of the forest.

    Attributes (after `fit`):
        forest_: scikit-learn's; importances_: (k,) by column, similarities first, raw confidence last.
    """

    name = "mice_forest"

    def __init__(
        self,
        similarities: Sequence[str],
        confidence: str = SUM_LOGPROB,
        *,
        log: bool = True,
        trees: int = 1000,
        depth: int = 20,
        max_features: int = 10,
        seed: int = 0,
    ) -> None:
        super().__init__(similarities, confidence, log=log)
        if min(trees, depth, max_features) < 1:
            raise ConfigurationError(f"trees={trees}, depth={depth}, max_features={max_features} must be at least 1")
        self.trees = trees
        self.depth = depth
        self.max_features = max_features
        self.seed = seed

    def _fit(self, block: Floats, correct: Floats) -> None:
        from sklearn.ensemble import RandomForestClassifier

        need_both(correct, "MiceForest")
        features = self._features(block)
        self.forest_: RandomForestClassifier = RandomForestClassifier(
            self.trees,
            max_depth=self.depth,
            max_features=min(self.max_features, features.shape[1]),
            random_state=self.seed,
        ).fit(features, correct)
        self.importances_ = np.asarray(self.forest_.feature_importances_, dtype=np.float64)

    def _predict(self, block: Floats) -> Floats:
        if not hasattr(self, "forest_"):
            raise unfitted(self)
        return np.asarray(self.forest_.predict_proba(self._features(block)), dtype=np.float64)[:, 1]


class MiceLogistic(_Mice):
    """L2 logistic regression with MICE's C = .5, on the features as they are: all of them lie in [0, 1] in the paper.

    Args:
        similarities, confidence, log: as of `MiceForest`.
        C: inverse strength, as scikit-learn counts it.

    Attributes (after `fit`):
        coefficients_: (k,) by column; intercept_.
    """

    name = "mice_logistic"

    def __init__(
        self, similarities: Sequence[str], confidence: str = SUM_LOGPROB, *, log: bool = True, C: float = 0.5
    ) -> None:
        super().__init__(similarities, confidence, log=log)
        if not (np.isfinite(C) and C > 0.0):
            raise ConfigurationError(f"C={C} must be a finite number above 0")
        self.C = C

    def _fit(self, block: Floats, correct: Floats) -> None:
        need_both(correct, "MiceLogistic")
        found = fit_coefficients(self._features(block), correct, np.ones_like(correct), self.C)
        self.coefficients_, self.intercept_ = found

    def _predict(self, block: Floats) -> Floats:
        if not hasattr(self, "coefficients_"):
            raise unfitted(self)
        log_odds = self._features(block) @ self.coefficients_ + self.intercept_
        return sigmoid(log_odds)
