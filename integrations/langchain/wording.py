"""What the user and the model are told where nothing is delivered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...core.review_item import ReviewItem, ReviewState, Verdict
from ...core.run import Result, RunState
from .options import AgentOptions


@dataclass(frozen=True)
class Wording:
    """The texts of one agent: its own where it has them, else those of the settings."""

    options: AgentOptions

    def to_user(self, result: Result[Any]) -> str:
        """Instead of an answer. May read the database."""
        own = None
        if result.state is RunState.WAITING:
            own = self.options.waiting_text
        elif result.review_id is None:
            own = self.options.abstain_text
        if own is not None:
            return own.replace("{review_id}", result.review_id or "").replace("{run_id}", result.run_id)
        return self.options.router.message_for(result) or ""

    def to_model(self, result: Result[Any], name: str) -> str:
        """Instead of a tool's result: what became of the call, so that the model does not take it for done."""
        if result.state is RunState.WAITING:
            return (
                f"The call of {name} was not carried out. It waits for a person as review {result.review_id}; tell the "
                "user so, and do not say that it is done."
            )
        if result.state is RunState.UNKNOWN:
            return f"It is not known whether the call of {name} happened; a person finds out. Do not call it again."
        if result.state is RunState.FAILED:
            return f"The call of {name} failed: {result.reason}"
        return f"The call of {name} was not carried out: {result.reason} Do not repeat the same call."

    def rejected(self, item: ReviewItem, name: str) -> str:
        """What the model is told of a call that a reviewer, or nobody in time, decided against."""
        if item.state is ReviewState.EXPIRED:
            return f"The call of {name} was not carried out: nobody decided about it in time. Do not repeat it."
        note = item.resolution.note if item.resolution is not None else ""
        why = f" with this reason: {note}" if note else ""
        return f"A person rejected the call of {name}{why}. It was not carried out. Do not repeat the same call."


def was_rejected(item: ReviewItem) -> bool:
    """Did the review end against the call?"""
    if item.state is ReviewState.EXPIRED:
        return True
    return item.resolution is not None and item.resolution.verdict is Verdict.REJECT
