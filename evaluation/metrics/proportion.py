"""A plain proportion with a Beta(1, 1) interval: honest on few rows, never the central limit theorem."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..estimate import Estimate
from ..inputs import check_groups, check_labels


def proportion(name: str, hits: ArrayLike, *, groups: ArrayLike | None = None, level: float = 0.95) -> Estimate:
    """Share of `hits` (0 or 1, shape (n,)) with an interval from the Beta posterior under a uniform prior
    (arXiv 2503.01747), equal tails; an end that nothing speaks against (0 of n, n of n) is 0 or 1.

    Rows of one group are not n independent rows: n is first divided by the design effect (ratio estimator's variance
    over groups against the binomial one), and never exceeds the number of rows.

    Returns:
        An estimate without value where there is no row.
    """
    if np.size(np.asarray(hits)) == 0:
        return Estimate(name=name, value=None, n=0, reason="no rows", level=level)
    from scipy.stats import beta

    labels = check_labels(name, hits)
    n = labels.size
    share = float(labels.mean())
    effective = _effective_rows(labels, groups)
    tail = (1.0 - level) / 2.0
    ends = beta.ppf([tail, 1.0 - tail], 1.0 + share * effective, 1.0 + (1.0 - share) * effective)
    low, high = 0.0 if share == 0.0 else float(ends[0]), 1.0 if share == 1.0 else float(ends[1])
    return Estimate(name=name, value=share, low=min(low, share), high=max(high, share), n=n, level=level)


def _effective_rows(labels: np.ndarray, groups: ArrayLike | None) -> float:
    n = labels.size
    codes = check_groups(groups, n)
    sizes = np.bincount(codes).astype(np.float64)
    count = sizes.size
    if count == n:
        return float(n)
    share = float(labels.mean())
    if count < 2 or share in (0.0, 1.0):
        return float(count)
    residuals = np.bincount(codes, weights=labels) - share * sizes
    variance = count / (count - 1) * float((residuals**2).sum()) / n**2
    binomial = share * (1.0 - share)
    return float(n) if variance <= binomial / n else max(1.0, binomial / variance)
