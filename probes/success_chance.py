"""Learning how likely a later route is to end with a right answer."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..core.decision import Route
from ..core.errors import BadInput, NotEnoughLabels
from ..core.success_chance import SuccessChance
from .calibration.base import checked_grades, checked_weights, logit
from .calibration.likelihood import fit_logistic
from .tiers import FEWEST

_FEWEST_ROWS = 20
_SLOPE_SD = 1.0
_LEVEL = 0.9


def fit_success_chance(
    base_probability: ArrayLike,
    later_correct: ArrayLike,
    *,
    route: Route,
    target: str | None = None,
    weights: ArrayLike | None = None,
) -> SuccessChance:
    """Chance that the later route is right, as a line in the log-odds of the present draft being right.

    The slope is drawn towards 0 (a constant chance) by a Gaussian of standard deviation 1; the intercept is free but
    for the smoothing (k + 1)/(n + 2). With fewer than 10 rows of the rarer class the chance is the constant
    (k + 1)/(n + 2). The interval is that of the average chance, Beta(k + 1, n - k + 1) at 90 %; weighted rows count
    with Kish's effective number.

    Args:
        base_probability: (n,) calibrated probability of the draft, out of fold, in [0, 1].
        later_correct: (n,) whether the later route was right.

    Raises:
        NotEnoughLabels: fewer than 20 rows; a constant can still be given with `SuccessChance.stated`.
        BadInput: lengths differ or a value is not usable.
    """
    p = np.asarray(base_probability, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0.0) & (p <= 1.0)).all():
        raise BadInput("base probabilities must be (n,) numbers in [0, 1]; leave rows without one out")
    if p.size < _FEWEST_ROWS:
        name = f"{route.value}:{target}" if target else route.value
        raise NotEnoughLabels(
            f"{p.size} graded rows for the success chance of {name}; {_FEWEST_ROWS} are needed, so "
            f"{_FEWEST_ROWS - p.size} more. Grade more calls, or state the chance in the settings",
            have=p.size,
            need=_FEWEST_ROWS,
        )
    y, w = checked_grades(later_correct, p.size), checked_weights(weights, p.size)
    low, high = _beta_interval(float(np.average(y, weights=w)), float(w.sum() ** 2 / (w @ w)))
    smoothed = float((w @ y + 1.0) / (p.size + 2.0))
    common = {"route": route, "target": target, "low": low, "high": high, "level": _LEVEL, "labels": p.size}
    if min(y.sum(), (1.0 - y).sum()) < FEWEST:
        return SuccessChance(**common, constant=smoothed)
    x = logit(p, edge=1e-6)
    centre = float(np.average(x, weights=w))
    start = np.array([float(logit(smoothed)), 0.0])
    theta = fit_logistic(
        np.column_stack([np.ones_like(x), x - centre]),
        y,
        w,
        start=start,
        lower=np.array([-50.0, -50.0]),
        upper=np.array([50.0, 50.0]),
        prior_mean=start,
        prior_precision=np.array([0.0, _SLOPE_SD**-2]),
    )
    return SuccessChance(**common, intercept=float(theta[0] - theta[1] * centre), slope=float(theta[1]))


def _beta_interval(rate: float, rows: float) -> tuple[float, float]:
    from scipy.stats import beta

    right = rate * rows
    tail = (1.0 - _LEVEL) / 2.0
    low, high = beta.ppf([tail, 1.0 - tail], right + 1.0, rows - right + 1.0)
    return float(low), float(high)
