"""A proportion from labels that were not drawn alike: weighed by 1 / the chance of being graded."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import BadInput, Refused
from ..estimate import Estimate
from ..inputs import Floats, check_labels


def weighted_proportion(
    name: str,
    hits: ArrayLike,
    propensities: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    totals: Mapping[str, int] | None = None,
    level: float = 0.95,
) -> Estimate:
    """Share of hits in the population that the labels were drawn from (Hájek 1971): Σ wᵢyᵢ / Σ wᵢ.

    Its linearised variance, Σ (wᵢ(yᵢ − p))² / (Σ wᵢ)² (Särndal, Swensson & Wretman 1992, 5.7), gives the number of
    evenly drawn rows that would be as sure; the interval is that of a Beta(1, 1) posterior on so many (as Korn &
    Graubard 1998 put the effective sample size into an exact interval; the prior as in arXiv 2503.01747). They are
    never more than Kish's (`effective_rows`). No bootstrap: with few heavy rows its resamples miss them all.

    Args:
        hits: (n,) of 0 and 1.
        propensities, groups, totals: see `sampling_weights`.

    Raises:
        Refused, BadInput: see `sampling_weights`.
    """
    if np.size(np.asarray(hits)) == 0 and totals is None:
        return Estimate(name=name, value=None, n=0, reason="no rows", level=level)
    from scipy.stats import beta

    weights = sampling_weights(name, propensities, groups=groups, totals=totals)
    y = check_labels(name, hits)
    if weights.shape != y.shape:
        raise BadInput(f"{name}: {y.size} labels came with {weights.size} propensities")
    share = float(weights @ y / weights.sum())
    effective = effective_rows(weights)
    variance = float(((weights * (y - share)) ** 2).sum() / weights.sum() ** 2)
    if variance > 0.0:
        effective = max(min(effective, share * (1.0 - share) / variance), 1.0)
    tail = (1.0 - level) / 2.0
    ends = beta.ppf([tail, 1.0 - tail], 1.0 + share * effective, 1.0 + (1.0 - share) * effective)
    low, high = 0.0 if share == 0.0 else float(ends[0]), 1.0 if share == 1.0 else float(ends[1])
    return Estimate(name=name, value=share, low=min(low, share), high=max(high, share), n=y.size, level=level)


def sampling_weights(
    name: str,
    propensities: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    totals: Mapping[str, int] | None = None,
) -> Floats:
    """How many rows of the population each graded one stands for, shape (n,).

    Args:
        propensities: (n,) the known chance of each row to be graded, in (0, 1].
        groups: (n,) names of groups of which it is known how large they are in the population.
        totals: how large; the weights of a group are scaled to add up to it (Deville & Särndal 1992). That takes out
            the luck of how many were drawn, and stands in for those that were drawn and are not graded yet.

    Raises:
        Refused: a propensity is 0 or unknown (NaN, None): what nobody was ever going to look at cannot be weighed
            (rule 10); or nothing is graded of a group.
        BadInput: lengths differ, or a propensity is above 1.
    """
    chance = np.asarray([np.nan if p is None else p for p in np.ravel(np.asarray(propensities, dtype=object))], float)
    unknown = ~np.isfinite(chance) | (chance <= 0.0)
    if unknown.any():
        raise Refused(
            f"{name}: the chance of being graded is 0 or unknown for {int(unknown.sum())} of {chance.size} rows; leave "
            "them out and say so, or have some of the answered calls drawn for grading ([policy] label_rate)"
        )
    if (chance > 1.0).any():
        raise BadInput(f"{name}: propensity {chance.max()} is above 1")
    weights = 1.0 / chance
    if totals is None or groups is None:
        return weights
    members = np.asarray(groups)
    if members.shape != weights.shape:
        raise BadInput(f"{name}: {weights.size} propensities came with {members.size} groups")
    odd = sorted(set(members.tolist()) - set(totals))
    if odd:
        raise BadInput(f"{name}: no total is given for group {odd[0]!r}")
    for group, total in totals.items():
        mine = members == group
        if mine.any():
            weights[mine] *= total / weights[mine].sum()
        elif total:
            raise Refused(f"{name}: nothing that was graded speaks for the {total} {group}")
    return weights


def effective_rows(weights: ArrayLike) -> float:
    """The number of rows of equal weight that would be worth as much: (Σw)² / Σw² (Kish 1965)."""
    values = np.asarray(weights, dtype=float)
    return float(values.sum() ** 2 / (values**2).sum()) if values.size else 0.0
