"""One entry of the queue for each conversation: its undecided items are leased together, to one reviewer.

A lease stands on every item of a conversation that it holds. Whoever changes a lease first locks the conversation's
undecided items in the order of their ids, so that two never wait for each other (PostgreSQL; on SQLite a transaction
is the only writer anyway). An item that arrives meanwhile and joins no lease is for the holder of that lease only:
nobody may claim an item while another holds one of its siblings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, and_, exists, or_, select, tuple_

from ..core.database.tables import review_items as items
from ..core.errors import BadInput
from ..core.record import Record
from ..core.review_item import ReviewItem, ReviewState
from .rows import item_of

UNDECIDED = (ReviewState.OPEN.value, ReviewState.CLAIMED.value)
_KEYS_AT_ONCE = 200


class Entry(Record):
    """What the queue counts and shows as one: the undecided items of a conversation, or one item.

    Attributes:
        items: oldest first; at least one.
    """

    items: tuple[ReviewItem, ...]

    @property
    def id(self) -> str:
        """That of the oldest item."""
        return self.items[0].id

    @property
    def tenant(self) -> str:
        return self.items[0].call.tenant

    @property
    def conversation_id(self) -> str | None:
        return self.items[0].call.conversation_id

    @property
    def priority(self) -> float:
        """That of the most urgent item."""
        return max(item.priority for item in self.items)

    @property
    def due_at(self) -> datetime | None:
        """When the first of its items expires; None where none does."""
        return min((item.due_at for item in self.items if item.due_at is not None), default=None)

    @property
    def lease_owner(self) -> str | None:
        """Who holds it, or held it last and lost the lease without giving it back."""
        leases = [item for item in self.items if item.lease_expires_at is not None]
        return max(leases, key=lambda item: item.lease_expires_at or item.created_at).lease_owner if leases else None


def is_free(item: ReviewItem, now: datetime) -> bool:
    """Could somebody claim it, but for its siblings? What is due goes to its safe end."""
    lapsed = item.lease_expires_at is None or item.lease_expires_at <= now
    return not _is_due(item, now) and (item.state is ReviewState.OPEN or (item.state is ReviewState.CLAIMED and lapsed))


def is_held(item: ReviewItem, now: datetime) -> bool:
    """Does a lease run on it?"""
    running = item.lease_expires_at is not None and item.lease_expires_at > now
    return item.state is ReviewState.CLAIMED and running and not _is_due(item, now)


def lock_entry(connection: Connection, item_id: str) -> list[ReviewItem]:
    """The item and the undecided siblings in its conversation, locked, in the order of their ids.

    Raises:
        BadInput: there is no such item.
    """
    key = connection.execute(select(items.c.tenant, items.c.conversation_id).where(items.c.id == item_id)).one_or_none()
    if key is None:
        raise BadInput(f"there is no review item {item_id!r}")
    wanted: ColumnElement[bool] = items.c.id == item_id
    if key.conversation_id is not None:
        wanted = or_(wanted, _of_conversation(items, key.tenant, key.conversation_id))
    found = connection.execute(select(items).where(wanted).order_by(items.c.id).with_for_update())
    return [item_of(row) for row in found]


def most_urgent(
    connection: Connection, now: datetime, reviewer: str, item_id: str | None, filters: Sequence[Any]
) -> str | None:
    """The id of the item that this reviewer may have next, looked up without a lock."""
    free = _free(items, now)
    if item_id is not None:
        own = and_(items.c.state == ReviewState.CLAIMED.value, items.c.lease_owner == reviewer)
        free = and_(items.c.id == item_id, or_(free, own))
    sibling = items.alias()
    of_another = exists().where(
        sibling.c.tenant == items.c.tenant,
        sibling.c.conversation_id == items.c.conversation_id,
        sibling.c.lease_owner != reviewer,
        _held(sibling, now),
    )
    return connection.execute(
        select(items.c.id)
        .where(free, _not_due(items, now), ~of_another, *filters)
        .order_by(items.c.priority.desc(), items.c.created_at, items.c.id)
        .limit(1)
    ).scalar_one_or_none()


def standing_lease(connection: Connection, item: ReviewItem, now: datetime) -> dict[str, Any]:
    """What a new item of a leased conversation takes over, as changes to it; {} where nobody holds the conversation.

    Never waits: a lease that is being changed at this moment is left alone, and the item is open to its holder only.
    """
    if item.call.conversation_id is None or _is_due(item, now):
        return {}
    held = connection.execute(
        select(items)
        .where(_of_conversation(items, item.call.tenant, item.call.conversation_id), _held(items, now))
        .order_by(items.c.id)
        .limit(1)
        .with_for_update(skip_locked=True)
    ).one_or_none()
    if held is None:
        return {}
    return {
        "state": ReviewState.CLAIMED,
        "lease_owner": held.lease_owner,
        "lease_expires_at": held.lease_expires_at,
    }


def entries_of(connection: Connection, rows: Iterable[Any]) -> list[Entry]:
    """An entry for each of these rows, with its undecided siblings where it is undecided itself."""
    heads = [item_of(row) for row in rows]
    keys = list(dict.fromkeys(key for head in heads if (key := _key(head)) is not None))
    by_key: dict[tuple[str, str], list[ReviewItem]] = {key: [] for key in keys}
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        for row in connection.execute(
            select(items)
            .where(tuple_(items.c.tenant, items.c.conversation_id).in_(keys[start : start + _KEYS_AT_ONCE]))
            .where(items.c.state.in_(UNDECIDED))
            .order_by(items.c.created_at, items.c.id)
        ):
            by_key[row.tenant, row.conversation_id].append(item_of(row))
    return [Entry(items=tuple(by_key[key]) if (key := _key(head)) is not None else (head,)) for head in heads]


def opens_entry(filters: Sequence[Any], filters_of: Any) -> ColumnElement[bool]:
    """True for the item by which its entry is found: the oldest undecided one of a conversation that passes.

    Args:
        filters: conditions on the table itself.
        filters_of: the same conditions, made for an alias of it.
    """
    older = items.alias()
    before = exists().where(
        older.c.tenant == items.c.tenant,
        older.c.conversation_id == items.c.conversation_id,
        older.c.state.in_(UNDECIDED),
        or_(
            older.c.created_at < items.c.created_at,
            and_(older.c.created_at == items.c.created_at, older.c.id < items.c.id),
        ),
        *filters_of(older),
    )
    return and_(or_(items.c.state.not_in(UNDECIDED), ~before), *filters)


def undecided_in(tenant: str, conversation_id: str) -> ColumnElement[bool]:
    """The undecided items of a conversation."""
    return _of_conversation(items, tenant, conversation_id)


def _key(item: ReviewItem) -> tuple[str, str] | None:
    if item.call.conversation_id is None or item.state.value not in UNDECIDED:
        return None
    return item.call.tenant, item.call.conversation_id


def _is_due(item: ReviewItem, now: datetime) -> bool:
    return item.due_at is not None and item.due_at <= now


def _of_conversation(table: FromClause, tenant: str, conversation_id: str) -> ColumnElement[bool]:
    return and_(table.c.tenant == tenant, table.c.conversation_id == conversation_id, table.c.state.in_(UNDECIDED))


def _not_due(table: FromClause, now: datetime) -> ColumnElement[bool]:
    return or_(table.c.due_at.is_(None), table.c.due_at > now)


def _free(table: FromClause, now: datetime) -> ColumnElement[bool]:
    return or_(
        table.c.state == ReviewState.OPEN.value,
        and_(table.c.state == ReviewState.CLAIMED.value, table.c.lease_expires_at <= now),
    )


def _held(table: FromClause, now: datetime) -> ColumnElement[bool]:
    return and_(table.c.state == ReviewState.CLAIMED.value, table.c.lease_expires_at > now, _not_due(table, now))
