"""Calibration that follows the outcomes as they arrive (Gupta and Ramdas 2023, arXiv 2305.00070).

Two parts. *Online Platt scaling*: a line in log-odds, moved after every outcome by an online Newton step.
*Calibeating*: what the line says is corrected by what became of earlier calls for which it said nearly the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, Self, get_args

import numpy as np

from ...core.errors import BadInput, ConfigurationError
from .base import number
from .hedging import Hedging

EDGE = 1e-4
"""Nothing that is learned online says less than this or more than 1 minus this."""
WEIGHT_CAP = 20.0
_LARGEST = 100.0
_HALVINGS = 50
_TYPICAL = np.array([0.6, 0.15])
"""Mean of g² along the two features at p(1 − p) = .15 and log-odds of ±2: what one outcome adds to A."""
_Z90 = 1.6448536269514722

Start = Literal["identity", "zero"]
Step = Literal["laplace", "newton"]
Tracking = Literal["offset", "mean", "hedging", "none"]


class OnlineCalibration:
    """p ↦ probability, learned from (p, outcome) one at a time; the order matters.

    Online Platt: x = (logit p, 1), q = sigmoid(θ·x); after the outcome g = (q − y)x, A ← A + ggᵀ (by Sherman and
    Morrison on its inverse), θ ← θ − A⁻¹g/β, and θ is drawn back to ‖θ‖ ≤ 100 in the norm of A.

    Deviations from the paper, each an option (`OnlineCalibration.as_published()` has none of them):
        start: "zero" says .5 to everything at first, which throws away what the head learned offline; "identity" starts
            at θ = (1, 0), that is at the head itself.
        beta, prior_outcomes: the paper steps ten times as far as a Newton step (β = .1) from A⁻¹ = (βD)²I. A head that
            rests on labels deserves more trust: by default β = 1, and A starts at what `prior_outcomes` typical
            outcomes would have made it. None starts as the paper does.
        step: "newton" counts in A the squared gradients, so a head that is very sure and very wrong makes A so large
            that the line hardly moves any more. "laplace" takes the outcome's own curvature, A ← A + q(1 − q)xxᵀ, which
            is the same on average where q is honest, with q and θ at the minimum of the outcome's log loss plus
            ½(θ' − θ)ᵀA(θ' − θ): the step can never overshoot, whatever its weight.
        tracking: "mean" gives out the running mean of outcomes in the bin of q, with one pseudo-outcome at the bin's
            middle: ten values in all, so calls within a bin can no longer be told apart. "hedging" (the paper's other
            choice) draws from a grid in the bin, see `Hedging`. "offset" adds the mean error around q, shrunk by
            `shrinkage` pseudo-outcomes without error and interpolated between the middles of the bins, to q itself.
            "none" gives out q.

    Monotone in the probability given are "none" (while θ₁ > 0) and the line under the others. "offset" need not be
    where two neighbouring bins err in opposite directions; "mean" and "hedging" are not.

    Args:
        diameter: D, where `prior_outcomes` is None.
        bins: of equal width, for calibeating.

    Attributes:
        count: outcomes seen.
        mean_predicted, mean_observed: weighted means over them; NaN before the first.

    Raises:
        ConfigurationError: an option cannot work.
    """

    def __init__(
        self,
        *,
        beta: float = 1.0,
        diameter: float = 1.0,
        bins: int = 10,
        start: Start = "identity",
        step: Step = "laplace",
        tracking: Tracking = "offset",
        shrinkage: float = 100.0,
        prior_outcomes: float | None = 100.0,
    ) -> None:
        if not (beta > 0.0 and diameter > 0.0 and shrinkage > 0.0 and bins >= 1):
            raise ConfigurationError(
                f"beta={beta}, diameter={diameter}, shrinkage={shrinkage} and bins={bins} must all be above 0"
            )
        if prior_outcomes is not None and not (0.0 < prior_outcomes < math.inf):
            raise ConfigurationError(f"prior_outcomes={prior_outcomes} must be above 0, or None")
        known = {"start": (start, Start), "step": (step, Step), "tracking": (tracking, Tracking)}
        for name, (value, allowed) in known.items():
            if value not in get_args(allowed):
                raise ConfigurationError(f"{name}={value!r}: use one of {', '.join(get_args(allowed))}")
        self.beta, self.diameter, self.bins = float(beta), float(diameter), int(bins)
        self.start: Start = start
        self.step: Step = step
        self.tracking: Tracking = tracking
        self.shrinkage = float(shrinkage)
        self.theta = np.array([1.0, 0.0] if start == "identity" else [0.0, 0.0])
        self.prior_outcomes = prior_outcomes
        self.inverse = np.eye(2) * (self.beta * self.diameter) ** 2
        if prior_outcomes is not None:
            self.inverse = np.diag(1.0 / (_TYPICAL * prior_outcomes))
        self.count = 0
        self._weight = self._predicted = self._observed = 0.0
        # Per bin: weight, sum of outcomes, sum of (outcome − q).
        self._bins = np.zeros((self.bins, 3))
        self._hedging = Hedging(self.bins) if tracking == "hedging" else None

    @classmethod
    def as_published(cls) -> Self:
        """With the settings of the paper."""
        return cls(beta=0.1, start="zero", step="newton", tracking="mean", prior_outcomes=None)

    @property
    def mean_predicted(self) -> float:
        return self._predicted / self._weight if self._weight else math.nan

    @property
    def mean_observed(self) -> float:
        return self._observed / self._weight if self._weight else math.nan

    def predict(self, probability: float) -> float:
        """What `probability` (of the head, in [0, 1]) amounts to by now, in [EDGE, 1 − EDGE].

        Raises:
            BadInput: it is no number in [0, 1].
        """
        return self._tracked(self._platt(_checked(probability)))

    def interval(self, probability: float, low: float, high: float) -> tuple[float, float]:
        """The head's interval moved by the same map, and widened by what the bin's correction itself is unsure of.

        The two errors are taken as independent and added in squares, at 90 %.
        """
        middle = self.predict(probability)
        q = self._platt(_checked(probability))
        weight = float(self._bins[self._bin(q), 0])
        spread = _Z90 * math.sqrt(weight * middle * (1.0 - middle)) / (weight + self.shrinkage)
        below = max(middle - self.predict(min(low, probability)), 0.0)
        above = max(self.predict(max(high, probability)) - middle, 0.0)
        return max(middle - math.hypot(below, spread), 0.0), min(middle + math.hypot(above, spread), 1.0)

    def update(self, probability: float, correct: bool, *, weight: float = 1.0) -> None:
        """Learn one outcome.

        Args:
            probability: what the head said, before anything online.
            weight: 1 / label_propensity. Cut off at 20 times, and taken relative to the mean so far, so that one rare
                label cannot throw the line.

        Raises:
            BadInput: a probability outside [0, 1], or a weight that is not finite and above 0.
        """
        if not (math.isfinite(weight) and weight > 0.0):
            raise BadInput(f"weight={weight} must be a finite number above 0: 1 / label_propensity")
        p, y = _checked(probability), float(bool(correct))
        weight = min(weight, WEIGHT_CAP)
        q = self._platt(p)
        self.count += 1
        self._weight += weight
        self._predicted += weight * self._tracked(q)
        self._observed += weight * y
        relative = weight * self.count / self._weight
        if self._hedging is not None:
            self._hedging.update(self._bin(q), self.count - 1, y, relative)
        row = self._bins[self._bin(q)]
        row += (relative, relative * y, relative * (y - q))
        if self.step == "newton":
            self._newton(_features(p), relative * (q - y))
        else:
            self._laplace(_features(p), y, relative)
        self._project()

    def _newton(self, x: np.ndarray, slope: float) -> None:
        gradient = slope * x
        moved = self.inverse @ gradient
        self.inverse -= np.outer(moved, moved) / (1.0 + float(gradient @ moved))
        self.theta = self.theta - self.inverse @ gradient / self.beta

    def _laplace(self, x: np.ndarray, y: float, weight: float) -> None:
        """θ' = θ − A⁻¹x·w(q' − y)/β with q' = sigmoid(θ'·x), found by halving: one equation in the log-odds θ'·x."""
        direction = self.inverse @ x
        spread, before = float(x @ direction), float(self.theta @ x)
        pull = weight * spread / self.beta
        reach = pull * (y - _sigmoid(before))
        low, high = min(before, before + reach), max(before, before + reach)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            if middle - before + pull * (_sigmoid(middle) - y) > 0.0:
                high = middle
            else:
                low = middle
        q = _sigmoid((low + high) / 2.0)
        self.theta = self.theta - direction * (weight * (q - y) / self.beta)
        curvature = weight * q * (1.0 - q)
        self.inverse -= np.outer(direction, direction) * (curvature / (1.0 + curvature * spread))

    def _project(self) -> None:
        """Back to the ball of radius 100, by the shortest way in the norm of A."""
        length = float(np.linalg.norm(self.theta))
        if length <= _LARGEST:
            return
        matrix = np.linalg.inv(self.inverse)
        # argmin (θ'−θ)ᵀA(θ'−θ) subject to ‖θ'‖ ≤ r is (A + λI)⁻¹Aθ: the one λ ≥ 0 that reaches r is found by halving.
        small, large = 0.0, 1.0
        target = matrix @ self.theta
        while np.linalg.norm(np.linalg.solve(matrix + large * np.eye(2), target)) > _LARGEST:
            large *= 2.0
        for _ in range(100):
            middle = (small + large) / 2.0
            if np.linalg.norm(np.linalg.solve(matrix + middle * np.eye(2), target)) > _LARGEST:
                small = middle
            else:
                large = middle
        self.theta = np.linalg.solve(matrix + large * np.eye(2), target)

    def _platt(self, probability: float) -> float:
        return _sigmoid(float(self.theta @ _features(probability)))

    def _bin(self, q: float) -> int:
        return min(int(q * self.bins), self.bins - 1)

    def _tracked(self, q: float) -> float:
        if self.tracking == "mean":
            weight, outcomes, _ = self._bins[self._bin(q)]
            q = ((self._bin(q) + 0.5) / self.bins + outcomes) / (1.0 + weight)
        elif self._hedging is not None:
            q = self._hedging.predict(self._bin(q), self.count)
        elif self.tracking == "offset":
            offsets = self._bins[:, 2] / (self._bins[:, 0] + self.shrinkage)
            q += float(np.interp(q, (np.arange(self.bins) + 0.5) / self.bins, offsets))
        return float(min(max(q, EDGE), 1.0 - EDGE))

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON values; numbers come back to the last bit."""
        return {
            "name": "online",
            "beta": self.beta,
            "diameter": self.diameter,
            "start": self.start,
            "step": self.step,
            "tracking": self.tracking,
            "shrinkage": self.shrinkage,
            "prior_outcomes": self.prior_outcomes,
            "theta": self.theta.tolist(),
            "inverse": self.inverse.tolist(),
            "count": self.count,
            "weight": self._weight,
            "predicted": self._predicted,
            "observed": self._observed,
            "bins": self._bins.tolist(),
            "hedging": None if self._hedging is None else self._hedging.plays.tolist(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Back from `to_dict`.

        Raises:
            BadInput: a value is missing, of the wrong shape or not finite.
        """
        try:
            bins = np.asarray(data["bins"], dtype=np.float64)
            plays = np.asarray([] if data["hedging"] is None else data["hedging"], dtype=np.float64)
            theta, inverse = (np.asarray(data[key], dtype=np.float64) for key in ("theta", "inverse"))
            self = cls(
                beta=number(data, "beta"),
                diameter=number(data, "diameter"),
                bins=len(bins),
                start=data["start"],
                step=data["step"],
                tracking=data["tracking"],
                shrinkage=number(data, "shrinkage"),
                prior_outcomes=None if data["prior_outcomes"] is None else number(data, "prior_outcomes"),
            )
        except (KeyError, TypeError, ValueError, ConfigurationError) as error:
            raise BadInput(f"stored online calibration cannot be read: {error}") from error
        for name, array, shape in (
            ("bins", bins, (self.bins, 3)),
            ("theta", theta, (2,)),
            ("inverse", inverse, (2, 2)),
            *(() if self._hedging is None else (("hedging", plays, self._hedging.plays.shape),)),
        ):
            if array.shape != shape or not np.isfinite(array).all():
                raise BadInput(f"stored online calibration: {name} has shape {array.shape} or is not finite")
        self.theta, self.inverse, self._bins = theta, inverse, bins
        if self._hedging is not None:
            self._hedging.plays = plays
        self.count = int(number(data, "count"))
        self._weight, self._predicted, self._observed = (number(data, k) for k in ("weight", "predicted", "observed"))
        return self


def _features(probability: float) -> np.ndarray:
    clipped = min(max(probability, EDGE), 1.0 - EDGE)
    return np.array([math.log(clipped) - math.log1p(-clipped), 1.0])


def _sigmoid(log_odds: float) -> float:
    if log_odds >= 0.0:
        return 1.0 / (1.0 + math.exp(-log_odds))
    return math.exp(log_odds) / (1.0 + math.exp(log_odds))


def _checked(probability: float) -> float:
    if not 0.0 <= probability <= 1.0:
        raise BadInput(f"probability {probability} must be a number in [0, 1]")
    return float(probability)
