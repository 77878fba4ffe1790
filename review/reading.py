"""Looking at the queue without changing it."""

from __future__ import annotations

import asyncio
from typing import Any

from sqlalchemy import FromClause, Select, and_, func, or_, select

from ..core.database import Database
from ..core.database.tables import review_items as items
from ..core.errors import BadInput
from ..core.review_item import ReviewItem, ReviewState
from .context import Context, context_of
from .conversations import UNDECIDED, Entry, entries_of, opens_entry, undecided_in
from .rows import item_of

Items = list[ReviewItem]
Entries = list[Entry]


class QueueReading:
    """The half of `ReviewQueue` that only reads. Every method has an async twin, which runs it in a thread."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def get(self, item_id: str) -> ReviewItem | None:
        """The item, or None where there is none of this id."""
        with self.database.reading() as connection:
            row = connection.execute(select(items).where(items.c.id == item_id)).one_or_none()
            return None if row is None else item_of(row)

    def of_run(self, run_id: str) -> Items:
        """The items of a run, oldest first."""
        return self._all(select(items).where(items.c.run_id == run_id))

    def conversation(self, item: ReviewItem) -> Items:
        """The undecided items of the item's conversation, oldest first; of one without a conversation, only itself."""
        if item.call.conversation_id is None:
            return self._all(select(items).where(items.c.id == item.id, items.c.state.in_(UNDECIDED)))
        return self._all(select(items).where(undecided_in(item.call.tenant, item.call.conversation_id)))

    def context(self, item: ReviewItem, *, limit: int = 5) -> Context:
        """What a reviewer sees beside the item: its kind of turn, and the `limit` turns of its conversation before."""
        with self.database.reading() as connection:
            return context_of(connection, item, limit)

    def counts(self, *, tenant: str | None = None, task: str | None = None) -> dict[ReviewState, int]:
        """How many items are in each state (0 included)."""
        with self.database.reading() as connection:
            found = connection.execute(
                select(items.c.state, func.count()).where(*filters_of(items, tenant, task)).group_by(items.c.state)
            )
            number = {row[0]: row[1] for row in found}
        return {state: number.get(state.value, 0) for state in ReviewState}

    def waiting(self) -> int:
        """How many entries wait for a decision, claimed ones included: a conversation counts once."""
        undecided = items.c.state.in_(UNDECIDED)
        conversations = select(items.c.tenant, items.c.conversation_id).where(
            undecided, items.c.conversation_id.is_not(None)
        )
        with self.database.reading() as connection:
            alone = connection.execute(
                select(func.count()).where(undecided, items.c.conversation_id.is_(None))
            ).scalar_one()
            together = connection.execute(
                select(func.count()).select_from(conversations.distinct().subquery())
            ).scalar_one()
        return int(alone) + int(together)

    def waits(self, tenant: str, conversation_id: str | None) -> bool:
        """Does something of this conversation wait already, so that more of it takes no further place?"""
        if conversation_id is None:
            return False
        with self.database.reading() as connection:
            query = select(items.c.id).where(undecided_in(tenant, conversation_id)).limit(1)
            return connection.execute(query).one_or_none() is not None

    def list(
        self,
        state: ReviewState | None = None,
        tenant: str | None = None,
        task: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Items:
        """A page of items, oldest first.

        Args:
            after: the id of the last item of the page before.

        Raises:
            BadInput: no item has the id `after`, or `limit` is below 1.
        """
        with self.database.reading() as connection:
            query = self._page(connection, limit, after).where(*filters_of(items, tenant, task, state))
            return [item_of(row) for row in connection.execute(query)]

    def entries(
        self,
        state: ReviewState | None = None,
        tenant: str | None = None,
        task: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Entries:
        """A page of entries, those with the oldest item first: the undecided items of a conversation are one.

        With a `state` or `task`, those entries of which an item passes, whole. A decided item is an entry of its own.

        Args:
            after: the id of the last entry of the page before.

        Raises:
            BadInput: no item has the id `after`, or `limit` is below 1.
        """

        def passing(table: FromClause) -> list[Any]:
            return filters_of(table, tenant, task, state)

        with self.database.reading() as connection:
            query = self._page(connection, limit, after).where(opens_entry(passing(items), passing))
            return entries_of(connection, connection.execute(query).all())

    async def aget(self, item_id: str) -> ReviewItem | None:
        return await asyncio.to_thread(self.get, item_id)

    async def aof_run(self, run_id: str) -> Items:
        return await asyncio.to_thread(self.of_run, run_id)

    async def aconversation(self, item: ReviewItem) -> Items:
        return await asyncio.to_thread(self.conversation, item)

    async def acontext(self, item: ReviewItem, *, limit: int = 5) -> Context:
        return await asyncio.to_thread(self.context, item, limit=limit)

    async def acounts(self, *, tenant: str | None = None, task: str | None = None) -> dict[ReviewState, int]:
        return await asyncio.to_thread(self.counts, tenant=tenant, task=task)

    async def awaiting(self) -> int:
        return await asyncio.to_thread(self.waiting)

    async def awaits(self, tenant: str, conversation_id: str | None) -> bool:
        return await asyncio.to_thread(self.waits, tenant, conversation_id)

    async def alist(
        self,
        state: ReviewState | None = None,
        tenant: str | None = None,
        task: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Items:
        return await asyncio.to_thread(self.list, state, tenant, task, limit, after)

    async def aentries(
        self,
        state: ReviewState | None = None,
        tenant: str | None = None,
        task: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Entries:
        return await asyncio.to_thread(self.entries, state, tenant, task, limit, after)

    def _all(self, query: Select[Any]) -> Items:
        with self.database.reading() as connection:
            return [item_of(row) for row in connection.execute(query.order_by(items.c.created_at, items.c.id))]

    @staticmethod
    def _page(connection: Any, limit: int, after: str | None) -> Select[Any]:
        if limit < 1:
            raise BadInput(f"limit={limit} must be at least 1")
        query = select(items).order_by(items.c.created_at, items.c.id).limit(limit)
        if after is None:
            return query
        last = connection.execute(select(items.c.created_at, items.c.id).where(items.c.id == after)).one_or_none()
        if last is None:
            raise BadInput(f"there is no review item {after!r}")
        return query.where(
            or_(
                items.c.created_at > last.created_at,
                and_(items.c.created_at == last.created_at, items.c.id > last.id),
            )
        )


def filters_of(table: FromClause, tenant: str | None, task: str | None, state: ReviewState | None = None) -> list[Any]:
    """The conditions that are given."""
    wanted = (
        (table.c.tenant, tenant),
        (table.c.task, task),
        (table.c.state, None if state is None else state.value),
    )
    return [column == value for column, value in wanted if value is not None]
