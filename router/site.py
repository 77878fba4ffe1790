"""What one router works with: everything that a run needs, gathered once and handed to its plans."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from ..core.call import Call, CallKind, SideEffects
from ..core.decision import Decision, Mode, Route
from ..core.protocols import Clock, Model, Retriever
from ..core.response import Response
from ..core.review_item import ReviewItem, ReviewKind, SafeEnd
from ..policies.policy import CostPolicy
from ..review.queue import ReviewQueue
from .assessor import Assessor
from .effects import EffectLog
from .learning.learning import fingerprint_text
from .log import RunLog
from .settings import ReviewSettings


@dataclass(frozen=True)
class Tool:
    """A function that does something, and whether doing it again under the same key is harmless.

    Attributes:
        source: the function behind `run`, where that is a wrapper: what tells two tools of one name apart.
        side_effects: what it does to the world, beside what the settings say; None: nobody said.
        refuses: why the tool cannot be run with these arguments as they stand in the log, or None.
    """

    name: str
    run: Callable[..., Any]
    arun: Callable[..., Any] | None = None
    idempotent: bool = False
    source: Callable[..., Any] | None = None
    side_effects: SideEffects | None = None
    refuses: Callable[[Mapping[str, Any]], str | None] | None = None


class Draws:
    """Seeded uniform draws, safe to take from several threads; each is recorded with its decision."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed) if seed is not None else random.SystemRandom()  # noqa: S311
        self._lock = threading.Lock()

    def next(self) -> float:
        with self._lock:
            return self._random.random()


@dataclass(frozen=True)
class Site:
    """One task's view of a router: its assessor and policy, the models and stores, and the mode of this call."""

    model: Model | None
    assessor: Assessor
    policy: CostPolicy
    mode: Mode
    log: RunLog
    effects: EffectLog
    clock: Clock
    owner: str
    queue: ReviewQueue
    review: ReviewSettings
    retriever: Retriever | None = None
    larger: Mapping[str, Model] = field(default_factory=dict)
    documents_limit: int = 3

    @staticmethod
    def fingerprint_of(model: Model | None) -> str | None:
        """What is stored of the model with its response; None where there is no model."""
        return None if model is None else fingerprint_text(model.fingerprint())

    def past_deadline(self, call: Call) -> bool:
        return call.deadline is not None and self.clock.now() >= call.deadline

    def queue_closed(self, call: Call) -> str | None:
        """Why nobody can be asked now, or None. Outside enforce mode nobody is asked, so the queue is not looked at."""
        if self.review.capacity is None or self.mode is not Mode.ENFORCE:
            return None
        waiting = self.queue.waiting()
        # What joins a conversation that waits already takes no further place.
        if waiting < self.review.capacity or self.queue.waits(call.tenant, call.conversation_id):
            return None
        return f"the review queue is full ({waiting} of {self.review.capacity} places)"

    def review_for(self, call: Call, decision: Decision, draft: Response | None) -> ReviewItem | None:
        """The queue item that goes with a decision: of a deferred call, or of a delivered answer drawn for grading.

        Without the second, `label_propensity` would be a promise that nobody keeps.
        """
        if decision.route is Route.DEFER and self.mode is Mode.ENFORCE:
            return self._item(ReviewKind.DEFERRED, call, decision, draft)
        if decision.sampled_for_label and draft is not None:
            return self._item(ReviewKind.LABEL, call, decision, draft)
        return None

    def _item(self, kind: ReviewKind, call: Call, decision: Decision, draft: Response | None) -> ReviewItem:
        """It expires to a safe end at the deadline or after the set time; a label that nobody gives is just missing."""
        is_tool = call.kind is CallKind.TOOL
        is_label = kind is ReviewKind.LABEL
        ends = [call.deadline] if call.deadline is not None and not is_label else []
        if self.review.expires_after is not None:
            ends.append(self.clock.now() + timedelta(seconds=self.review.expires_after))
        priced = [
            cost.total for cost in decision.expected_costs if cost.route is Route.ANSWER and cost.total is not None
        ]
        return ReviewItem(
            run_id=decision.run_id,
            decision_id=decision.id,
            response_id=draft.id if draft is not None else None,
            kind=kind,
            call=call,
            proposed=None if is_tool or draft is None or draft.stopped_before_generating else draft.text,
            confidence=decision.confidence,
            reason="Drawn for grading: was this right? It was delivered already." if is_label else decision.reason,
            # What going ahead without a human is expected to cost: the most at stake comes first.
            priority=priced[0] if priced and not is_label else 0.0,
            on_expiry=SafeEnd.REJECT if is_tool else self.review.on_expiry,
            due_at=min(ends) if ends else None,
            created_at=self.clock.now(),
        )
