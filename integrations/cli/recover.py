"""`demur recover`: end the runs that a dead process left open."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ...core.clock import SystemClock
from ...core.text import printable


def recover_command(
    database: Annotated[str | None, typer.Option(help="Database URL or file; default from the settings.")] = None,
    config: Annotated[str | None, typer.Option(help="Settings file; default demur.toml.")] = None,
) -> None:
    """Bring every run of a dead process to an end that is known, or to a human."""
    from ...router.recovery import recover
    from ...router.settings import Settings
    from .existing import existing

    settings = Settings.load(config)
    idempotent = [name for name, tool in settings.tools.items() if tool.idempotent]
    store = existing(database if database is not None else settings.database)
    report = recover(store, SystemClock(), idempotent_tools=idempotent)
    table = Table("became", "runs", "ids")
    for name, ids in report.model_dump().items():
        table.add_row(name, str(len(ids)), printable(", ".join(ids[:5]), 400))
    Console().print(table)
