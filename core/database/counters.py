"""Numbers that rise by one with every change, in the order of commits."""

from __future__ import annotations

from sqlalchemy import Connection, select

from .tables import counters

OUTCOMES = "outcomes"


def hold(connection: Connection, name: str) -> None:
    """Make other writers of what this counter numbers wait until the caller's transaction ends."""
    connection.execute(select(counters.c.value).where(counters.c.name == name).with_for_update())


def next_numbers(connection: Connection, name: str, count: int = 1) -> range:
    """Raise the counter inside the caller's transaction: its row stays locked until the commit.

    A database sequence would not do: numbers would be visible in another order than they were drawn, and who reads on
    from the last number would miss some.
    """
    raised = connection.execute(counters.update().where(counters.c.name == name).values(value=counters.c.value + count))
    if raised.rowcount == 0:
        connection.execute(counters.insert().values(name=name, value=count))
    last = last_number(connection, name)
    return range(last - count + 1, last + 1)


def last_number(connection: Connection, name: str) -> int:
    """The newest number given; 0 before the first."""
    return int(connection.execute(select(counters.c.value).where(counters.c.name == name)).scalar_one_or_none() or 0)
