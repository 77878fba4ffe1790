"""`demur outcomes`: grades in, grades taken back, grades looked at."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from ...core.clock import SystemClock
from ...core.database import Database
from ...core.database.outcome_log import OutcomeLog
from ...core.errors import BadInput
from ...core.text import printable
from ...router.settings import Settings
from .collecting import progress_bar
from .existing import existing

_LONG = 2000  # grades of a file that is worth a bar

app = typer.Typer(
    help="Say how responses turned out, or take a grader's word back.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

DatabaseOption = Annotated[
    str | None, typer.Option("--database", help="SQLite file or SQLAlchemy URL; default from the settings.")
]
ConfigOption = Annotated[Path | None, typer.Option("--config", help="Settings file; default demur.toml.")]


@app.command("import")
def import_command(
    data: Annotated[Path, typer.Option(help="JSONL: {response_id, correct | score + cut, ...} a line.")],
    source: Annotated[str, typer.Option(help="human, test, rule or judge; of rows that name none.")] = "human",
    source_name: Annotated[str, typer.Option(help="Which one; of rows that name none.")] = "",
    skip_unknown: Annotated[bool, typer.Option(help="Leave out responses that are not in the log.")] = False,
    database: DatabaseOption = None,
    config: ConfigOption = None,
) -> None:
    """Import grades: the whole file, or nothing. The same file again changes nothing."""
    from ...router.outcome_file import import_outcomes, read_outcomes

    settings, store = _opened(config, database)
    grades = read_outcomes(data, source=source, source_name=source_name, now=SystemClock().now())
    with progress_bar("importing") as told:
        progress = told if len(grades.outcomes) > _LONG else None
        report = import_outcomes(store, grades, skip_unknown=skip_unknown, progress=progress)
    typer.echo(
        f"{report.stored} grades stored, {report.known} were known, {report.skipped} of unknown responses left out."
    )
    if report.retracted:
        typer.echo(
            f"{report.retracted} were taken back earlier and stay so; a grade counts again with a graded_at after that."
        )
    _learn(store, settings)


@app.command("retract")
def retract_command(
    source: Annotated[str, typer.Option(help="human, test, rule or judge.")],
    since: Annotated[str, typer.Option(help="Graded at or after this date or time; without a zone it is UTC.")],
    until: Annotated[
        str | None, typer.Option(help="Graded at or before this time, or by the end of this date.")
    ] = None,
    source_name: Annotated[str | None, typer.Option(help="Only this one of the source.")] = None,
    task: Annotated[str | None, typer.Option(help="Only this task.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant.")] = None,
    because: Annotated[str, typer.Option(help="Why; kept beside the grades.")] = "",
    dry_run: Annotated[bool, typer.Option(help="Only count.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    database: DatabaseOption = None,
    config: ConfigOption = None,
) -> None:
    """Take grades back: they stay in the record, count for nothing, and everything is learned again without them."""
    from ...router.outcome_file import moment

    settings, store = _opened(config, database)
    which: dict[str, Any] = {
        "source_name": source_name,
        "since": moment(since),
        "until": None if until is None else moment(until, end=True),
        "task": task,
        "tenant": tenant,
    }
    log = OutcomeLog(store)
    found = log.retractable(source, **which)
    count = sum(each.grades for each in found)
    for each in found:
        typer.echo(printable(f"{each.grades} of task {each.task or 'unknown'}, tenant {each.tenant or 'unknown'}", 500))
    said = f"{count} grades of {printable(source, 20)} since {_utc(which['since'])}"
    said += f" until {_utc(which['until'])}" if which["until"] is not None else ""
    if dry_run or count == 0:
        typer.echo(f"{said} would be taken back. Nothing was changed.")
        return
    typer.echo("Online calibration and episodes of these tasks are made again, and all heads learned from the log.")
    if not yes and not sys.stdin.isatty():
        raise BadInput("nobody is here to confirm that grades are taken back; say --yes, or look with --dry-run")
    if not yes and not typer.confirm(f"Take back {said}?"):
        typer.echo("Nothing was changed.")
        return
    taken = log.retract(source, because=because, **which)
    typer.echo(f"{taken} grades taken back.")
    _learn(store, settings, forget=True)


@app.command("list")
def list_command(
    response: Annotated[str | None, typer.Option(help="Only this response.")] = None,
    task: Annotated[str | None, typer.Option(help="Only this task.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 50,
    database: DatabaseOption = None,
    config: ConfigOption = None,
) -> None:
    """Show grades, the newest change first; those that were taken back are marked."""
    from rich.console import Console
    from rich.table import Table

    from ...router.outcome_list import newest

    _, store = _opened(config, database)
    table = Table("response", "task", "grade", "by", "graded at", "propensity", "state")
    for row in newest(store, response_id=response, task=task, limit=limit):
        known = "unknown" if row.label_propensity is None else f"{row.label_propensity:.3g}"
        cells = (
            row.response_id,
            row.task or "",
            "right" if row.is_right else "wrong",
            f"{row.source} {row.source_name}".strip(),
            _utc(row.graded_at),
            known,
            f"taken back: {row.retracted_because or 'no reason given'}" if row.retracted_at else "counts",
        )
        table.add_row(*(_plain(cell) for cell in cells))
    Console().print(table)


def _utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _plain(text: str) -> Any:
    from rich.text import Text

    return Text(printable(text, 200))


def _opened(config: Path | None, database: str | None) -> tuple[Settings, Database]:
    settings = Settings.load(config)
    return settings, existing(database if database is not None else settings.database)


def _learn(store: Database, settings: Settings, *, forget: bool = False) -> None:
    """What was learned follows at once, so that a running program reads it at its next call."""
    from .learn import learning_of

    learning = learning_of(store, settings)
    if forget:
        learning.forget_heads()
    changes = learning.catch_up()
    heads = learning.relearn(only_due=not forget)
    typer.echo(f"Learned from {changes} changes; {len(heads)} heads fitted on the log.")
