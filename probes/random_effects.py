"""Offsets and slopes of groups by empirical Bayes: a logistic likelihood, a Gaussian prior, Laplace's approximation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .calibration.base import Floats, sigmoid

_ROUNDS, _NEWTON = 200, 25
_MOST = 20.0
_LEAST_VARIANCE = 1e-8
_FLATTEST = 0.9
"""A slope takes at most so much of the overall one away, so that the order within a group stays."""


@dataclass(frozen=True)
class Effects:
    """Of each group: modes of offset and slope (groups, 2), their covariance given the rows (groups, 2, 2).

    Attributes:
        variances: (2,) prior variance of offsets and slopes over groups.
        evidence: log marginal likelihood of the rows, by Laplace's approximation.
    """

    modes: Floats
    covariances: Floats
    variances: Floats
    evidence: float


def fit_effects(x: Floats, centre: float, y: Floats, w: Floats, codes: NDArray[np.integer], *, slopes: bool) -> Effects:
    """log-odds of a row of group g = x + offset_g + slope_g (x - centre), prior variances by EM.

    Args:
        x, y, w: (n,) log-odds, grades and weights.
        codes: (n,) of 0 … groups - 1, each there at least once.
        slopes: False keeps slopes at 0.
    """
    count = int(codes.max()) + 1
    design = np.column_stack([np.ones_like(x), x - centre])
    free = np.array([True, slopes])
    variances = np.where(free, 0.25, _LEAST_VARIANCE)
    modes = np.zeros((count, 2))
    for _ in range(_ROUNDS):
        modes, covariances = _modes(x, design, y, w, codes, modes, variances)
        again = (modes**2 + np.diagonal(covariances, axis1=1, axis2=2)).mean(axis=0)
        # Two groups or one cannot tell a spread from chance.
        again = np.where(free & (count > 2), np.maximum(again, _LEAST_VARIANCE), _LEAST_VARIANCE)
        if float(np.abs(again - variances).max()) < 1e-6:
            break
        variances = again
    modes, covariances = _modes(x, design, y, w, codes, modes, variances)
    at = x + (design * modes[codes]).sum(axis=1)
    fit = float(w @ (y * at - np.logaddexp(0.0, at)))
    shrunk = 0.5 * float((modes**2 / variances).sum())
    volume = 0.5 * float((np.linalg.slogdet(covariances)[1] - np.log(variances).sum()).sum())
    return Effects(modes, covariances, variances, fit - shrunk + volume)


def _modes(
    x: Floats, design: Floats, y: Floats, w: Floats, codes: NDArray[np.integer], start: Floats, variances: Floats
) -> tuple[Floats, Floats]:
    """Posterior modes (groups, 2) by Newton's method, all groups at once, and their covariances (groups, 2, 2)."""
    modes, count = start.copy(), len(start)

    def summed(values: Floats) -> Floats:
        return np.asarray(np.bincount(codes, weights=values, minlength=count), dtype=np.float64)

    def covariance(p: Floats) -> Floats:
        spread = w * p * (1.0 - p)
        precision = np.empty((count, 2, 2))
        for row, column in ((0, 0), (0, 1), (1, 1)):
            precision[:, row, column] = precision[:, column, row] = summed(spread * design[:, row] * design[:, column])
        precision[:, (0, 1), (0, 1)] += 1.0 / variances
        return np.asarray(np.linalg.inv(precision), dtype=np.float64)

    for _ in range(_NEWTON):
        p = sigmoid(x + (design * modes[codes]).sum(axis=1))
        rest = w * (y - p)
        gradient = np.column_stack([summed(rest * column) for column in design.T]) - modes / variances
        step = np.clip(np.einsum("gij,gj->gi", covariance(p), gradient), -1.0, 1.0)
        modes = np.clip(modes + step, [-_MOST, -_FLATTEST], _MOST)
        if float(np.abs(step).max(initial=0.0)) < 1e-8:
            break
    return modes, covariance(sigmoid(x + (design * modes[codes]).sum(axis=1)))
