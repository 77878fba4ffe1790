"""Outcomes as they are stored, retracted ones included, for people to look at."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select

from ..core.database import Database
from ..core.database.tables import outcomes
from ..core.record import Record


class StoredOutcome(Record):
    """One row. Those with `retracted_at` count for nothing."""

    response_id: str
    task: str | None
    tenant: str | None
    is_right: bool
    source: str
    source_name: str
    label_propensity: float | None
    graded_at: datetime
    retracted_at: datetime | None
    retracted_because: str | None


def newest(
    database: Database, *, response_id: str | None = None, task: str | None = None, limit: int = 50
) -> list[StoredOutcome]:
    """The outcomes that changed last, the newest change first."""
    query = select(outcomes).order_by(outcomes.c.change.desc()).limit(limit)
    if response_id is not None:
        query = query.where(outcomes.c.response_id == response_id)
    if task is not None:
        query = query.where(outcomes.c.task == task)
    with database.reading() as connection:
        rows = connection.execute(query).all()
    return [StoredOutcome(**{name: getattr(row, name) for name in StoredOutcome.model_fields}) for row in rows]
