"""`demur learn`: take in every outcome and fit heads on the log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...core.clock import SystemClock
from ...core.database import Database
from ...core.text import printable
from ...router.settings import Settings
from .existing import existing

if TYPE_CHECKING:
    from ...router.learning.learning import Learning


def learn_command(
    task: Annotated[str | None, typer.Option(help="Only this task.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant.")] = None,
    database: Annotated[str | None, typer.Option(help="Instead of the database in the settings.")] = None,
    config: Annotated[Path | None, typer.Option(help="Settings file; default demur.toml.")] = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="First make calibration and episodes again from the log.")
    ] = False,
) -> None:
    """Fit heads on the graded calls of the log, and show what that brought."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    settings = Settings.load(config)
    learning = learning_of(existing(database if database is not None else settings.database), settings)
    console = Console()
    with console.status("Fitting heads on the log ..."):
        taken = learning.rebuild() if rebuild else learning.catch_up()
        found = learning.relearn(task, tenant)
    console.print(f"{taken} changes of grades taken in.")
    table = Table("task", "tenant", "arm", "rows", "right", "left out", "", "before", "now", "in use")
    for one in found:
        left_out = ", ".join(f"{count} {why}" for why, count in one.report.get("left_out", {}).items()) or "none"
        cells = (
            one.task,
            one.tenant,
            one.head.arm,
            str(one.head.labels),
            str(one.head.right),
            left_out,
            "Brier\nAUROC",
            "\n".join(figure_text(one.report, name) for name in ("brier_before", "auroc_before")),
            "\n".join(figure_text(one.report, name) for name in ("brier", "auroc")),
            "yes" if one.in_use else "no: it is no better than what is there",
        )
        table.add_row(*(Text(printable(cell, 200)) for cell in cells))
    if found:
        console.print(table)
    else:
        console.print("Nothing to learn yet: 10 right and 10 wrong graded calls of one task are the least.")


def figure_text(report: Mapping[str, Any], name: str) -> str:
    """A figure with its interval, as far as there is one."""
    row = report.get("figures", {}).get(name, {"value": report.get(name)})
    if row["value"] is None:
        return "–"
    if row.get("low") is None:
        return f"{row['value']:.4f}"
    return f"{row['value']:.4f} [{row['low']:.4f}, {row['high']:.4f}]"


def learning_of(database: Database, settings: Settings) -> Learning:
    """What was learned in this database, under these settings."""
    from ...probes.artefact import Artefact
    from ...router.learning.learning import Learning

    ids = {name: Artefact.load(Path(task.artefact)).id for name, task in settings.tasks.items() if task.artefact}
    chosen = settings.learning
    return Learning(
        database,
        SystemClock(),
        online=chosen.online,
        min_outcomes=chosen.min_outcomes,
        refit_growth=chosen.refit_growth,
        min_labels=settings.policy.min_labels,
        artefact_of=ids.get,
    )
