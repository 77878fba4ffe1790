"""How many graded rows are needed for what."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..core.errors import ConfigurationError


@dataclass(frozen=True)
class Tier:
    """What becomes possible from `rarer` graded rows of the rarer class (right or wrong) on."""

    rarer: int
    allows: str


TIERS = (
    Tier(10, "fitting at all: up to 3 scalar signals, Platt scaling with a prior"),
    Tier(25, "all scalar signals"),
    Tier(100, "hidden states"),
    Tier(200, "everything, isotonic calibration included"),
)


@dataclass(frozen=True)
class TierNeed:
    """How far it is to a tier: `missing` rows of the class named (`right`, `wrong`, or `either` when they tie)."""

    tier: Tier
    missing: int
    of: str


def reached(right: int, wrong: int) -> Tier | None:
    """The highest tier that so many right and wrong rows allow."""
    rarer = min(right, wrong)
    return next((tier for tier in reversed(TIERS) if rarer >= tier.rarer), None)


def tiers_ahead(right: int, wrong: int) -> tuple[TierNeed, ...]:
    """What every tier not yet reached still needs, nearest first."""
    rarer = min(right, wrong)
    of = "either" if right == wrong else ("right" if right < wrong else "wrong")
    return tuple(TierNeed(tier, tier.rarer - rarer, of) for tier in TIERS if rarer < tier.rarer)


def answered_rows_needed(alpha: float, delta: float, errors: int = 0) -> int:
    """Graded answered rows with which P(wrong | answered) ≤ alpha can be promised with probability ≥ 1 − delta.

    The smallest k whose exact binomial p-value, P(at most `errors` wrong among k | risk alpha), is at most delta; for
    no errors that is ⌈ln δ / ln(1 − α)⌉. Learn then Test, arXiv 2110.01052.

    Raises:
        ConfigurationError: alpha or delta is not strictly between 0 and 1, or errors is negative.
    """
    for name, value in (("alpha", alpha), ("delta", delta)):
        if not 0.0 < value < 1.0:
            raise ConfigurationError(f"{name}={value} must lie strictly between 0 and 1")
    if errors < 0:
        raise ConfigurationError(f"errors={errors} must not be negative")

    from scipy.stats import binom

    def enough(rows: int) -> bool:
        # A hair of slack: the p-value at exactly delta must count whatever the rounding.
        return float(binom.cdf(errors, rows, alpha)) <= delta * (1.0 + 1e-12)

    high = max(errors + 1, math.ceil(math.log(delta) / math.log1p(-alpha)))
    while not enough(high):
        high *= 2
    low = errors
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
