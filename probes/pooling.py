"""Partial pooling: a tool or task with few labels leans on the rest, one with many stands alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import BadInput
from .calibration.base import Floats, checked_grades, checked_scores, checked_weights, logit, sigmoid
from .random_effects import fit_effects

_MOST_GROUPS = 10_000
_ENOUGH = 2.706 / 2.0
"""How much more log evidence slopes must bring: 5 % level of a variance that may be 0 (half χ²₀, half χ²₁)."""


@dataclass(frozen=True)
class Slope:
    """How much steeper a group's log-odds run than the whole's.

    Attributes:
        value: 0 for as steep; at least -0.9, so that the order within a group stays.
        error: its standard deviation given the rows.
        covariance: with the group's offset.
    """

    value: float
    error: float
    covariance: float


@dataclass(frozen=True)
class PartialPooling:
    """log-odds of group g = x + offset_g + slope_g (x - centre), x the overall log-odds: random effects, drawn to 0.

    offset_g ~ N(0, spread²) and slope_g ~ N(0, slope_spread²). Offsets and slopes are posterior modes (logistic
    likelihood, Gaussian prior), spreads are found by EM with Laplace's approximation (Gelman and Hill, Data Analysis
    Using Regression and Multilevel Models, 2007, ch. 12). A group of few rows keeps near 0, a group of many gets what
    its own rows say; where groups do not differ by more than chance, spread and offsets go to 0. There are slopes only
    where the rows speak for them.

    Attributes:
        offsets: by group, in log-odds.
        errors: standard deviation of each offset given the rows.
        spread: standard deviation of offsets over groups: the error of a group that was never met, whose offset is 0.
        labels: rows of each group.
        slopes: by group; empty where all run alike.
        slope_spread: standard deviation of slopes over groups.
        centre: the log-odds at which a slope moves nothing: their mean over the rows.
    """

    offsets: Mapping[str, float]
    errors: Mapping[str, float]
    spread: float
    labels: Mapping[str, int]
    slopes: Mapping[str, Slope] = field(default_factory=dict)
    slope_spread: float = 0.0
    centre: float = 0.0

    @classmethod
    def fit(
        cls, log_odds: ArrayLike, correct: ArrayLike, groups: Sequence[str], weights: ArrayLike | None = None
    ) -> PartialPooling:
        """Fit on n rows whose log-odds did not see their own grade (out of fold).

        Args:
            log_odds, correct, weights: (n,).
            groups: n names of tools or tasks.

        Raises:
            BadInput: lengths differ, or a value is not usable.
        """
        x = checked_scores(log_odds)
        y, w = checked_grades(correct, x.size), checked_weights(weights, x.size)
        if len(groups) != x.size:
            raise BadInput(f"{x.size} rows came with {len(groups)} group names")
        names, codes = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
        if names.size > _MOST_GROUPS:
            raise BadInput(f"{names.size} groups; at most {_MOST_GROUPS}: group by tool or task, not by call")
        centre = float(np.average(x, weights=w))
        found, sloped = (fit_effects(x, centre, y, w, codes, slopes=slopes) for slopes in (False, True))
        has_slopes = sloped.evidence > found.evidence + _ENOUGH
        if has_slopes:
            found = sloped
        count = np.bincount(codes, minlength=names.size)
        told = [str(name) for name in names]
        errors = np.sqrt(np.diagonal(found.covariances, axis1=1, axis2=2))
        slopes = {
            name: Slope(float(mode[1]), float(error[1]), float(covariance[0, 1]))
            for name, mode, error, covariance in zip(told, found.modes, errors, found.covariances, strict=True)
            if has_slopes
        }
        return cls(
            dict(zip(told, found.modes[:, 0].tolist(), strict=True)),
            dict(zip(told, errors[:, 0].tolist(), strict=True)),
            float(np.sqrt(found.variances[0])),
            dict(zip(told, count.tolist(), strict=True)),
            slopes,
            float(np.sqrt(found.variances[1])) if has_slopes else 0.0,
            centre if has_slopes else 0.0,
        )

    def offset(self, group: str | None) -> tuple[float, float]:
        """Offset of a group and its standard deviation; 0 and `spread` for one that was never met."""
        if group is None or group not in self.offsets:
            return 0.0, self.spread
        return self.offsets[group], self.errors[group]

    def slope(self, group: str | None) -> Slope:
        """Slope of a group; 0 with an error of `slope_spread` for one that was never met."""
        return self.slopes.get(group or "", Slope(0.0, self.slope_spread, 0.0))

    def shifted(self, log_odds: ArrayLike, groups: Sequence[str | None]) -> Floats:
        """(n,) log-odds with the offsets and slopes of their groups."""
        return self._moved(checked_scores(log_odds), groups)[0]

    def applied(
        self, probability: Floats, low: Floats, high: Floats, groups: Sequence[str | None], z: float = 1.645
    ) -> tuple[Floats, Floats, Floats]:
        """Probabilities (n,) and their intervals as their groups have it, whose own errors widen the intervals; NaN
        stays."""
        at, down, up = logit(probability), logit(low), logit(high)
        moved, steepness, variance = self._moved(at, groups)
        wider = z**2 * variance
        return (
            sigmoid(moved),
            sigmoid(moved - np.sqrt((steepness * (at - down)) ** 2 + wider)),
            sigmoid(moved + np.sqrt((steepness * (up - at)) ** 2 + wider)),
        )

    def _moved(self, x: Floats, groups: Sequence[str | None]) -> tuple[Floats, Floats, Floats]:
        """(n,) log-odds of the groups, how steep they run, and the variance of where they were moved."""
        told = [(*self.offset(group), self.slope(group)) for group in groups]
        offsets, errors = np.array([each[0] for each in told]), np.array([each[1] for each in told])
        slopes = np.array([each[2].value for each in told])
        away = x - self.centre
        variance = (
            errors**2
            + 2.0 * away * np.array([each[2].covariance for each in told])
            + away**2 * np.array([each[2].error for each in told]) ** 2
        )
        return x + offsets + slopes * away, 1.0 + slopes, np.maximum(variance, 0.0)

    def to_dict(self) -> dict[str, Any]:
        stored: dict[str, Any] = {
            "spread": self.spread,
            "groups": {name: [self.offsets[name], self.errors[name], self.labels[name]] for name in self.offsets},
        }
        if self.slopes:
            slopes = {name: [each.value, each.error, each.covariance] for name, each in self.slopes.items()}
            stored |= {"slope_spread": self.slope_spread, "centre": self.centre, "slopes": slopes}
        return stored

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PartialPooling:
        """Back from `to_dict`.

        Raises:
            BadInput: a value is missing, not finite, or out of range.
        """
        try:
            spread = float(data["spread"])
            groups = {str(name): (float(o), float(e), int(n)) for name, (o, e, n) in data["groups"].items()}
            sloped = "slopes" in data
            slope_spread, centre = (float(data[key]) if sloped else 0.0 for key in ("slope_spread", "centre"))
            slopes = {
                str(name): Slope(float(value), float(error), float(covariance))
                for name, (value, error, covariance) in (data["slopes"].items() if sloped else ())
            }
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise BadInput(f"stored pooling does not hold together: {str(error)[:200]}") from error
        steep = [(each.value, each.error, each.covariance) for each in slopes.values()]
        numbers = np.array([spread, slope_spread, centre, *(v for each in (*groups.values(), *steep) for v in each)])
        if not np.isfinite(numbers).all() or min(spread, slope_spread) < 0.0:
            raise BadInput("stored pooling: offsets and slopes must be finite, spreads not negative")
        if any(e < 0.0 or n < 0 for _, e, n in groups.values()) or any(v <= -1.0 or e < 0.0 for v, e, _ in steep):
            raise BadInput("stored pooling: errors and labels must not be negative, slopes lie above -1")
        if sloped and slopes.keys() != groups.keys():
            raise BadInput("stored pooling: offsets and slopes are of different groups")
        return cls(
            {name: each[0] for name, each in groups.items()},
            {name: each[1] for name, each in groups.items()},
            spread,
            {name: each[2] for name, each in groups.items()},
            slopes,
            slope_spread,
            centre,
        )
