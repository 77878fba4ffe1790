"""How likely a later route is to end with a right answer."""

from __future__ import annotations

import math

from pydantic import Field, model_validator

from .decision import Route
from .record import Record

_EDGE = 1e-6


class SuccessChance(Record):
    """The chance that a route ends with a right answer, given how sure the present draft is.

    chance(p) = sigmoid(intercept + slope · logit(p)), or `constant` where that is given.

    Attributes:
        route: retrieve, escalate or defer.
        target: the model it escalates to, or the reviewer pool; None where there is only one.
        constant: the same chance for every call; None where the line above is used.
        intercept, slope: in log-odds, fitted; both 0 where `constant` is used.
        low, high: interval of the average chance at `level`; equal to the constant where a user gave it.
        labels: graded rows behind it (0: given by the user, not learned).
        given: a user wrote the constant down.
    """

    route: Route
    target: str | None = None
    constant: float | None = Field(default=None, ge=0.0, le=1.0, allow_inf_nan=False)
    intercept: float = Field(default=0.0, allow_inf_nan=False)
    slope: float = Field(default=0.0, allow_inf_nan=False)
    low: float = Field(ge=0.0, le=1.0, allow_inf_nan=False)
    high: float = Field(ge=0.0, le=1.0, allow_inf_nan=False)
    level: float = Field(default=0.9, gt=0.0, lt=1.0)
    labels: int = Field(ge=0)
    given: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> SuccessChance:
        if self.low > self.high:
            raise ValueError(f"interval [{self.low}, {self.high}] is upside down")
        if self.given and self.labels:
            raise ValueError(f"a chance given by the user has labels=0, not {self.labels}")
        if self.labels == 0 and not self.given:
            raise ValueError("a learned chance needs labels > 0; use SuccessChance.stated(...) for one you give")
        return self

    @classmethod
    def stated(cls, route: Route, chance: float, *, target: str | None = None) -> SuccessChance:
        """A constant that a user gives: nothing was learned."""
        return cls(route=route, target=target, constant=chance, low=chance, high=chance, labels=0, given=True)

    def at(self, probability: float) -> float:
        """The chance for a call whose present draft is right with `probability`.

        Raises:
            ValueError: `probability` is not a number in [0, 1].
        """
        if not 0.0 <= probability <= 1.0:
            raise ValueError(f"probability {probability} must lie in [0, 1]")
        if self.constant is not None:
            return self.constant
        p = min(max(probability, _EDGE), 1.0 - _EDGE)
        log_odds = self.intercept + self.slope * math.log(p / (1.0 - p))
        if log_odds >= 0.0:
            return 1.0 / (1.0 + math.exp(-log_odds))
        return math.exp(log_odds) / (1.0 + math.exp(log_odds)) if log_odds > -700.0 else 0.0
