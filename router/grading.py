"""Grades from outside: what turned out right or wrong, told by people, tests, rules or judges."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from sqlalchemy import select

from ..core.database.outcome_log import OutcomeLog, source_of
from ..core.database.tables import rounds
from ..core.errors import BadInput
from ..core.outcome import Outcome, OutcomeSource
from ..core.protocols import Clock
from ..review.queue import ReviewQueue
from .learning.learned_head import LearnedHead
from .learning.learning import Learning


def record_outcome(
    log: OutcomeLog,
    clock: Clock,
    response_id: str,
    correct: bool | None,
    *,
    score: float | None,
    cut: float | None,
    corrected_answer: str | None,
    source: OutcomeSource | str,
    source_name: str,
    graded_at: datetime | None,
    label_propensity: float | None,
) -> str:
    """Store one grade; see `Router.record_outcome`."""
    try:
        outcome = Outcome(
            response_id=response_id,
            correct=correct,
            score=score,
            cut=cut,
            corrected_answer=corrected_answer,
            source=source_of(source),
            source_name=source_name,
            label_propensity=label_propensity,
            graded_at=graded_at if graded_at is not None else clock.now(),
        )
    except ValueError as error:
        raise error if isinstance(error, BadInput) else BadInput(f"response {response_id!r}: {error}") from error
    check_known(log, response_id)
    return log.record(outcome, dated=graded_at is not None)


def check_known(log: OutcomeLog, response_id: str) -> None:
    """Refuse a grade of a response that is not in the log: a typo must not become a label.

    Raises:
        BadInput: there is no such response.
    """
    with log.database.reading() as connection:
        found = connection.execute(select(rounds.c.response_id).where(rounds.c.response_id == response_id)).first()
    if found is None:
        raise BadInput(
            f"there is no response {response_id!r} in the log; grade Result.response_id (a run id or review id is "
            "something else)"
        )


class GradingRouter:
    """The part of the router that hears how things turned out."""

    clock: Clock
    queue: ReviewQueue
    learning: Learning

    def record_outcome(
        self,
        response_id: str,
        correct: bool | None = None,
        *,
        score: float | None = None,
        cut: float | None = None,
        corrected_answer: str | None = None,
        source: OutcomeSource | str = OutcomeSource.HUMAN,
        source_name: str = "",
        graded_at: datetime | None = None,
        label_propensity: float | None = None,
    ) -> str:
        """Say whether a response turned out right. The next call is judged in its light.

        May come late, twice, or contradict: one grade a source and name is kept, the newest, and the strongest source
        is in force (human > test > rule > judge).

        Args:
            response_id: `Result.response_id`.
            correct: right or wrong; or `score` in [0, 1] with a `cut` that makes it binary.
            source, source_name: who says so. A model's own verdict never counts.
            graded_at: when (aware); now by default, where the grade that is in force, told again, changes nothing.
            label_propensity: the known chance that this response was graded; by default what its decision said. Say 1
                where you grade every response.

        Returns:
            the id of the outcome that is stored.

        Raises:
            BadInput: no such response or source, neither `correct` nor `score`, or the model's own verdict.
            StoreError: nothing was stored.
        """
        stored = record_outcome(
            self.queue.outcomes,
            self.clock,
            response_id,
            correct,
            score=score,
            cut=cut,
            corrected_answer=corrected_answer,
            source=source,
            source_name=source_name,
            graded_at=graded_at,
            label_propensity=label_propensity,
        )
        self.learning.keep_up()
        return stored

    async def arecord_outcome(self, response_id: str, correct: bool | None = None, **details: Any) -> str:
        """`record_outcome`, without blocking the event loop; takes the same arguments."""
        return await asyncio.to_thread(self.record_outcome, response_id, correct, **details)

    def retract_outcomes(self, source: OutcomeSource | str, **which: Any) -> int:
        """Take a source's grades back and learn everything again without them.

        Takes the arguments of `OutcomeLog.retract`: `source_name`, `since`, `until`, `task`, `tenant`, `because`,
        `dry_run`. Heads that were fitted on the log are fitted again; the artefact is not touched, as it does not
        rest on the log.

        Returns:
            how many grades were taken back.
        """
        taken = self.queue.outcomes.retract(source, at=self.clock.now(), **which)
        if taken and not which.get("dry_run"):
            self.learning.forget_heads()
            self.learning.relearn()
        return taken

    async def aretract_outcomes(self, source: OutcomeSource | str, **which: Any) -> int:
        return await asyncio.to_thread(self.retract_outcomes, source, **which)

    def learn(self, task: str | None = None, tenant: str | None = None) -> list[LearnedHead]:
        """Take in every outcome and fit heads on the log now, wherever there are enough graded calls."""
        return self.learning.relearn(task, tenant)

    async def alearn(self, task: str | None = None, tenant: str | None = None) -> list[LearnedHead]:
        return await asyncio.to_thread(self.learn, task, tenant)
