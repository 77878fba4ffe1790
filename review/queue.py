"""The queue of calls that wait for a human: enqueue, claim with a lease, resolve once, expire to a safe end.

    open ──claim──▶ claimed ──resolve──▶ resolved
      ▲                │ release, or the lease runs out (then anyone may claim it)
      └────────────────┘
    open or claimed ──due──▶ expired

Times come from the clock that is handed in; with several machines their clocks must agree to well under a lease.
"""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, and_, func, or_, select

from ..core.database import Database
from ..core.database.outcome_log import OutcomeLog
from ..core.database.tables import review_items as items
from ..core.errors import BadInput, ConfigurationError, LeaseLost, StaleItem
from ..core.protocols import Clock
from ..core.review_item import Resolution, ReviewItem, ReviewState
from .grading import check_fits, outcome_of
from .rows import item_of, row_of
from .settle import label_propensity_of, settle_expired, settle_resolved

Items = list[ReviewItem]

_UNDECIDED = (ReviewState.OPEN.value, ReviewState.CLAIMED.value)


class ReviewQueue:
    """The store of review items. Every method has an async twin (`aclaim`, ...), which runs it in a thread.

    Args:
        lease_seconds: how long a claimed item is a reviewer's own without a heartbeat.

    Raises:
        ConfigurationError: a lease that is not a finite number above 0.
    """

    def __init__(self, database: Database, clock: Clock, lease_seconds: float = 300.0) -> None:
        if not (math.isfinite(lease_seconds) and lease_seconds > 0):
            raise ConfigurationError(f"lease_seconds={lease_seconds} must be a finite number above 0")
        self.database = database
        self.clock = clock
        self.lease = timedelta(seconds=lease_seconds)
        self.outcomes = OutcomeLog(database)

    def enqueue(self, item: ReviewItem, connection: Connection | None = None) -> str:
        """Store an item; one for each (run, kind), however often this is called.

        Args:
            connection: the transaction to join (that of the decision that deferred).

        Returns:
            the id of the stored item: that of the first one where the run was queued for this before.

        Raises:
            StaleItem: the run was queued for this before by another decision; nobody would see the new one.
            StoreError: nothing was stored.
        """
        with self.database.transaction(connection) as connection:
            known = connection.execute(
                select(items.c.id, items.c.decision_id).where(
                    items.c.run_id == item.run_id, items.c.kind == item.kind.value
                )
            ).one_or_none()
            if known is None:
                connection.execute(items.insert().values(row_of(item)))
                return item.id
            if known.decision_id != item.decision_id:
                raise StaleItem(
                    f"run {item.run_id!r} is already in the queue as {known.id!r} for decision {known.decision_id!r}, "
                    f"not {item.decision_id!r}; start a new run for a new question"
                )
            return known.id

    def claim(
        self, reviewer: str, *, tenant: str | None = None, task: str | None = None, item_id: str | None = None
    ) -> ReviewItem | None:
        """Lease the most urgent free item (of the oldest ones) to a reviewer, or None where there is none.

        An item whose lease ran out is free again. Nobody else gets the item while the lease lasts.

        Args:
            item_id: this very item or none; the reviewer who holds it already gets it again, with a new lease.
        """
        _check_reviewer(reviewer)
        with self.database.transaction() as connection:
            now = self.clock.now()
            free = or_(
                items.c.state == ReviewState.OPEN.value,
                and_(items.c.state == ReviewState.CLAIMED.value, items.c.lease_expires_at <= now),
            )
            if item_id is not None:
                own = and_(items.c.state == ReviewState.CLAIMED.value, items.c.lease_owner == reviewer)
                free = and_(items.c.id == item_id, or_(free, own))
            row = connection.execute(
                select(items)
                .where(free, or_(items.c.due_at.is_(None), items.c.due_at > now))
                .where(*_filters(tenant, task))
                .order_by(items.c.priority.desc(), items.c.created_at, items.c.id)
                .limit(1)
                .with_for_update(skip_locked=True)  # for PostgreSQL; on SQLite the transaction is the only writer
            ).one_or_none()
            if row is None:
                return None
            return _change(
                connection,
                item_of(row),
                state=ReviewState.CLAIMED,
                lease_owner=reviewer,
                lease_expires_at=now + self.lease,
            )

    def heartbeat(self, item_id: str, reviewer: str) -> ReviewItem:
        """Make the lease last `lease_seconds` from now. The version stays: nothing about the item changed.

        Raises:
            LeaseLost: the lease is another's, ran out or was ended.
        """
        with self.database.transaction() as connection:
            item = self._held(connection, item_id, reviewer)
            expires = self.clock.now() + self.lease
            connection.execute(items.update().where(items.c.id == item_id).values(lease_expires_at=expires))
            return item.model_copy(update={"lease_expires_at": expires})

    def release(self, item_id: str, reviewer: str) -> ReviewItem:
        """Give an item back undecided.

        Raises:
            LeaseLost: it is not (or no longer) leased to this reviewer.
        """
        with self.database.transaction() as connection:
            item = self._held(connection, item_id, reviewer)
            return _change(connection, item, state=ReviewState.OPEN, lease_owner=None, lease_expires_at=None)

    def resolve(self, item_id: str, resolution: Resolution, *, version: int) -> ReviewItem:
        """Decide. The decision, the grade it implies and the run's new state are stored together, or not at all.

        The same decision by the same reviewer a second time changes nothing and returns the item.

        Args:
            version: that of the item which the reviewer looked at (as `claim` gave it).

        Raises:
            LeaseLost: the item is leased to another, or the reviewer's own lease ran out; claim it again.
            StaleItem: it changed since it was read, was decided otherwise, or its time is up.
            BadInput: there is no such item, or the decision makes no sense for it.
        """
        with self.database.transaction() as connection:
            now = self.clock.now()
            item = self._must_get(connection, item_id)
            if item.state is ReviewState.RESOLVED and _same_decision(item.resolution, resolution):
                return item
            if item.state in (ReviewState.RESOLVED, ReviewState.EXPIRED):
                raise StaleItem(f"review item {item_id!r} is already {item.state}; read it again")
            self._held(connection, item_id, resolution.reviewer)
            if item.version != version:
                raise StaleItem(f"review item {item_id!r} is at version {item.version}, not {version}; read it again")
            check_fits(item, resolution)
            decided = _change(
                connection,
                item,
                state=ReviewState.RESOLVED,
                resolution=resolution,
                lease_owner=None,
                lease_expires_at=None,
            )
            outcome = outcome_of(item, resolution, label_propensity_of(connection, item))
            if outcome is not None:
                self.outcomes.record(outcome, task=item.call.task, tenant=item.call.tenant, connection=connection)
            settle_resolved(connection, item, resolution, now)
            return decided

    def expire_due(self) -> Items:
        """Bring every undecided item whose time is up to its safe end, leased or not; returns those items."""
        with self.database.transaction() as connection:
            now = self.clock.now()
            due = connection.execute(
                select(items)
                .where(items.c.state.in_(_UNDECIDED), items.c.due_at <= now)
                .order_by(items.c.due_at, items.c.id)
                .with_for_update(skip_locked=True)
            ).all()
            expired: Items = []
            for row in due:
                item = _change(
                    connection, item_of(row), state=ReviewState.EXPIRED, lease_owner=None, lease_expires_at=None
                )
                settle_expired(connection, item, now)
                expired.append(item)
            return expired

    def get(self, item_id: str) -> ReviewItem | None:
        """The item, or None where there is none of this id."""
        with self.database.reading() as connection:
            row = connection.execute(select(items).where(items.c.id == item_id)).one_or_none()
            return None if row is None else item_of(row)

    def of_run(self, run_id: str) -> Items:
        """The items of a run, oldest first."""
        with self.database.reading() as connection:
            found = connection.execute(
                select(items).where(items.c.run_id == run_id).order_by(items.c.created_at, items.c.id)
            )
            return [item_of(row) for row in found]

    def counts(self, *, tenant: str | None = None, task: str | None = None) -> dict[ReviewState, int]:
        """How many items are in each state (0 included)."""
        with self.database.reading() as connection:
            found = connection.execute(
                select(items.c.state, func.count()).where(*_filters(tenant, task)).group_by(items.c.state)
            )
            number = {row[0]: row[1] for row in found}
        return {state: number.get(state.value, 0) for state in ReviewState}

    def waiting(self) -> int:
        """How many items wait for a decision, claimed ones included."""
        counts = self.counts()
        return counts[ReviewState.OPEN] + counts[ReviewState.CLAIMED]

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
        if limit < 1:
            raise BadInput(f"limit={limit} must be at least 1")
        query = select(items).where(*_filters(tenant, task)).order_by(items.c.created_at, items.c.id).limit(limit)
        if state is not None:
            query = query.where(items.c.state == state.value)
        with self.database.reading() as connection:
            if after is not None:
                last = self._must_get(connection, after)
                query = query.where(
                    or_(
                        items.c.created_at > last.created_at,
                        and_(items.c.created_at == last.created_at, items.c.id > last.id),
                    )
                )
            return [item_of(row) for row in connection.execute(query)]

    async def aenqueue(self, item: ReviewItem) -> str:
        return await asyncio.to_thread(self.enqueue, item)

    async def aclaim(
        self, reviewer: str, *, tenant: str | None = None, task: str | None = None, item_id: str | None = None
    ) -> ReviewItem | None:
        return await asyncio.to_thread(self.claim, reviewer, tenant=tenant, task=task, item_id=item_id)

    async def aheartbeat(self, item_id: str, reviewer: str) -> ReviewItem:
        return await asyncio.to_thread(self.heartbeat, item_id, reviewer)

    async def arelease(self, item_id: str, reviewer: str) -> ReviewItem:
        return await asyncio.to_thread(self.release, item_id, reviewer)

    async def aresolve(self, item_id: str, resolution: Resolution, *, version: int) -> ReviewItem:
        return await asyncio.to_thread(self.resolve, item_id, resolution, version=version)

    async def aexpire_due(self) -> Items:
        return await asyncio.to_thread(self.expire_due)

    async def aget(self, item_id: str) -> ReviewItem | None:
        return await asyncio.to_thread(self.get, item_id)

    async def aof_run(self, run_id: str) -> Items:
        return await asyncio.to_thread(self.of_run, run_id)

    async def acounts(self, *, tenant: str | None = None, task: str | None = None) -> dict[ReviewState, int]:
        return await asyncio.to_thread(self.counts, tenant=tenant, task=task)

    async def alist(
        self,
        state: ReviewState | None = None,
        tenant: str | None = None,
        task: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Items:
        return await asyncio.to_thread(self.list, state, tenant, task, limit, after)

    def _must_get(self, connection: Connection, item_id: str) -> ReviewItem:
        row = connection.execute(select(items).where(items.c.id == item_id).with_for_update()).one_or_none()
        if row is None:
            raise BadInput(f"there is no review item {item_id!r}")
        return item_of(row)

    def _held(self, connection: Connection, item_id: str, reviewer: str) -> ReviewItem:
        """The item, if its lease is this reviewer's and still runs."""
        item = self._must_get(connection, item_id)
        now = self.clock.now()
        if item.state is not ReviewState.CLAIMED or item.lease_owner != reviewer:
            raise LeaseLost(f"review item {item_id!r} is {item.state}, and not leased to {reviewer!r}; claim it first")
        if item.due_at is not None and item.due_at <= now:
            raise StaleItem(f"the time of review item {item_id!r} was up at {item.due_at}; it goes to its safe end")
        if item.lease_expires_at is None or item.lease_expires_at <= now:
            raise LeaseLost(
                f"the lease of {reviewer!r} on {item_id!r} ran out at {item.lease_expires_at}; claim it again"
            )
        return item


def _change(connection: Connection, item: ReviewItem, **changes: Any) -> ReviewItem:
    """Store a changed item under the next version."""
    changed = item.model_copy(update=changes | {"version": item.version + 1})
    written = connection.execute(
        items.update().where(items.c.id == item.id, items.c.version == item.version).values(row_of(changed))
    )
    if written.rowcount != 1:
        raise StaleItem(f"review item {item.id!r} changed while it was being written; read it again")
    return changed


def _filters(tenant: str | None, task: str | None) -> list[Any]:
    return [column == value for column, value in ((items.c.tenant, tenant), (items.c.task, task)) if value is not None]


def _check_reviewer(reviewer: str) -> None:
    if not 1 <= len(reviewer) <= 200:
        raise BadInput(f"a reviewer's name has 1 to 200 characters, not {len(reviewer)}")


def _same_decision(stored: Resolution | None, given: Resolution) -> bool:
    return stored is not None and stored == given.model_copy(update={"resolved_at": stored.resolved_at})
