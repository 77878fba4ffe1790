"""Signals: what a probe says. A score on any scale, or a stated reason why there is none."""

from __future__ import annotations

import math
from enum import StrEnum

from pydantic import field_validator

from .record import Record


class Direction(StrEnum):
    """Which way a raw score points."""

    HIGHER_IS_SURER = "higher"
    LOWER_IS_SURER = "lower"


class RawScore(Record):
    """A finite number on a scale of its own. Not a probability: only a calibrator makes one.

    Raises:
        ValueError: the value is NaN or infinite; return `Unavailable` instead.
    """

    value: float
    direction: Direction = Direction.HIGHER_IS_SURER

    @field_validator("value")
    @classmethod
    def _finite(cls, value: float) -> float:
        if not math.isfinite(value):
            raise ValueError(f"a raw score must be finite, not {value}; return Unavailable(reason) instead")
        return value

    @property
    def oriented(self) -> float:
        """The value with its sign turned so that higher is surer."""
        return self.value if self.direction is Direction.HIGHER_IS_SURER else -self.value


class Unavailable(Record):
    """There is no score, and why. Never replaced by a silent default."""

    reason: str


class Signal(Record):
    """A named score."""

    name: str
    score: RawScore | Unavailable

    @property
    def available(self) -> bool:
        return isinstance(self.score, RawScore)

    @property
    def value(self) -> float | None:
        """The score as the probe gave it, or None."""
        return self.score.value if isinstance(self.score, RawScore) else None

    @classmethod
    def of(
        cls, name: str, value: float | None, direction: Direction = Direction.HIGHER_IS_SURER, *, missing: str = ""
    ) -> Signal:
        """A signal from a number that may be None, NaN or infinite (then `Unavailable`)."""
        if value is None:
            return cls(name=name, score=Unavailable(reason=missing or "no value"))
        number = float(value)
        if not math.isfinite(number):
            return cls(name=name, score=Unavailable(reason=f"not finite: {number}"))
        return cls(name=name, score=RawScore(value=number, direction=direction))

    @classmethod
    def missing(cls, name: str, reason: str) -> Signal:
        return cls(name=name, score=Unavailable(reason=reason))
