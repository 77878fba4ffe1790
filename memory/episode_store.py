"""Episodes in SQL: the truth that every index is built from (rule 6)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from ..core.clock import SystemClock
from ..core.database import Database
from ..core.database.tables import episodes
from ..core.errors import BadInput, StoreError
from ..core.protocols import Clock
from .episode import Episode


class BankState(NamedTuple):
    """Number of graded episodes, their highest number, and a hash of their ids and grades."""

    episodes: int
    highest: int
    marks: str


NO_EPISODES = BankState(0, 0, "")


class EpisodeStore:
    """Adds, grades, lists and forgets episodes.

    Methods have asynchronous twins (`aadd`, `agrade`, ...) that run the same query in a worker thread; not those that
    serve an index or a caller's transaction (`members`, `fetch`, `grades`, `state_of_bank`, `put_graded`, `drop`).
    Where `tenant` may be None it means all tenants and has to be said.

    Args:
        database: where the table `episodes` is.
        clock: gives the time of grading.
    """

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        self.database = database
        self.clock: Clock = clock or SystemClock()

    def add(self, episode: Episode) -> int:
        """Store one episode; storing the same one again changes nothing. Returns its number.

        Raises:
            BadInput: the id belongs to an episode with other content.
            StoreError: the database failed; nothing was written.
        """
        return self.add_many([episode])[0]

    def add_many(self, batch: Sequence[Episode]) -> tuple[int, ...]:
        """`add`, for all of `batch` or none, in one transaction."""
        with self.database.transaction() as connection:
            return tuple(self._insert(connection, episode) for episode in batch)

    def grade(
        self,
        is_right: bool,
        *,
        id: str | None = None,
        response_id: str | None = None,
        lesson: str | None = None,
    ) -> int:
        """Write a grade (the newest wins) and, where given, the lesson. Returns how many episodes it met (0: none).

        Raises:
            BadInput: neither or both of `id` and `response_id` are given.
            StoreError: the database failed; nothing was written.
        """
        if (id is None) == (response_id is None):
            raise BadInput(f"grade needs id or response_id, one of them; got id={id!r}, response_id={response_id!r}")
        mine = episodes.c.id == id if id is not None else episodes.c.response_id == response_id
        changes: dict[str, Any] = {"is_right": bool(is_right), "graded_at": self.clock.now()}
        if lesson is not None:
            changes["lesson"] = lesson
        with self.database.transaction() as connection:
            found = connection.execute(select(episodes).where(mine).with_for_update()).all()
            for row in found:
                graded = _read(row).model_copy(update=changes)
                connection.execute(update(episodes).where(episodes.c.number == row.number).values(**_values(graded)))
        return len(found)

    def put_graded(self, episode: Episode, connection: Connection) -> None:
        """Store a graded episode, or its newest grade where it is there already, in the caller's transaction."""
        self._insert(connection, episode)
        connection.execute(update(episodes).where(episodes.c.id == episode.id).values(**_values(episode)))

    def drop(self, id: str, connection: Connection) -> None:
        """Forget one episode, in the caller's transaction; nothing where there is none."""
        connection.execute(delete(episodes).where(episodes.c.id == id))

    def state_of_bank(self, *, tenant: str, task: str, model: str, through: int | None = None) -> BankState:
        """What the graded episodes of a bank are, in short: equal as long as none came, went or was graded anew.

        Args:
            through: only episodes up to this number.
        """
        ids = func.aggregate_strings(episodes.c.id, "\n")
        query = select(episodes.c.is_right, func.count(), func.max(episodes.c.number), ids)
        query = _where(query, tenant, task, model, True).group_by(episodes.c.is_right)
        if through is not None:
            query = query.where(episodes.c.number <= through)
        with self.database.reading() as connection:
            found: list[Any] = list(connection.execute(query).all())
        rows = sorted(found, key=lambda row: bool(row[0]))
        if not rows:
            return NO_EPISODES
        # Not the numbers: SQLite may give that of a deleted episode to a new one.
        marks = hashlib.blake2b(digest_size=16)
        for row in rows:
            marks.update(f"{bool(row[0])} {row[1]} {row[3]}\n".encode("utf-8", "surrogatepass"))
        return BankState(sum(row[1] for row in rows), max(row[2] for row in rows), marks.hexdigest())

    def grades(self, *, tenant: str, task: str, model: str) -> dict[str, tuple[int, bool]]:
        """Number and grade of a bank's graded episodes by id, in the order of the numbers."""
        query = select(episodes.c.id, episodes.c.number, episodes.c.is_right)
        query = _where(query, tenant, task, model, True).order_by(episodes.c.number)
        with self.database.reading() as connection:
            rows: list[Any] = list(connection.execute(query).all())
        return {id: (number, bool(right)) for id, number, right in rows}

    def get(self, id: str) -> Episode | None:
        """The episode, or None."""
        with self.database.reading() as connection:
            row = connection.execute(select(episodes).where(episodes.c.id == id)).one_or_none()
        return None if row is None else _read(row)

    def count(
        self, *, tenant: str | None, task: str | None = None, model: str | None = None, graded_only: bool = False
    ) -> int:
        """How many episodes there are."""
        query = _where(select(func.count()).select_from(episodes), tenant, task, model, graded_only)
        with self.database.reading() as connection:
            return int(connection.execute(query).scalar_one())

    def list(
        self,
        *,
        tenant: str | None,
        task: str | None = None,
        model: str | None = None,
        graded_only: bool = False,
        after_number: int = 0,
        limit: int | None = None,
    ) -> tuple[Episode, ...]:
        """Episodes in the order of their numbers, from the first one above `after_number`.

        Raises:
            BadInput: `limit` is below 1.
        """
        if limit is not None and limit < 1:
            raise BadInput(f"limit {limit} must be at least 1, or None for all")
        query = _where(select(episodes), tenant, task, model, graded_only)
        query = query.where(episodes.c.number > after_number).order_by(episodes.c.number).limit(limit)
        with self.database.reading() as connection:
            return tuple(_read(row) for row in connection.execute(query))

    def members(
        self, *, tenant: str | None, task: str | None = None, model: str | None = None, graded_only: bool = False
    ) -> dict[str, int]:
        """Number by id, in the order of the numbers: what an index has to hold."""
        query = _where(select(episodes.c.id, episodes.c.number), tenant, task, model, graded_only)
        with self.database.reading() as connection:
            return {row.id: row.number for row in connection.execute(query.order_by(episodes.c.number))}

    def fetch(self, numbers: Sequence[int]) -> dict[str, Episode]:
        """Episodes by id, for these numbers; those that are gone are left out."""
        found: dict[str, Episode] = {}
        with self.database.reading() as connection:
            for start in range(0, len(numbers), 500):  # databases limit the parameters of a query
                query = select(episodes).where(episodes.c.number.in_(numbers[start : start + 500]))
                found.update((row.id, _read(row)) for row in connection.execute(query))
        return found

    def delete(self, *, tenant: str, id: str | None = None) -> int:
        """Forget all of a tenant's episodes, or the one with this id. Returns how many were there."""
        mine = episodes.c.tenant == tenant
        if id is not None:
            mine &= episodes.c.id == id
        with self.database.transaction() as connection:
            return int(connection.execute(delete(episodes).where(mine)).rowcount)

    async def aadd(self, episode: Episode) -> int:
        return await asyncio.to_thread(self.add, episode)

    async def aadd_many(self, batch: Sequence[Episode]) -> tuple[int, ...]:
        return await asyncio.to_thread(self.add_many, batch)

    async def agrade(
        self, is_right: bool, *, id: str | None = None, response_id: str | None = None, lesson: str | None = None
    ) -> int:
        return await asyncio.to_thread(self.grade, is_right, id=id, response_id=response_id, lesson=lesson)

    async def aget(self, id: str) -> Episode | None:
        return await asyncio.to_thread(self.get, id)

    async def acount(
        self, *, tenant: str | None, task: str | None = None, model: str | None = None, graded_only: bool = False
    ) -> int:
        return await asyncio.to_thread(self.count, tenant=tenant, task=task, model=model, graded_only=graded_only)

    async def alist(
        self,
        *,
        tenant: str | None,
        task: str | None = None,
        model: str | None = None,
        graded_only: bool = False,
        after_number: int = 0,
        limit: int | None = None,
    ) -> tuple[Episode, ...]:
        return await asyncio.to_thread(
            self.list,
            tenant=tenant,
            task=task,
            model=model,
            graded_only=graded_only,
            after_number=after_number,
            limit=limit,
        )

    async def adelete(self, *, tenant: str, id: str | None = None) -> int:
        return await asyncio.to_thread(self.delete, tenant=tenant, id=id)

    def _insert(self, connection: Connection, episode: Episode) -> int:
        if episode.is_right is not None and episode.graded_at is None:
            episode = episode.model_copy(update={"graded_at": self.clock.now()})
        insert = sqlite.insert if self.database.is_sqlite else postgresql.insert
        connection.execute(insert(episodes).values(**_values(episode)).on_conflict_do_nothing(index_elements=["id"]))
        row = connection.execute(select(episodes).where(episodes.c.id == episode.id)).one()
        if _read(row).content.model_dump_json() != episode.content.model_dump_json():
            raise BadInput(f"episode id {episode.id!r} is taken by another episode; leave id out to get a fresh one")
        return int(row.number)


