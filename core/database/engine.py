"""One engine for a database URL, with the settings that make SQLite safe, migrated when opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from ..errors import ConfigurationError, StoreError
from .migrate import bring_up_to_date


class Database:
    """Transactions on one database.

    Args:
        url: a SQLAlchemy URL, or the path of a SQLite file, or ":memory:".
        busy_timeout: seconds to wait for another writer.

    Raises:
        ConfigurationError: the URL cannot be understood.
        StoreError: the database cannot be opened or is newer than this version of Demur.
    """

    def __init__(self, url: str | Path, *, busy_timeout: float = 30.0) -> None:
        text = str(url)
        if "://" not in text:
            if text != ":memory:":
                Path(text).expanduser().parent.mkdir(parents=True, exist_ok=True)
            text = f"sqlite:///{text if text == ':memory:' else Path(text).expanduser()}"
        try:
            parsed = make_url(text)
            self.is_sqlite = parsed.get_backend_name() == "sqlite"
            arguments: dict[str, Any] = {}
            if self.is_sqlite:
                arguments["connect_args"] = {"timeout": busy_timeout, "check_same_thread": False}
                if parsed.database in (None, "", ":memory:"):
                    from sqlalchemy.pool import StaticPool

                    arguments["poolclass"] = StaticPool
            self.engine = create_engine(parsed, **arguments)
        except (ArgumentError, ModuleNotFoundError) as error:
            raise ConfigurationError(f"database URL {text!r} cannot be used: {error}") from error
        self.url = text
        if self.is_sqlite:
            _make_sqlite_safe(self.engine)
        with self.transaction() as connection:
            bring_up_to_date(connection)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction: committed when the block ends, rolled back when it raises.

        Raises:
            StoreError: the database failed (full disk, lock, damage). Nothing was written.
        """
        try:
            with self.engine.begin() as connection:
                yield connection
        except DBAPIError as error:
            raise StoreError(f"the database {self.engine.url!r} failed, nothing was written: {error.orig}") from error
        except SQLAlchemyError as error:
            raise StoreError(f"the database {self.engine.url!r} failed, nothing was written: {error}") from error

    def close(self) -> None:
        self.engine.dispose()


def _make_sqlite_safe(engine: Any) -> None:
    """WAL, foreign keys, full sync; and BEGIN IMMEDIATE, so that a reader that writes later cannot deadlock."""

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves
        cursor = connection.cursor()
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
