"""Bootstrap intervals by groups, from weighted statistics: all resamples at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import ArrayLike, NDArray

from ...core.errors import ConfigurationError
from ..estimate import Estimate
from ..inputs import Floats, check_groups

Statistic = Callable[[Floats], Floats]
"""Weights of shape (resamples, n), counts of how often each row was drawn, in; one value a resample, shape
(resamples,), out; NaN where the resample does not define it (one class only, say)."""

Method = Literal["percentile", "bca", "centred"]

# Numbers held at once: bounds the memory of one block of resamples to a few hundred megabytes.
_BLOCK = 4_000_000
# Beyond this share of undefined resamples the rest no longer stands for the rows.
_MOST_UNDEFINED = 0.1
_LEVEL = 0.95


@dataclass(frozen=True)
class Bootstrapped:
    """An interval, or the reason why there is none.

    Attributes:
        undefined: number of resamples on which the statistic had no value; they are left out of the interval.
    """

    low: float | None
    high: float | None
    reason: str | None
    resamples: int
    undefined: int


@dataclass(frozen=True)
class Measured:
    """What is to be estimated.

    Attributes:
        undefined: the reason given when the statistic has no value on all rows.
        bounds: what the metric can be at all; the interval is cut to them.
    """

    name: str
    statistic: Statistic
    undefined: str
    method: Method = "percentile"
    bounds: tuple[float, float] = (-math.inf, math.inf)


def bootstrap(
    statistic: Statistic,
    n: int,
    *,
    groups: ArrayLike | None = None,
    seed: int = 0,
    resamples: int = 1000,
    level: float = _LEVEL,
    method: Method = "percentile",
) -> Bootstrapped:
    """Draw whole groups with replacement and take the spread of the statistic.

    Methods: "percentile"; "bca" (bias-corrected and accelerated, Efron 1987, jackknife over groups; falls back to
    percentile where the correction is not defined); for calibration errors, which resampling
    inflates, "centred" (percentile, moved by θ − mean of the resamples).

    Args:
        n: number of rows.
        groups: rows of one group are drawn together; None: every row its own.

    Raises:
        ConfigurationError: fewer than 100 resamples or a level outside (0, 1).
        BadInput: groups do not fit the rows.
    """
    codes = check_groups(groups, n)
    (draws,) = draw([statistic], codes, resamples=resamples, seed=seed)
    value = float(statistic(np.ones((1, n)))[0])
    jackknife = partial(_left_out, statistic, codes) if method == "bca" else None
    return interval_of(draws, value, level=level, centred=method == "centred", jackknife=jackknife)


def estimate(
    name: str,
    statistic: Statistic,
    n: int,
    *,
    undefined: str,
    groups: ArrayLike | None = None,
    seed: int = 0,
    resamples: int = 1000,
    method: Method = "percentile",
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Estimate:
    """The statistic on all rows with its 95 % bootstrap interval.

    The interval is cut to `bounds` (what the metric can be at all) and, where a correction moved it off, widened to
    hold the value. `undefined` is the reason given when the statistic has no value on these rows.
    """
    wanted = Measured(name, statistic, undefined, method, bounds)
    return estimates([wanted], n, groups=groups, seed=seed, resamples=resamples)[0]


def estimates(
    wanted: Sequence[Measured], n: int, *, groups: ArrayLike | None = None, seed: int = 0, resamples: int = 1000
) -> list[Estimate]:
    """Several statistics on the same resamples, which are drawn once: each as `estimate` gives it alone."""
    codes = check_groups(groups, n)
    values = [float(each.statistic(np.ones((1, n)))[0]) for each in wanted]
    defined = [place for place, value in enumerate(values) if math.isfinite(value)]
    drawn = draw([wanted[place].statistic for place in defined], codes, resamples=resamples, seed=seed)
    draws = dict(zip(defined, drawn, strict=True))
    return [_estimated(each, values[place], draws.get(place), codes) for place, each in enumerate(wanted)]


def bounded(name: str, value: float, interval: Bootstrapped, n: int, bounds: tuple[float, float]) -> Estimate:
    """Value and interval, cut to the bounds and wide enough to hold the value."""
    if interval.low is None or interval.high is None:
        return Estimate(name=name, value=value, n=n, reason=interval.reason)
    low, high = (min(max(end, bounds[0]), bounds[1]) for end in (interval.low, interval.high))
    return Estimate(name=name, value=value, low=min(low, value), high=max(high, value), n=n)


def draw(
    statistics: Sequence[Statistic], codes: NDArray[np.intp], *, resamples: int, seed: int | SeedSequence
) -> list[Floats]:
    """Every statistic on every resample, each of shape (resamples,); empty arrays where all rows are one group.

    Raises:
        ConfigurationError: fewer than 100 resamples.
    """
    if resamples < 100:
        raise ConfigurationError(f"resamples={resamples} must be at least 100")
    count = int(codes.max()) + 1
    if count < 2 or not statistics:
        return [np.zeros(0) for _ in statistics]
    blocks = [[each(weights) for each in statistics] for weights in _resampled(codes, count, resamples, seed)]
    return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]


def interval_of(
    draws: Floats,
    value: float,
    *,
    level: float = _LEVEL,
    centred: bool = False,
    jackknife: Callable[[], Floats] | None = None,
) -> Bootstrapped:
    """The interval from the resamples' values.

    Args:
        draws: (resamples,), NaN where undefined; empty where there was only one group to draw.
        jackknife: gives the statistic with each group left out, for "bca".

    Raises:
        ConfigurationError: a level outside (0, 1).
    """
    if not 0.0 < level < 1.0:
        raise ConfigurationError(f"level={level} must lie strictly inside (0, 1)")
    resamples = draws.size
    if resamples == 0:
        return Bootstrapped(None, None, "all rows are one group: no interval can be drawn", 0, 0)
    defined = draws[np.isfinite(draws)]
    undefined = resamples - defined.size
    if undefined > _MOST_UNDEFINED * resamples:
        reason = f"{undefined} of {resamples} resamples have no value (too few rows of one class): no interval"
        return Bootstrapped(None, None, reason, resamples, undefined)
    if defined.min() == defined.max():
        return Bootstrapped(None, None, "all resamples agree: rows too alike for an interval", resamples, undefined)
    tails = np.array([(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    if jackknife is not None:
        tails = _bca_tails(tails, value, defined, jackknife())
    low, high = np.quantile(defined, tails)
    if centred:
        low, high = np.array([low, high]) + value - defined.mean()
    return Bootstrapped(float(low), float(high), None, resamples, undefined)


def _estimated(wanted: Measured, value: float, draws: Floats | None, codes: NDArray[np.intp]) -> Estimate:
    if draws is None:
        return Estimate(name=wanted.name, value=None, n=codes.size, reason=wanted.undefined)
    jackknife = partial(_left_out, wanted.statistic, codes) if wanted.method == "bca" else None
    interval = interval_of(draws, value, centred=wanted.method == "centred", jackknife=jackknife)
    return bounded(wanted.name, value, interval, codes.size, wanted.bounds)


def _resampled(codes: NDArray[np.intp], count: int, resamples: int, seed: int | SeedSequence) -> Iterator[Floats]:
    generator = np.random.default_rng(seed)
    block = max(1, _BLOCK // codes.size)
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        drawn = generator.integers(0, count, size=(size, count))
        flat = (drawn + count * np.arange(size)[:, None]).ravel()
        times = np.bincount(flat, minlength=size * count).reshape(size, count)
        yield times[:, codes].astype(np.float64)


def _left_out(statistic: Statistic, codes: NDArray[np.intp]) -> Floats:
    """The statistic with each group left out, shape (groups,)."""
    count = int(codes.max()) + 1
    block = max(1, _BLOCK // codes.size)
    parts = [
        statistic((codes[None, :] != np.arange(start, min(start + block, count))[:, None]).astype(np.float64))
        for start in range(0, count, block)
    ]
    return np.concatenate(parts)


def _bca_tails(tails: Floats, value: float, draws: Floats, left_out: Floats) -> Floats:
    from scipy.special import ndtr, ndtri

    below = ((draws < value).sum() + 0.5 * (draws == value).sum()) / draws.size
    left_out = left_out[np.isfinite(left_out)]
    distance = left_out.mean() - left_out if left_out.size else left_out
    spread = float((distance**2).sum())
    if not 0.0 < below < 1.0 or spread == 0.0:
        return tails
    acceleration = float((distance**3).sum()) / (6.0 * spread**1.5)
    bias = float(ndtri(below))
    normal = bias + ndtri(tails)
    return ndtr(bias + normal / (1.0 - acceleration * normal))
