"""Grades from outside: what turned out right or wrong, told by people, tests, rules or judges."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select

from ..core.database.outcome_log import OutcomeLog, source_of
from ..core.database.tables import rounds
from ..core.errors import BadInput
from ..core.outcome import Outcome, OutcomeSource
from ..core.protocols import Clock


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
    return log.record(outcome)


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
