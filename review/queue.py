"""The queue of calls that wait for a human: enqueue, claim with a lease, resolve once, expire to a safe end.

    open ──claim──▶ claimed ──resolve──▶ resolved
      ▲                │ release, or the lease runs out (then anyone may claim it)
      └────────────────┘
    open or claimed ──due──▶ expired

The undecided items of one conversation are one entry: they are claimed, kept and given back together, and decided one
by one. Times come from the clock that is handed in; with several machines their clocks must agree to well under a
lease.
"""

from __future__ import annotations

import asyncio
import math
from datetime import datetime, timedelta

from sqlalchemy import Connection, select

from ..core.database import Database
from ..core.database.outcome_log import OutcomeLog
from ..core.database.tables import review_items as items
from ..core.errors import BadInput, ConfigurationError, LeaseLost, StaleItem
from ..core.protocols import Clock
from ..core.review_item import Resolution, ReviewItem, ReviewState
from .bell import bell
from .conversations import UNDECIDED, is_free, is_held, lock_entry, most_urgent, standing_lease
from .grading import check_fits, outcome_of
from .reading import Items, QueueReading, filters_of
from .rows import item_of, row_of, store_change
from .settle import label_propensity_of, settle_expired, settle_resolved


class ReviewQueue(QueueReading):
    """The store of review items. Every method has an async twin (`aclaim`, ...), which runs it in a thread.

    Args:
        lease_seconds: how long a claimed item is a reviewer's own without a heartbeat.

    Raises:
        ConfigurationError: a lease that is not a finite number above 0.
    """

    def __init__(self, database: Database, clock: Clock, lease_seconds: float = 300.0) -> None:
        if not (math.isfinite(lease_seconds) and lease_seconds > 0):
            raise ConfigurationError(f"lease_seconds={lease_seconds} must be a finite number above 0")
        super().__init__(database)
        self.clock = clock
        self.lease = timedelta(seconds=lease_seconds)
        self.outcomes = OutcomeLog(database)

    def enqueue(self, item: ReviewItem, connection: Connection | None = None) -> str:
        """Store an item; one for each (run, kind), however often this is called.

        Where a reviewer holds the item's conversation, it joins that lease.

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
                lease = standing_lease(connection, item, self.clock.now())
                connection.execute(items.insert().values(row_of(item.model_copy(update=lease))))
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

        All that is free in the item's conversation is leased with it; `conversation` gives the whole of it. Nobody
        else gets any of it while the lease lasts, what arrives meanwhile included. An item whose lease ran out is
        free again.

        Args:
            item_id: this very item or none; the reviewer who holds it already gets it again, with a new lease.
        """
        _check_reviewer(reviewer)
        filters = filters_of(items, tenant, task)
        lost: list[str] = []
        while True:
            # A transaction for each attempt: what it locked in vain must not be held while it waits for the next.
            with self.database.transaction() as connection:
                found = most_urgent(
                    connection, self.clock.now(), reviewer, item_id, [*filters, items.c.id.not_in(lost)]
                )
                if found is None:
                    return None
                claimed = self._lease(connection, found, reviewer, or_own=item_id is not None)
            if claimed is not None:
                return claimed
            lost.append(found)  # to somebody who was faster

    def heartbeat(self, item_id: str, reviewer: str) -> ReviewItem:
        """Make the lease of the item, and of its conversation, last `lease_seconds` from now. Versions stay.

        Raises:
            LeaseLost: the lease is another's, ran out or was ended.
        """
        with self.database.transaction() as connection:
            entry = lock_entry(connection, item_id)
            item, now = _find(entry, item_id), self.clock.now()
            _check_held(item, reviewer, now)
            expires = now + self.lease
            for each in entry:
                if is_held(each, now) and each.lease_owner == reviewer:
                    _prolong(connection, each, expires)
                elif is_free(each, now):  # it arrived while the lease was being changed
                    store_change(
                        connection, each, state=ReviewState.CLAIMED, lease_owner=reviewer, lease_expires_at=expires
                    )
            return item.model_copy(update={"lease_expires_at": expires})

    def release(self, item_id: str, reviewer: str) -> ReviewItem:
        """Give an item back undecided, with all that the reviewer holds of its conversation.

        Raises:
            LeaseLost: it is not (or no longer) leased to this reviewer.
        """
        with self.database.transaction() as connection:
            entry = lock_entry(connection, item_id)
            item, now = _find(entry, item_id), self.clock.now()
            _check_held(item, reviewer, now)
            given = item
            for each in entry:
                if is_held(each, now) and each.lease_owner == reviewer:
                    freed = store_change(
                        connection, each, state=ReviewState.OPEN, lease_owner=None, lease_expires_at=None
                    )
                    given = freed if each.id == item_id else given
            return given

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
            _check_held(item, resolution.reviewer, now)
            if item.version != version:
                raise StaleItem(f"review item {item_id!r} is at version {item.version}, not {version}; read it again")
            check_fits(item, resolution)
            decided = store_change(
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
        bell.ring()  # after the commit: who looks now must find it
        return decided

    def expire_due(self) -> Items:
        """Bring every undecided item whose time is up to its safe end, leased or not; returns those items."""
        with self.database.transaction() as connection:
            now = self.clock.now()
            due = connection.execute(
                select(items)
                .where(items.c.state.in_(UNDECIDED), items.c.due_at <= now)
                .order_by(items.c.due_at, items.c.id)
                .with_for_update(skip_locked=True)
            ).all()
            expired: Items = []
            for row in due:
                item = store_change(
                    connection, item_of(row), state=ReviewState.EXPIRED, lease_owner=None, lease_expires_at=None
                )
                settle_expired(connection, item, now)
                expired.append(item)
        if expired:
            bell.ring()
        return expired

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

    def _lease(self, connection: Connection, item_id: str, reviewer: str, *, or_own: bool) -> ReviewItem | None:
        """Lease an item with all that is free in its conversation; None where another was faster."""
        entry = lock_entry(connection, item_id)
        now = self.clock.now()
        lease = {"lease_owner": reviewer, "lease_expires_at": now + self.lease}
        claimed = None
        if any(is_held(each, now) and each.lease_owner != reviewer for each in entry):
            return None
        for each in entry:
            own = is_held(each, now)
            if is_free(each, now) or (each.id == item_id and own and or_own):
                changed = store_change(connection, each, state=ReviewState.CLAIMED, **lease)
                claimed = changed if each.id == item_id else claimed
            elif own:
                _prolong(connection, each, lease["lease_expires_at"])
        return claimed

    def _must_get(self, connection: Connection, item_id: str) -> ReviewItem:
        row = connection.execute(select(items).where(items.c.id == item_id).with_for_update()).one_or_none()
        if row is None:
            raise BadInput(f"there is no review item {item_id!r}")
        return item_of(row)


def _check_held(item: ReviewItem, reviewer: str, now: datetime) -> None:
    """Refuse, unless the item's lease is this reviewer's and still runs."""
    if item.state is not ReviewState.CLAIMED or item.lease_owner != reviewer:
        raise LeaseLost(f"review item {item.id!r} is {item.state}, and not leased to {reviewer!r}; claim it first")
    if item.due_at is not None and item.due_at <= now:
        raise StaleItem(f"the time of review item {item.id!r} was up at {item.due_at}; it goes to its safe end")
    if item.lease_expires_at is None or item.lease_expires_at <= now:
        raise LeaseLost(f"the lease of {reviewer!r} on {item.id!r} ran out at {item.lease_expires_at}; claim it again")


def _find(entry: Items, item_id: str) -> ReviewItem:
    return next(each for each in entry if each.id == item_id)


def _prolong(connection: Connection, item: ReviewItem, expires: datetime) -> None:
    """The version stays: nothing about the item changed."""
    connection.execute(items.update().where(items.c.id == item.id).values(lease_expires_at=expires))


def _check_reviewer(reviewer: str) -> None:
    if not 1 <= len(reviewer) <= 200:
        raise BadInput(f"a reviewer's name has 1 to 200 characters, not {len(reviewer)}")


def _same_decision(stored: Resolution | None, given: Resolution) -> bool:
    return stored is not None and stored == given.model_copy(update={"resolved_at": stored.resolved_at})
