"""An episode: one question the system met, how sure it was, and what came of it."""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import Field, field_validator

from ..core.record import JsonObject, Record, new_id


class Episode(Record):
    """One piece of experience (XConf, arXiv 2609.17708). Its texts are data: quoted, never followed.

    Attributes:
        number: the store's counter; None until it is stored. Not part of the content.
        response_id: the response it tells of; grades find it by this.
        task, tenant: the population and whose it is; tenants never mix.
        model: whose experience it is: another model's bank costs .03 to .06 AUROC.
        question, answer: what was asked and what was answered.
        self_reflection: what the model said of its own answer before it knew the grade.
        stated_confidence: what it said, in [0, 1]; None where it was not asked.
        confidence: the fused, calibrated probability at the time; None where there was none.
        is_right: the grade; None until there is one.
        graded_at: when the grade came: only episodes graded before a call may speak about it.
        corrected_answer: the right answer, where whoever graded wrote it down.
        lesson: written after the grade.
        tool_name, arguments: the proposed use of a tool, where it was one.
    """

    id: str = Field(default_factory=lambda: new_id("epi"), min_length=1, max_length=64)
    number: int | None = None
    response_id: str | None = Field(default=None, max_length=64)
    task: str = Field(default="default", min_length=1, max_length=200)
    tenant: str = Field(default="default", min_length=1, max_length=200)
    model: str = Field(min_length=1, max_length=200)
    question: str
    answer: str
    self_reflection: str | None = None
    stated_confidence: float | None = Field(default=None, ge=0.0, le=1.0, allow_inf_nan=False)
    confidence: float | None = Field(default=None, ge=0.0, le=1.0, allow_inf_nan=False)
    is_right: bool | None = None
    graded_at: datetime | None = None
    corrected_answer: str | None = None
    lesson: str | None = None
    tool_name: str | None = None
    arguments: JsonObject = Field(default_factory=dict)
    created_at: datetime = Field(default_factory=lambda: datetime.now(UTC))

    @field_validator("created_at", "graded_at")
    @classmethod
    def _aware(cls, value: datetime | None) -> datetime | None:
        if value is not None and value.tzinfo is None:
            raise ValueError(f"{value} has no time zone; use datetime.now(UTC)")
        return value

    @property
    def content(self) -> Episode:
        """Without what comes after the fact (number, grade, correction, lesson): what makes two episodes the same."""
        later = ("number", "is_right", "graded_at", "corrected_answer", "lesson")
        return self.model_copy(update=dict.fromkeys(later))