def _where(query: Any, tenant: str | None, task: str | None, model: str | None, graded: bool) -> Any:
    for column, value in ((episodes.c.tenant, tenant), (episodes.c.task, task), (episodes.c.model, model)):
        if value is not None:
            query = query.where(column == value)
    return query.where(episodes.c.is_right.is_not(None)) if graded else query


def _values(episode: Episode) -> dict[str, Any]:
    """Columns. The JSON is the truth; the plain columns are for queries and cannot hold NUL on PostgreSQL."""
    try:
        document = episode.model_dump_json(exclude={"number"})
    except ValueError as error:
        raise BadInput(f"episode {episode.id!r} cannot be stored: {error}") from error
    return {
        "id": episode.id,
        "response_id": episode.response_id,
        "task": episode.task,
        "tenant": episode.tenant,
        "model": episode.model,
        "question": episode.question.replace("\x00", "\ufffd"),
        "answer": episode.answer.replace("\x00", "\ufffd"),
        "confidence": episode.confidence,
        "is_right": episode.is_right,
        "episode": document,
        "created_at": episode.created_at,
    }


def _read(row: Row[Any]) -> Episode:
    try:
        return Episode.model_validate_json(row.episode).model_copy(update={"number": int(row.number)})
    except ValueError as error:
        raise StoreError(f"episode {row.id!r} in the database cannot be read: {error}") from error
