"""Partial pooling: a tool or task with few labels leans on the rest, one with many stands alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import BadInput
from .calibration.base import Floats, checked_grades, checked_scores, checked_weights, logit, sigmoid

_ROUNDS, _NEWTON = 200, 25
_MOST_GROUPS = 10_000
_MOST = 20.0


@dataclass(frozen=True)
class PartialPooling:
    """log-odds of group g = log-odds + offset_g, offset_g ~ N(0, spread²): a random intercept by empirical Bayes.

    Offsets are posterior modes (logistic likelihood, Gaussian prior), `spread` is found by EM with Laplace's
    approximation (Gelman and Hill, Data Analysis Using Regression and Multilevel Models, 2007, ch. 12). A group of few
    rows keeps an offset near 0, a group of many gets what its own rows say; where groups do not differ by more than
    chance, spread and offsets go to 0.

    Attributes:
        offsets: by group, in log-odds.
        errors: standard deviation of each offset given the rows.
        spread: standard deviation of offsets over groups: the error of a group that was never met, whose offset is 0.
        labels: rows of each group.
    """

    offsets: Mapping[str, float]
    errors: Mapping[str, float]
    spread: float
    labels: Mapping[str, int]

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
        variance = 0.25
        offsets = np.zeros(names.size)
        for _ in range(_ROUNDS):
            offsets, information = _modes(x, y, w, codes, offsets, variance)
            again = float(np.mean(offsets**2 + 1.0 / (information + 1.0 / variance)))
            # Two groups or one cannot tell a spread from chance.
            again = max(again, 1e-8) if names.size > 2 else 1e-8
            if abs(again - variance) < 1e-9:
                break
            variance = again
        offsets, information = _modes(x, y, w, codes, offsets, variance)
        errors = 1.0 / np.sqrt(information + 1.0 / variance)
        count = np.bincount(codes, minlength=names.size)
        told = [str(name) for name in names]
        return cls(
            dict(zip(told, offsets.tolist(), strict=True)),
            dict(zip(told, errors.tolist(), strict=True)),
            float(np.sqrt(variance)),
            dict(zip(told, count.tolist(), strict=True)),
        )

    def offset(self, group: str | None) -> tuple[float, float]:
        """Offset of a group and its standard deviation; 0 and `spread` for one that was never met."""
        if group is None or group not in self.offsets:
            return 0.0, self.spread
        return self.offsets[group], self.errors[group]

    def shifted(self, log_odds: ArrayLike, groups: Sequence[str | None]) -> Floats:
        """(n,) log-odds with the offsets of their groups."""
        return checked_scores(log_odds) + np.array([self.offset(group)[0] for group in groups])

    def applied(
        self, probability: Floats, low: Floats, high: Floats, groups: Sequence[str | None], z: float = 1.645
    ) -> tuple[Floats, Floats, Floats]:
        """Probabilities (n,) and their intervals with the offsets, whose own errors widen the intervals; NaN stays."""
        told = [self.offset(group) for group in groups]
        offsets, errors = np.array([each[0] for each in told]), np.array([each[1] for each in told])
        at, down, up = logit(probability), logit(low), logit(high)
        wider = (z * errors) ** 2
        moved = at + offsets
        return (
            sigmoid(moved),
            sigmoid(moved - np.sqrt((at - down) ** 2 + wider)),
            sigmoid(moved + np.sqrt((up - at) ** 2 + wider)),
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "spread": self.spread,
            "groups": {name: [self.offsets[name], self.errors[name], self.labels[name]] for name in self.offsets},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PartialPooling:
        """Back from `to_dict`.

        Raises:
            BadInput: a value is missing, not finite, or out of range.
        """
        try:
            spread = float(data["spread"])
            groups = {str(name): (float(o), float(e), int(n)) for name, (o, e, n) in data["groups"].items()}
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise BadInput(f"stored pooling does not hold together: {str(error)[:200]}") from error
        numbers = np.array([spread, *(value for each in groups.values() for value in each)])
        if not np.isfinite(numbers).all() or spread < 0.0 or any(e < 0.0 or n < 0 for _, e, n in groups.values()):
            raise BadInput("stored pooling: offsets must be finite, spreads and labels not negative")
        return cls(
            {name: each[0] for name, each in groups.items()},
            {name: each[1] for name, each in groups.items()},
            spread,
            {name: each[2] for name, each in groups.items()},
        )


def _modes(x: Floats, y: Floats, w: Floats, codes: np.ndarray, start: Floats, variance: float) -> tuple[Floats, Floats]:
    """Posterior modes (groups,) by Newton's method, all groups at once, and the rows' Fisher information there."""
    offsets = start.copy()
    information = np.zeros_like(offsets)
    for _ in range(_NEWTON):
        p = sigmoid(x + offsets[codes])
        gradient = np.bincount(codes, weights=w * (y - p), minlength=offsets.size) - offsets / variance
        information = np.bincount(codes, weights=w * p * (1.0 - p), minlength=offsets.size).astype(np.float64)
        step = np.clip(gradient / (information + 1.0 / variance), -1.0, 1.0)
        offsets = np.clip(offsets + step, -_MOST, _MOST)
        if float(np.abs(step).max(initial=0.0)) < 1e-10:
            break
    return offsets, information
