"""Bring a database to this version's schema with alembic; loads alembic only when there is something to do."""

from __future__ import annotations

import threading
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from ..errors import StoreError
from .tables import metadata

HEAD = "0002"

# Alembic keeps its context in module globals: two threads cannot migrate two databases at once.
_one_at_a_time = threading.Lock()


def current_revision(connection: Connection) -> str | None:
    """The revision the database is at, or None for an empty one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def bring_up_to_date(connection: Connection) -> None:
    """Upgrade to HEAD inside the caller's transaction.

    Raises:
        StoreError: the database was written by a newer Demur.
    """
    found = current_revision(connection)
    if found == HEAD:
        return
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory
    from alembic.util.exc import CommandError

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes.update(connection=connection, metadata=metadata)
    if found is not None:
        try:
            ScriptDirectory.from_config(config).get_revision(found)
        except CommandError as error:
            raise StoreError(
                f"the database is at schema {found!r}, which this version of Demur (schema {HEAD!r}) does not know; "
                "upgrade Demur, or point it at another database"
            ) from error
    with _one_at_a_time:
        command.upgrade(config, HEAD)
