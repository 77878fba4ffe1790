"""How calls like this one turned out: a kernel estimate over the nearest episodes (XConf, arXiv 2609.17708)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.errors import BadInput
from .recall_key import Experience, Floats, RecallKey

NEIGHBOURS = 50
BANDWIDTH = 0.08
KAPPA = 4.0
_GRID = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
_FEWEST_FOR_KAPPA = 50


@dataclass(frozen=True)
class RecallEstimate:
    """What the bank says of one call.

    Attributes:
        probability: (Σ wᵢyᵢ + κb) / (m + κ).
        mass: m = Σ wᵢ, the kernel mass of the neighbours; 0 while the bank is too small to recall from.
        right: Σ wᵢyᵢ.
        base_rate: b, the share of right episodes in the bank.
        kappa: pseudo-episodes at the base rate.
        neighbours: rows of the bank, nearest first.
    """

    probability: float
    mass: float
    right: float
    base_rate: float
    kappa: float
    neighbours: tuple[int, ...]

    def interval(self, level: float = 0.9) -> tuple[float, float]:
        """Beta(Σwy + κb, m − Σwy + κ(1 − b)) at `level`."""
        from scipy.stats import beta

        a = self.right + self.kappa * self.base_rate
        b = self.mass - self.right + self.kappa * (1.0 - self.base_rate)
        tail = (1.0 - level) / 2.0
        edge = 1e-6  # a bank of one class has no pseudo-episodes of the other
        low, high = beta.ppf([tail, 1.0 - tail], max(a, edge), max(b, edge))
        return min(float(low), self.probability), max(float(high), self.probability)


def nothing_alike(base_rate: float, kappa: float = KAPPA) -> RecallEstimate:
    """The base rate, on no mass at all: what a bank says that is too small to recall from."""
    return RecallEstimate(base_rate, 0.0, 0.0, base_rate, kappa, ())


def kernel(confidence: float, of_neighbours: Floats, bandwidth: float = BANDWIDTH) -> Floats:
    """wᵢ = exp(−(vᵢ − v)² / (2·bandwidth²)); 1 where v or vᵢ is not known: there is nothing to compare by."""
    if not np.isfinite(confidence):
        return np.ones_like(of_neighbours)
    weights = np.exp(-((of_neighbours - confidence) ** 2) / (2.0 * bandwidth**2))
    return np.where(np.isfinite(weights), weights, 1.0)


class Recall:
    """Recalls from one bank: fitted once, asked often.

    Args:
        neighbours: k; a bank with fewer episodes answers with its base rate (cold start).
        bandwidth: of the kernel on confidence.
        kappa: None chooses among 1 … 32 by leave-one-out log loss on the bank (4 below 50 episodes).
    """

    def __init__(
        self, *, neighbours: int = NEIGHBOURS, bandwidth: float = BANDWIDTH, kappa: float | None = None
    ) -> None:
        self.neighbours = neighbours
        self.bandwidth = bandwidth
        self.kappa = kappa

    def fit(self, bank: Experience) -> Recall:
        """Fit key, base rate and κ on the bank (n ≥ 1)."""
        self.key_ = RecallKey().fit(bank)
        self.kappa_ = KAPPA if self.kappa is None else self.kappa
        self._keys, self._confidence, self._correct = self.key_.transform(bank), bank.confidence, bank.correct
        if self.kappa is None and len(bank) >= max(_FEWEST_FOR_KAPPA, self.neighbours + 1):
            self.kappa_ = self._best_kappa()
        return self

    @property
    def size(self) -> int:
        """Episodes to recall from."""
        return self._correct.size

    def add(self, fresh: Experience) -> None:
        """More episodes, under the key as it is."""
        self._keys = np.vstack([self._keys, self.key_.transform(fresh)])
        self._confidence = np.r_[self._confidence, fresh.confidence]
        self._correct = np.r_[self._correct, fresh.correct]

    def keep(self, count: int) -> None:
        """Forget all but the first `count` episodes; what was fitted stays."""
        self._keys, self._confidence, self._correct = (
            held[:count] for held in (self._keys, self._confidence, self._correct)
        )

    def estimate(self, query: Experience, row: int = 0, *, allowed: NDArray[np.bool_] | None = None) -> RecallEstimate:
        """What the bank says of one row of `query`.

        Args:
            allowed: (size,) which episodes may speak; None for all.

        Raises:
            BadInput: none may: there is nothing to say, and .5 would be made up.
        """
        one = query.take(np.array([row]))
        similarity = self._keys @ self.key_.transform(one)[0]
        return self._from(similarity, float(one.confidence[0]), allowed)

    def _from(self, similarity: Floats, confidence: float, allowed: NDArray[np.bool_] | None) -> RecallEstimate:
        candidates = np.arange(self.size) if allowed is None else np.flatnonzero(allowed)
        if not candidates.size:
            raise BadInput("no episode may speak about this call; say that recall is unavailable")
        base = float(self._correct[candidates].mean())
        if candidates.size < self.neighbours:
            return nothing_alike(base, self.kappa_)
        near = similarity[candidates]
        last = np.partition(near, near.size - self.neighbours)[near.size - self.neighbours]
        candidates = candidates[near >= last]
        # Stable: of equally near episodes the older ones.
        nearest = candidates[np.argsort(-similarity[candidates], kind="stable")[: self.neighbours]]
        weights = kernel(confidence, self._confidence[nearest], self.bandwidth)
        mass, right = float(weights.sum()), float(weights @ self._correct[nearest])
        value = (right + self.kappa_ * base) / (mass + self.kappa_)
        return RecallEstimate(value, mass, right, base, self.kappa_, tuple(int(row) for row in nearest))

    def _best_kappa(self) -> float:
        """By leave-one-out log loss; at most 500 episodes, evenly spread, are left out in turn."""
        rows = np.unique(np.linspace(0, self.size - 1, min(self.size, 500)).astype(int))
        similarity = self._keys[rows] @ self._keys.T
        losses = np.zeros(len(_GRID))
        base = float(self._correct.mean())
        for place, row in enumerate(rows):
            near = similarity[place]
            near[row] = -np.inf
            nearest = np.argpartition(-near, self.neighbours)[: self.neighbours]
            weights = kernel(float(self._confidence[row]), self._confidence[nearest], self.bandwidth)
            mass, right = float(weights.sum()), float(weights @ self._correct[nearest])
            values = np.array([(right + kappa * base) / (mass + kappa) for kappa in _GRID])
            values = np.clip(values, 1e-4, 1.0 - 1e-4)
            losses -= np.log(values) if self._correct[row] else np.log1p(-values)
        return float(_GRID[int(np.argmin(losses))])
