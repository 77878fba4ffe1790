"""One engine for a database URL, with the settings that make SQLite safe, migrated when opened."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic_core import PydanticSerializationError
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError, StatementError
from sqlalchemy.pool import StaticPool

from ..errors import BadInput, ConfigurationError, StoreError
from .migrate import HEAD, bring_up_to_date, current_revision

_READING = "demur_reading"
_PASSWORD = re.compile(r"//([^:@]*):.*@")


class Database:
    """Transactions on one database. Safe to share between threads; survives a fork.

    Args:
        url: a SQLAlchemy URL, or the path of a SQLite file (its folder is made), or ":memory:".
        busy_timeout: seconds to wait for another writer.

    Raises:
        ConfigurationError: the URL cannot be understood.
        StoreError: the database cannot be opened or is newer than this version of Demur.
    """

    def __init__(self, url: str | Path, *, busy_timeout: float = 30.0) -> None:
        if not isinstance(url, str | Path) or not str(url) or "\0" in str(url):
            raise ConfigurationError(f"database={url!r} is neither a path nor a URL")
        try:
            parsed = make_url(str(url)) if "://" in str(url) else _sqlite_file(url)
            self.is_sqlite = parsed.get_backend_name() == "sqlite"
            in_memory = self.is_sqlite and parsed.database in (None, "", ":memory:")
            # Statements may hold anybody's text: errors show the statement without its values.
            arguments: dict[str, Any] = {"hide_parameters": True}
            if self.is_sqlite:
                arguments["connect_args"] = {"timeout": busy_timeout, "check_same_thread": False}
            if in_memory:
                arguments["poolclass"] = StaticPool
            self.engine = create_engine(parsed, **arguments)
        except (ArgumentError, ModuleNotFoundError) as error:
            shown = _PASSWORD.sub(r"//\1:***@", str(url))
            raise ConfigurationError(f"database URL {shown!r} cannot be used: {error}") from error
        self.url = parsed.render_as_string()
        self._reader = self.engine.execution_options(**{_READING: True})
        # A database in memory is one connection: its users take turns.
        self._turn: contextlib.AbstractContextManager[Any] = (
            threading.RLock() if in_memory else contextlib.nullcontext()
        )
        if self.is_sqlite:
            _make_sqlite_safe(self.engine, busy_timeout)
        _forget_connections_after_fork(self.engine)
        with self.reading() as connection:
            found = current_revision(connection)
        if found != HEAD:
            with self.transaction() as connection:
                bring_up_to_date(connection)

    @contextmanager
    def transaction(self, connection: Connection | None = None) -> Iterator[Connection]:
        """A transaction: committed when the block ends, rolled back when it raises.

        With a `connection`, the block joins the transaction that is already going on there.

        Raises:
            StoreError: the database failed (full disk, lock, damage). Nothing was written.
            BadInput: a value that no database can hold (a naive datetime, a lone surrogate, an integer over 64 bits).
        """
        if connection is not None:
            yield connection
            return
        with self._turn, self._translated(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def reading(self, connection: Connection | None = None) -> Iterator[Connection]:
        """A consistent view to read from; on SQLite it neither waits for writers nor holds them up.

        Raises:
            StoreError: the database failed.
        """
        if connection is not None:
            yield connection
            return
        with self._turn, self._translated(), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise StoreError(f"the database {self.url!r} failed, nothing was written: {error.orig}") from error
        except StatementError as error:
            raise BadInput(f"nothing was written to {self.url!r}: {error.orig}") from error
        except SQLAlchemyError as error:
            raise StoreError(f"the database {self.url!r} failed, nothing was written: {error}") from error
        except (UnicodeEncodeError, OverflowError, PydanticSerializationError) as error:  # by the driver, or on the way
            raise BadInput(f"nothing was written to {self.url!r}, a value cannot be stored: {error}") from error
        except sqlite3.Error as error:  # from the connection's first statements, before SQLAlchemy wraps errors
            raise StoreError(f"the database {self.url!r} cannot be opened: {error}") from error

    def close(self) -> None:
        self.engine.dispose()


def _sqlite_file(path: str | Path) -> URL:
    if str(path) == ":memory:":
        return URL.create("sqlite", database=":memory:")
    file = Path(path).expanduser()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"the folder of database {str(file)!r} cannot be made: {error}") from error
    return URL.create("sqlite", database=str(file))


def _make_sqlite_safe(engine: Engine, busy_timeout: float) -> None:
    """WAL, foreign keys, full sync; and BEGIN IMMEDIATE, so that a reader that writes later cannot deadlock."""

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves
        cursor = connection.cursor()
        _switch_to_wal(cursor, busy_timeout)
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        reading = connection.get_execution_options().get(_READING, False)
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def _switch_to_wal(cursor: Any, busy_timeout: float) -> None:
    """SQLite does not wait by itself here when another process is switching the same new file."""
    give_up = time.monotonic() + busy_timeout
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= give_up:
                raise
            time.sleep(0.01)


def _forget_connections_after_fork(engine: Engine) -> None:
    """A forked child must not use, nor close, its parent's connections."""
    if not hasattr(os, "register_at_fork"):
        return
    reference = weakref.ref(engine)

    def forget() -> None:
        inherited = reference()
        if inherited is not None:
            inherited.dispose(close=False)

    os.register_at_fork(after_in_child=forget)
