"""An effect of which nobody knows whether it happened: the run says so, and a human is asked."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select

from ..core.call import Call
from ..core.confidence import Confidence
from ..core.database.tables import effects, rounds, runs
from ..core.review_item import ReviewItem, ReviewKind, SafeEnd
from ..core.run import EffectState, RunState
from ..review.parents import tell_parent
from ..review.queue import ReviewQueue

# Above everything that merely waits: the world may have changed and nobody knows.
_PRIORITY = 100.0


def mark_unknown(connection: Connection, queue: ReviewQueue, effect: Row[Any], why: str, now: datetime) -> str:
    """Make an effect and its run `unknown` and queue the question, inside the caller's transaction.

    The item never expires: time does not tell whether something happened.

    Args:
        effect: the effect's row.
        why: one sentence: how it came to this.

    Returns:
        the id of the review item.
    """
    connection.execute(
        effects.update()
        .where(effects.c.tenant == effect.tenant, effects.c.idempotency_key == effect.idempotency_key)
        .values(state=EffectState.UNKNOWN.value, error=why, updated_at=now)
    )
    run = connection.execute(select(runs).where(runs.c.id == effect.run_id)).one()
    newest = connection.execute(
        select(rounds.c.response_id, rounds.c.confidence)
        .where(rounds.c.run_id == run.id)
        .order_by(rounds.c.number.desc())
        .limit(1)
    ).one_or_none()
    review_id = queue.enqueue(
        ReviewItem(
            run_id=run.id,
            response_id=newest.response_id if newest else None,
            kind=ReviewKind.EFFECT_UNKNOWN,
            call=Call.model_validate_json(run.call),
            confidence=Confidence.model_validate_json(newest.confidence) if newest and newest.confidence else None,
            reason=(
                f"{effect.tool_name} was started and {why}. Key {effect.idempotency_key!r}, arguments as run: "
                f"{effect.arguments[:2000]}. Did it happen?"
            ),
            priority=_PRIORITY,
            on_expiry=SafeEnd.REJECT,
            created_at=now,
        ),
        connection,
    )
    # That it waited, as its result may still say, is no longer so.
    gone = {"state": RunState.UNKNOWN.value, "result": None, "error": why, "updated_at": now}
    connection.execute(runs.update().where(runs.c.id == run.id).values(gone))
    tell_parent(connection, run.id, now)
    return review_id
