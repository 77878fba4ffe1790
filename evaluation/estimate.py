"""An estimate: a number with the interval it may as well be, or the reason why there is none."""

from __future__ import annotations

from pydantic import Field, model_validator

from ..core.record import Record


class Estimate(Record):
    """A metric's value on `n` rows.

    Attributes:
        value: None where the metric is not defined on these rows.
        low, high: ends of the interval; None where it cannot be told. `value` may lie at an end.
        n: number of rows behind it.
        reason: why value or interval is missing; None when both are there.
        level: confidence level of the interval.
    """

    name: str
    value: float | None = Field(allow_inf_nan=False)
    low: float | None = Field(default=None, allow_inf_nan=False)
    high: float | None = Field(default=None, allow_inf_nan=False)
    n: int = Field(ge=0)
    reason: str | None = None
    level: float = Field(default=0.95, gt=0.0, lt=1.0)

    @model_validator(mode="after")
    def _whole(self) -> Estimate:
        if (self.low is None) != (self.high is None):
            raise ValueError(f"estimate {self.name!r} has one end of an interval only: [{self.low}, {self.high}]")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"estimate {self.name!r}: interval [{self.low}, {self.high}] is upside down")
        if (self.value is None or self.low is None) and not self.reason:
            raise ValueError(f"estimate {self.name!r} lacks its value or interval and does not say why; give a reason")
        return self

    def as_row(self) -> dict[str, float | int | str | None]:
        """What `metrics.json` holds: value, low, high, n, and the reason where there is one."""
        row: dict[str, float | int | str | None] = {
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "n": self.n,
        }
        return row if self.reason is None else {**row, "reason": self.reason}
