"""The bivariate standard normal: its distribution function, and the correlation that a probability belongs to."""

from __future__ import annotations

import numpy as np

from ..inputs import Floats

_LARGEST = 9.0
_HALVINGS = 32


def lower_quadrant(a: Floats, b: Floats, correlation: Floats) -> Floats:
    """P(X ≤ a, Y ≤ b) for correlations strictly inside (−1, 1), by Owen's T (Owen 1956); shapes as given."""
    from scipy.special import ndtr, owens_t

    rest = np.sqrt(1.0 - correlation**2)
    # Owen's T has its slope divided by a and b; that they are not 0 costs nothing.
    a, b = (np.where(each == 0.0, 1e-300, each) for each in (a, b))
    opposite = np.where(a * b > 0.0, 0.0, np.where((a * b == 0.0) & (a + b >= 0.0), 0.0, 0.5))
    with np.errstate(over="ignore"):
        slope_a, slope_b = (b - correlation * a) / (a * rest), (a - correlation * b) / (b * rest)
    return 0.5 * (ndtr(a) + ndtr(b)) - owens_t(a, slope_a) - owens_t(b, slope_b) - opposite


def log_density(a: Floats, b: Floats, correlation: Floats) -> Floats:
    """Log density at (a, b); also the log slope of `lower_quadrant` in the correlation (Plackett 1954)."""
    rest = 1.0 - correlation**2
    return -np.log(2.0 * np.pi) - 0.5 * np.log(rest) - (a * a - 2.0 * correlation * a * b + b * b) / (2.0 * rest)


def correlation_of(a: Floats, b: Floats, probability: Floats) -> Floats:
    """The correlation at which the lower quadrant has this probability, by bisection of its Fisher transform (within
    ±9, that is |correlation| < 1 − 3e-8)."""
    low, high = np.full_like(a, -_LARGEST), np.full_like(a, _LARGEST)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        short = lower_quadrant(a, b, np.tanh(middle)) < probability
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return np.tanh((low + high) / 2.0)
