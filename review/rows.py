"""Review items as rows of their table, and back."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, Row

from ..core.call import Call
from ..core.confidence import Confidence
from ..core.database.tables import review_items as items
from ..core.errors import StaleItem, StoreError
from ..core.review_item import Resolution, ReviewItem

_AS_THEY_ARE = (
    "id",
    "run_id",
    "decision_id",
    "response_id",
    "proposed",
    "reason",
    "priority",
    "due_at",
    "lease_owner",
    "lease_expires_at",
    "version",
    "created_at",
)


def row_of(item: ReviewItem) -> dict[str, Any]:
    """The column values of an item."""
    values = {name: getattr(item, name) for name in _AS_THEY_ARE}
    return values | {
        "kind": item.kind.value,
        "state": item.state.value,
        "on_expiry": item.on_expiry.value,
        "task": item.call.task,
        "tenant": item.call.tenant,
        "conversation_id": item.call.conversation_id,
        "call": item.call.model_dump_json(),
        "confidence": None if item.confidence is None else item.confidence.model_dump_json(),
        "resolution": None if item.resolution is None else item.resolution.model_dump_json(),
    }


def item_of(row: Row[Any]) -> ReviewItem:
    """The item in a row.

    Raises:
        StoreError: the row is damaged.
    """
    values = row._mapping
    try:
        return ReviewItem(
            **{name: values[name] for name in _AS_THEY_ARE},
            kind=values["kind"],
            state=values["state"],
            on_expiry=values["on_expiry"],
            call=Call.model_validate_json(values["call"]),
            confidence=None if values["confidence"] is None else Confidence.model_validate_json(values["confidence"]),
            resolution=None if values["resolution"] is None else Resolution.model_validate_json(values["resolution"]),
        )
    except ValidationError as error:
        raise StoreError(f"review item {values['id']!r} is damaged: {error}") from error


def store_change(connection: Connection, item: ReviewItem, **changes: Any) -> ReviewItem:
    """Store a changed item under the next version.

    Raises:
        StaleItem: it changed in the meantime.
    """
    changed = item.model_copy(update=changes | {"version": item.version + 1})
    written = connection.execute(
        items.update().where(items.c.id == item.id, items.c.version == item.version).values(row_of(changed))
    )
    if written.rowcount != 1:
        raise StaleItem(f"review item {item.id!r} changed while it was being written; read it again")
    return changed
