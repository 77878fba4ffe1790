"""Outcomes: what turned out right or wrong, who says so, and how likely it was that anyone looked."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum

from pydantic import Field, model_validator

from .record import Record, new_id


class OutcomeSource(StrEnum):
    """Who graded. Stronger first: human > test > rule > judge. A model's own verdict is not a source."""

    HUMAN = "human"
    TEST = "test"
    RULE = "rule"
    JUDGE = "judge"


class Outcome(Record):
    """A grade for one response.

    Attributes:
        correct: right or wrong; or None where only `score` is given.
        score: a grade in [0, 1]; `cut` makes it binary (right iff score >= cut).
        label_propensity: known chance that this response was sent for grading; None where it is unknown.
    """

    id: str = Field(default_factory=lambda: new_id("out"))
    response_id: str
    correct: bool | None = None
    score: float | None = Field(default=None, ge=0.0, le=1.0, allow_inf_nan=False)
    cut: float | None = Field(default=None, ge=0.0, le=1.0, allow_inf_nan=False)
    corrected_answer: str | None = None
    source: OutcomeSource
    source_name: str = ""
    label_propensity: float | None = Field(default=None, ge=0.0, le=1.0)
    graded_at: datetime = Field(default_factory=lambda: datetime.now(UTC))

    @model_validator(mode="after")
    def _says_something(self) -> Outcome:
        if self.correct is None and self.score is None:
            raise ValueError("an outcome needs correct=True/False or score in [0, 1]")
        if self.correct is None and self.cut is None:
            raise ValueError(f"score={self.score} needs a named cut to become right or wrong; pass cut=0.5, say")
        return self

    @property
    def is_right(self) -> bool:
        """The binary grade."""
        if self.correct is not None:
            return self.correct
        assert self.score is not None and self.cut is not None
        return self.score >= self.cut
