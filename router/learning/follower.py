"""Reading on in the log of outcomes, exactly once, whatever dies in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import ColumnElement, Connection, select
from sqlalchemy.dialects import postgresql, sqlite

from ...core.database import Database
from ...core.database.outcome_log import OutcomeLog
from ...core.database.tables import learned
from ...core.protocols import Clock

Learn = Callable[[Connection, Sequence[str]], None]
"""Told which responses changed, inside the transaction that also stores how far was read."""


class Follower:
    """Hands every change of an outcome to `learn` once.

    What is learned and how far was read are committed together: after a kill between, both are there or neither. Two
    processes take turns on the row that says how far was read.

    Args:
        name: whose reading it is.
    """

    def __init__(self, name: str, database: Database, clock: Clock, learn: Learn) -> None:
        self.name = name
        self.database = database
        self.clock = clock
        self._learn = learn
        self.batch = 500
        self._outcomes = OutcomeLog(database)
        self._seen = -1

    def catch_up(self) -> int:
        """Learn what is new. Returns the number of changes that this call took in.

        Raises:
            StoreError: the database failed; the batch at hand was not learned and will be.
        """
        newest = self._outcomes.last_change()
        if newest == self._seen:
            return 0
        if self.through() >= newest:  # another process was faster; nothing is written where nothing is new
            self._seen = newest
            return 0
        taken = 0
        while True:
            with self.database.transaction() as connection:
                through = self.locked(connection)
                changes = self._outcomes.changed_since(through, self.batch, connection)
                if changes:
                    self._learn(connection, list(dict.fromkeys(change.response_id for change in changes)))
                    self._read_on(connection, changes[-1].number)
            taken += len(changes)
            if len(changes) < self.batch:
                self._seen = max(newest, changes[-1].number if changes else through)
                return taken

    def through(self) -> int:
        """The number of the last change that was learned."""
        with self.database.reading() as connection:
            return self.through_within(connection)

    def through_within(self, connection: Connection) -> int:
        """The same, as this transaction sees it."""
        return int(connection.execute(select(learned.c.through).where(*self._mine())).scalar_one_or_none() or 0)

    def start_over(self, forget: Callable[[Connection], object]) -> int:
        """Learn everything again from the first outcome on; `forget` drops what was learned in the same transaction.

        Returns the number of changes that this took in.
        """
        with self.database.transaction() as connection:
            self.locked(connection)
            forget(connection)
            self._read_on(connection, 0)
        self._seen = -1
        return self.catch_up()

    def locked(self, connection: Connection) -> int:
        """How far was read, its row locked until the commit; made where it is not there."""
        query = select(learned.c.through).where(*self._mine()).with_for_update()
        found = connection.execute(query).scalar_one_or_none()
        if found is not None:
            return int(found)
        named = {"name": "follower", "tenant": "", "task": "", "scope": self.name}
        values = {"through": 0, "state": "{}", "version": 0, "updated_at": self.clock.now()}
        # Two processes may both find no row: one of them makes it, the other then waits for it here.
        insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
        connection.execute(insert(learned).values(**named, **values).on_conflict_do_nothing())
        return int(connection.execute(query).scalar_one())

    def _read_on(self, connection: Connection, number: int) -> None:
        connection.execute(
            learned.update()
            .where(*self._mine())
            .values(through=number, version=learned.c.version + 1, updated_at=self.clock.now())
        )

    def _mine(self) -> tuple[ColumnElement[bool], ...]:
        return learned.c.name == "follower", learned.c.scope == self.name
