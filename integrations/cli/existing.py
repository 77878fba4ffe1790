"""The database that a command works on: one that is there, so that a mistyped name is told and not made."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from ...core.database import Database
from ...core.errors import BadInput


def existing(where: str) -> Database:
    """Open it.

    Raises:
        BadInput: there is no such file.
        ConfigurationError: the URL cannot be understood.
        StoreError: it cannot be opened.
    """
    file = _file(where)
    if file is not None and not file.expanduser().is_file():
        raise BadInput(
            f"there is no database at {where!r} yet; it is made by the first run, or name another with --database"
        )
    return Database(where)


def _file(where: str) -> Path | None:
    """The SQLite file; None for a server, a database in memory, and what `Database` refuses anyway."""
    if "://" not in where:
        return None if where in ("", ":memory:") or "\0" in where else Path(where)
    try:
        url = make_url(where)
    except ArgumentError:
        return None
    memory = url.database in (None, "", ":memory:") or str(url.database).startswith("file:")
    return None if memory or url.get_backend_name() != "sqlite" else Path(str(url.database))
