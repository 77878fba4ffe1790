"""Asking a human from inside a graph: it pauses, the same question lies in the queue, the first answer counts."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import dataclass

from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt

from ...core.errors import LeaseLost, StaleItem
from ...core.review_item import Resolution, ReviewItem, ReviewState, Verdict
from ...review.grading import check_fits
from ...router.router import Router
from ...router.steps import Plan, blocking
from .interrupts import question_of

_ENDED = (ReviewState.RESOLVED, ReviewState.EXPIRED)


@dataclass(frozen=True)
class Asking:
    """One router's reviews, as interrupts."""

    router: Router
    format: str
    reviewer: str

    def plan(self, review_id: str, tools: Collection[str] = ()) -> Plan[ReviewItem]:
        """The item as it was decided, by whoever came first. Pauses the graph while nobody has.

        The node that asks runs again from its start when the graph resumes; nothing before this may have effects that
        are not stored under a key.

        Args:
            tools: what a tool call may be edited into.

        Raises:
            GraphInterrupt: nobody has decided; the graph pauses.
            pydantic.ValidationError: the resume value is no decision that fits; nothing is stored of it.
        """
        item = yield blocking(self._current, review_id)
        question = question_of(item, self.format)
        if item.state in _ENDED:
            # A resume value that comes with it must be taken all the same: it would go to the next question.
            with contextlib.suppress(GraphInterrupt):
                interrupt(question.value(item), response_schema=question.schema(lambda _: None, True))
            return item
        schema = question.schema(lambda resolution: self._refusal(item, resolution, tools), False)
        given = interrupt(question.value(item), response_schema=schema)
        resolution = question.resolution(given, self.reviewer)
        return (yield blocking(self._resolve, review_id, resolution))

    def decided(self, review_id: str) -> Plan[ReviewItem | None]:
        """The item if its review has ended, without asking anybody."""
        item = yield blocking(self._current, review_id)
        return item if item.state in _ENDED else None

    def settle(self, review_id: str, reviewer: str) -> Plan[ReviewItem]:
        """Store the approval that a human gave at another gate: nobody is asked twice."""
        approval = Resolution(verdict=Verdict.APPROVE, reviewer=reviewer, note="approved at another gate of the agent")
        return (yield blocking(self._resolve, review_id, approval))

    def _current(self, review_id: str) -> ReviewItem:
        self.router.queue.expire_due()
        item = self.router.queue.get(review_id)
        if item is None:
            raise StaleItem(f"there is no review {review_id!r} in this router's database; is it the same database?")
        return item

    def _refusal(self, item: ReviewItem, resolution: Resolution, tools: Collection[str]) -> str | None:
        """Why this decision cannot be taken: it does not fit, or a reviewer has the item in hand."""
        check_fits(item, resolution)
        if resolution.tool_name is not None and resolution.tool_name not in tools:
            return f"the agent has no tool {resolution.tool_name!r}; its tools are {', '.join(sorted(tools)) or 'none'}"
        if item.state is not ReviewState.CLAIMED or item.lease_owner == self.reviewer:
            return None
        if item.lease_expires_at is not None and item.lease_expires_at <= self.router.clock.now():
            return None
        return f"{item.lease_owner} is looking at review {item.id} until {item.lease_expires_at}; resume after that"

    def _resolve(self, review_id: str, resolution: Resolution) -> ReviewItem:
        """Store the decision; where somebody was faster, theirs counts."""
        queue = self.router.queue
        claimed = queue.claim(resolution.reviewer, item_id=review_id)
        if claimed is not None:
            # One that was faster after all is found below.
            with contextlib.suppress(StaleItem):
                return queue.resolve(review_id, resolution, version=claimed.version)
        item = self._current(review_id)
        if item.state in _ENDED:
            return item
        raise LeaseLost(f"review {review_id!r} is in the hands of {item.lease_owner!r}; resume again later")
