"""The four-tier score of confidence-aware routing (arXiv 2510.01237)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from ...core.decision import Route
from ...core.errors import BadInput, ConfigurationError, Refused
from ...evaluation.estimate import Estimate
from ...evaluation.metrics.auroc import auroc_statistic
from ...evaluation.metrics.bootstrap import estimate
from ..calibration.base import checked_grades, sigmoid
from .base import Baseline, Floats, Rows, need_both, unfitted
from .route_tiers import RouteTiers

PAPER = RouteTiers(answer=0.75, retrieve=0.55, escalate=0.35)
"""The paper's cut-offs, lower edges inclusive."""

CosineScale = Literal["affine", "sigmoid"]
_EDGE = 1e-6


@dataclass(frozen=True)
class _Range:
    """What a normalised signal can be."""

    low: float
    high: float
    open_end: bool


_LEARNED = _CONVERGED = _Range(0.0, 1.0, True)
_COSINE = {"affine": _Range(0.0, 1.0, False), "sigmoid": _Range(float(sigmoid(-1.0)), float(sigmoid(1.0)), False)}


class FourTierScore(Baseline):
    """C = Σ w_i s_i over three normalised signals, four routes by fixed cut-offs, and a logistic on C on top.

    s_sem: cosine of the projected last hidden state and a reference embedding; s_conv: σ²_early / σ²_late over
    layers; s_learn: logit of a head on that state. C is a routing score and no probability, so `predict` gives
    sigmoid(a + b C). The paper's weights are unpublished and its fit is not told; here weights (not negative, adding
    up to 1) and the logistic come from one fit of a + Σ v_i s_i with v_i ≥ 0 by log loss [proposal]: w = v / Σ v,
    b = Σ v.

    Args:
        semantic: column of the cosine, in [-1, 1].
        convergence: column of the ratio, at least 0; r becomes r / (1 + r).
        learned: column of the logit. Each may be None (the paper's ablation), but not all.
        cosine: "affine" makes (1 + s) / 2 of the cosine; "sigmoid" makes sigmoid(s), which lies in [.269, .731]: no
            cut-off above .731 can be reached by it alone.
        weights: by "semantic", "convergence", "learned", given and not fitted; scaled to add up to 1.
        tiers: the cut-offs.
        C: inverse strength of the penalty on v; weak, so that separable rows have a fit.

    Attributes (after `fit`):
        weights_: by signal; slope_, intercept_: of the logistic on C.

    Raises:
        ConfigurationError: no signal, weights that do not fit, or a tier into which no score can fall, whatever the
            weights.
    """

    name = "four_tier"

    def __init__(
        self,
        *,
        semantic: str | None = None,
        convergence: str | None = None,
        learned: str | None = None,
        cosine: CosineScale = "affine",
        weights: Mapping[str, float] | None = None,
        tiers: RouteTiers = PAPER,
        C: float = 100.0,
    ) -> None:
        if cosine not in get_args(CosineScale):
            raise ConfigurationError(f"cosine={cosine!r}: use one of {get_args(CosineScale)}")
        if not (math.isfinite(C) and C > 0.0):
            raise ConfigurationError(f"C={C} must be a finite number above 0")
        given = {"semantic": semantic, "convergence": convergence, "learned": learned}
        self.signals = {signal: column for signal, column in given.items() if column is not None}
        super().__init__(tuple(self.signals.values()))
        self.cosine: CosineScale = cosine
        self.tiers = tiers
        self.C = C
        self.weights = None if weights is None else self._checked(weights)
        problem = self._dead(self.weights)
        if problem:
            raise ConfigurationError(f"{problem}; lower the cut-offs, or normalise the cosine by cosine='affine'")

    def score(self, rows: Rows) -> Floats:
        """(n,) C in [0, 1]; NaN for rows with a missing value."""
        return self._over(rows, self._combined)

    def routes(self, rows: Rows) -> list[Route | None]:
        """The route of each row; None where its score is missing."""
        return self.tiers.routes(self.score(rows))

    def report(
        self, rows: Rows, correct: ArrayLike, *, groups: ArrayLike | None = None, seed: int = 0
    ) -> dict[str, Estimate]:
        """AUROC of each signal alone and of C (`semantic_auroc`, ..., `score_auroc`), on the rows that have all."""
        block = self.block(rows)
        grades = checked_grades(correct, len(block))
        whole = np.isfinite(block).all(axis=1)
        codes = np.arange(len(block)) if groups is None else np.asarray(groups)
        if codes.shape != grades.shape:
            raise BadInput(f"groups has shape {codes.shape}, there are {grades.size} rows; give one group a row")
        if not whole.any():
            raise BadInput(f"FourTierScore: none of {len(block)} rows has all of {self._told()}")
        scores = {signal: block[whole, place] for place, signal in enumerate(self.signals)}
        scores["score"] = self._combined(block[whole])
        return {
            f"{name}_auroc": estimate(
                f"{name}_auroc",
                auroc_statistic(values, grades[whole]),
                int(whole.sum()),
                undefined="one class only: AUROC needs right and wrong rows",
                groups=codes[whole],
                seed=seed,
                bounds=(0.0, 1.0),
            )
            for name, values in scores.items()
        }

    def _fit(self, block: Floats, correct: Floats) -> None:
        need_both(correct, "FourTierScore")
        normalised = self._normalised(block)
        if self.weights is not None:
            normalised = (normalised @ np.array([self.weights[signal] for signal in self.signals]))[:, None]
        values, intercept = _rising_logistic(normalised, correct, self.C)
        slope = float(values.sum())
        if slope <= _EDGE:
            raise Refused(
                f"FourTierScore: on these {correct.size} rows a higher {' or '.join(self.signals)} does not go with "
                "being right, so there are no weights to learn; look at report(), or give weights="
            )
        weights = self.weights or dict(zip(self.signals, (values / slope).tolist(), strict=True))
        problem = self._dead(weights)
        if problem:
            raise Refused(f"{problem} under the learned weights; lower the cut-offs, or use cosine='affine'")
        self.weights_, self.slope_, self.intercept_ = weights, slope, intercept

    def _predict(self, block: Floats) -> Floats:
        if not hasattr(self, "weights_"):
            raise unfitted(self)
        return sigmoid(self.intercept_ + self.slope_ * self._combined(block))

    def _combined(self, block: Floats) -> Floats:
        weights = getattr(self, "weights_", self.weights)
        if weights is None:
            raise unfitted(self)
        return self._normalised(block) @ np.array([weights[signal] for signal in self.signals])

    def _normalised(self, block: Floats) -> Floats:
        return np.column_stack([self._scaled(signal, block[:, at]) for at, signal in enumerate(self.signals)])

    def _scaled(self, signal: str, values: Floats) -> Floats:
        column = self.signals[signal]
        if signal == "learned":
            return sigmoid(values)
        if signal == "convergence":
            if (values < 0.0).any():
                raise BadInput(f"column {column!r} is {values.min()}; a ratio of variances is not negative")
            return values / (1.0 + values)
        if (np.abs(values) > 1.0 + _EDGE).any():
            raise BadInput(f"column {column!r} is {values[np.abs(values).argmax()]}; a cosine lies in [-1, 1]")
        cosines = np.clip(values, -1.0, 1.0)
        return (1.0 + cosines) / 2.0 if self.cosine == "affine" else sigmoid(cosines)

    def _checked(self, weights: Mapping[str, float]) -> dict[str, float]:
        total = math.fsum(weights.values()) if all(map(math.isfinite, weights.values())) else math.nan
        if set(weights) != set(self.signals) or not total > 0.0 or min(weights.values()) < 0.0:
            raise ConfigurationError(
                f"weights={dict(weights)}: give a number that is not negative for each of {list(self.signals)}, not "
                "all of them zero"
            )
        return {signal: weights[signal] / total for signal in self.signals}

    def _dead(self, weights: Mapping[str, float] | None) -> str:
        """What is wrong where no score can fall into a tier: under the weights, or under any."""
        known = {"semantic": _COSINE[self.cosine], "convergence": _CONVERGED, "learned": _LEARNED}
        ranges = {signal: known[signal] for signal in self.signals}
        if weights is None:
            low, high = min(each.low for each in ranges.values()), max(each.high for each in ranges.values())
            open_end = all(each.open_end for each in ranges.values() if each.high == high)
        else:
            low = math.fsum(weights[signal] * each.low for signal, each in ranges.items())
            high = math.fsum(weights[signal] * each.high for signal, each in ranges.items())
            open_end = any(weights[signal] > 0.0 and each.open_end for signal, each in ranges.items())
        dead = self.tiers.dead(low, high, open_end=open_end)
        return f"FourTierScore has a dead tier: {'; '.join(dead)}" if dead else ""


def _rising_logistic(features: Floats, correct: Floats, C: float) -> tuple[Floats, float]:
    """Coefficients (k,), none negative, and intercept of an L2 logistic regression (the intercept is free)."""
    from scipy.optimize import minimize

    def loss(point: Floats) -> tuple[float, Floats]:
        log_odds = features @ point[1:] + point[0]
        value = float(np.sum(np.logaddexp(0.0, log_odds) - correct * log_odds)) + 0.5 * float(point[1:] @ point[1:]) / C
        residual = sigmoid(log_odds) - correct
        return value, np.concatenate([[residual.sum()], features.T @ residual + point[1:] / C])

    rate = correct.mean()
    start = np.concatenate([[math.log(rate / (1.0 - rate))], np.zeros(features.shape[1])])
    bounds = [(None, None), *[(0.0, None)] * features.shape[1]]
    found = minimize(
        loss, start, jac=True, bounds=bounds, method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-14, "gtol": 1e-9}
    )
    return np.asarray(found.x[1:], dtype=np.float64), float(found.x[0])
