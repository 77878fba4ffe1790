"""A proportion from labels that were not drawn alike: weighed by 1 / the chance of being graded."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import BadInput, Refused
from ..estimate import Estimate
from ..inputs import check_labels


def weighted_proportion(name: str, hits: ArrayLike, propensities: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Share of hits in the population that the labels were drawn from (Hájek 1971).

    Σ yᵢ/πᵢ / Σ 1/πᵢ. Its linearised variance, Σ ((yᵢ − p)/πᵢ)² / (Σ 1/πᵢ)², gives the number of evenly drawn rows that
    would be as sure; the interval is that of a Beta(1, 1) posterior on so many (as in `proportion`). Never more than
    Kish's (Σw)²/Σw² of them.

    Args:
        hits: (n,) of 0 and 1.
        propensities: (n,) the known chance of each row to be graded, in (0, 1].

    Raises:
        Refused: a propensity is 0 or unknown (NaN): what nobody was ever going to look at cannot be weighed (rule 10).
        BadInput: lengths differ, or a propensity is above 1.
    """
    if np.size(np.asarray(hits)) == 0:
        return Estimate(name=name, value=None, n=0, reason="no rows", level=level)
    y = check_labels(name, hits)
    chance = np.asarray([np.nan if p is None else p for p in np.ravel(np.asarray(propensities, dtype=object))], float)
    if chance.shape != y.shape:
        raise BadInput(f"{name}: {y.size} labels came with {chance.size} propensities")
    unknown = ~np.isfinite(chance) | (chance <= 0.0)
    if unknown.any():
        raise Refused(
            f"{name}: the chance of being graded is 0 or unknown for {int(unknown.sum())} of {y.size} rows; leave them "
            "out and say so, or have some of the answered calls drawn for grading ([policy] label_rate)"
        )
    if (chance > 1.0).any():
        raise BadInput(f"{name}: propensity {chance.max()} is above 1")
    from scipy.stats import beta

    weights = 1.0 / chance
    share = float(weights @ y / weights.sum())
    effective = float(weights.sum() ** 2 / (weights**2).sum())
    variance = float(((weights * (y - share)) ** 2).sum() / weights.sum() ** 2)
    if variance > 0.0:
        effective = max(min(effective, share * (1.0 - share) / variance), 1.0)
    tail = (1.0 - level) / 2.0
    ends = beta.ppf([tail, 1.0 - tail], 1.0 + share * effective, 1.0 + (1.0 - share) * effective)
    low, high = 0.0 if share == 0.0 else float(ends[0]), 1.0 if share == 1.0 else float(ends[1])
    return Estimate(name=name, value=share, low=min(low, share), high=max(high, share), n=y.size, level=level)
