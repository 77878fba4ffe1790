"""What a human has let through, handed out to exactly one process to carry out."""

from __future__ import annotations

from typing import Any

from pydantic import JsonValue
from sqlalchemy import Connection, Row, select

from ..core.call import CallKind
from ..core.database.tables import review_items
from ..core.record import Record
from ..core.review_item import ReviewItem, ReviewKind, ReviewState, Verdict
from ..core.run import Run
from ..review.rows import item_of


class Resumption(Record):
    """A waiting tool run that a reviewer approved or edited.

    Attributes:
        tool_name, arguments: what is to run: as proposed, or as edited.
        tool_changed: the edit names another tool, whose own policy must gate it first.
    """

    run: Run
    item: ReviewItem
    tool_name: str
    arguments: dict[str, JsonValue]

    @property
    def tool_changed(self) -> bool:
        return self.tool_name != self.run.call.tool_name


def approved_item(connection: Connection, run_id: str) -> ReviewItem | None:
    """The run's deferred tool call, if a human approved or edited it; else None."""
    row: Row[Any] | None = connection.execute(
        select(review_items).where(
            review_items.c.run_id == run_id,
            review_items.c.kind == ReviewKind.DEFERRED.value,
            review_items.c.state == ReviewState.RESOLVED.value,
        )
    ).one_or_none()
    item = None if row is None else item_of(row)
    if item is None or item.resolution is None or item.call.kind is not CallKind.TOOL:
        return None
    return item if item.resolution.verdict in (Verdict.APPROVE, Verdict.EDIT) else None


def resumption_of(run: Run, item: ReviewItem) -> Resumption:
    """What the approval lets through."""
    resolution = item.resolution
    assert resolution is not None and run.call.tool_name is not None
    edited = resolution.verdict is Verdict.EDIT and resolution.arguments is not None
    return Resumption(
        run=run,
        item=item,
        tool_name=resolution.tool_name or run.call.tool_name,
        arguments=resolution.arguments if edited and resolution.arguments is not None else run.call.arguments,
    )
