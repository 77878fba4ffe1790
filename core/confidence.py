"""Calibrated confidence: a probability with its interval, its parts and its origin."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field, model_validator

from .record import Record


class Probability(Record):
    """A number in [0, 1] that a calibrator vouches for. Distinct from `RawScore` by type."""

    value: float = Field(ge=0.0, le=1.0, allow_inf_nan=False)


class Interval(Record):
    """A closed interval of probabilities at a stated level (0.9 = 90 %)."""

    low: float = Field(ge=0.0, le=1.0, allow_inf_nan=False)
    high: float = Field(ge=0.0, le=1.0, allow_inf_nan=False)
    level: float = Field(default=0.9, gt=0.0, lt=1.0)

    @model_validator(mode="after")
    def _ordered(self) -> Interval:
        if self.low > self.high:
            raise ValueError(f"interval [{self.low}, {self.high}] is upside down")
        return self


class Contribution(Record):
    """How much one signal moved the log-odds away from the average call (negative: towards wrong)."""

    signal: str
    log_odds: float = Field(allow_inf_nan=False)


class Confidence(Record):
    """How likely the result is right.

    Attributes:
        probability: the calibrated probability of being right.
        interval: uncertainty of that probability from the finite labels it was fitted on.
        contributions: what each signal added, largest magnitude first.
        calibrator: identifier of the artefact and its head, or "prior".
        labels: number of graded rows behind it (0 for the prior).
        fitted_at: when the calibrator was fitted; None for the prior.
        missing: signals that the calibrator wanted and did not get.
        fused: what the fitted head alone said, before what was learned since from outcomes; None where that is all.
    """

    probability: Probability
    interval: Interval
    contributions: tuple[Contribution, ...] = ()
    calibrator: str
    labels: int = Field(ge=0)
    fitted_at: datetime | None = None
    missing: tuple[str, ...] = ()
    fused: float | None = Field(default=None, ge=0.0, le=1.0, allow_inf_nan=False)

    @property
    def value(self) -> float:
        return self.probability.value

    @property
    def is_prior(self) -> bool:
        """True when nothing was learned yet; no guarantee accepts it."""
        return self.labels == 0
