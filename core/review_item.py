"""A review item: a call that waits for a human."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum

from pydantic import Field, model_validator

from .call import Call
from .confidence import Confidence
from .record import JsonObject, Record, new_id


class ReviewState(StrEnum):
    """Where an item stands."""

    OPEN = "open"
    CLAIMED = "claimed"
    RESOLVED = "resolved"
    EXPIRED = "expired"


class ReviewKind(StrEnum):
    """Why a human is asked."""

    DEFERRED = "deferred"
    EFFECT_UNKNOWN = "effect_unknown"
    LABEL = "label"


class SafeEnd(StrEnum):
    """What happens when nobody decides in time. There is no "approve": silence never lets anything through."""

    REJECT = "reject"
    ABSTAIN = "abstain"


class Verdict(StrEnum):
    """What a reviewer can say."""

    APPROVE = "approve"
    EDIT = "edit"
    REJECT = "reject"
    RESPOND = "respond"


class Resolution(Record):
    """A reviewer's decision.

    Attributes:
        answer: the text to give instead (`edit` of an answer, or `respond`).
        arguments: the tool arguments to use instead (`edit` of a tool call); JSON types survive.
        tool_name: another tool, where the edit changes it: it is gated again under that tool's policy.
        note: why; for `reject` it is what the caller is told.
    """

    verdict: Verdict
    answer: str | None = Field(default=None, max_length=1_000_000)
    tool_name: str | None = None
    arguments: JsonObject | None = None
    note: str = Field(default="", max_length=20_000)
    reviewer: str = Field(min_length=1, max_length=200)
    resolved_at: datetime = Field(default_factory=lambda: datetime.now(UTC))

    @model_validator(mode="after")
    def _complete(self) -> Resolution:
        if self.verdict is Verdict.RESPOND and self.answer is None:
            raise ValueError("respond needs an answer")
        if self.verdict is Verdict.EDIT and self.answer is None and self.arguments is None:
            raise ValueError("edit needs an answer (of a model call) or arguments (of a tool call)")
        if self.verdict in (Verdict.APPROVE, Verdict.REJECT) and (
            self.answer is not None or self.arguments is not None
        ):
            raise ValueError(f"{self.verdict} takes no answer or arguments; use edit to change what is delivered")
        return self


class ReviewItem(Record):
    """Written in one transaction with the decision that deferred.

    Attributes:
        proposed: the draft answer, or None where nothing was generated.
        reason: one sentence: why it is here.
        priority: larger is more urgent.
        due_at: when it expires into `on_expiry`; None for never.
        version: counts changes; a writer with an old version is refused.
    """

    id: str = Field(default_factory=lambda: new_id("rev"))
    run_id: str
    decision_id: str | None = None
    response_id: str | None = None
    kind: ReviewKind = ReviewKind.DEFERRED
    call: Call
    proposed: str | None = None
    confidence: Confidence | None = None
    reason: str
    priority: float = Field(default=0.0, allow_inf_nan=False)
    state: ReviewState = ReviewState.OPEN
    on_expiry: SafeEnd = SafeEnd.ABSTAIN
    due_at: datetime | None = None
    lease_owner: str | None = None
    lease_expires_at: datetime | None = None
    resolution: Resolution | None = None
    version: int = 0
    created_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
