"""`demur review`: work through the queue in a terminal.

Everything shown was written by models, callers or reviewers. It is shown as plain text, without markup, with control
characters and text-direction overrides made visible.
"""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Annotated, Any

import typer

from ...core.clock import SystemClock
from ...core.errors import BadInput
from ...core.files import read_named
from ...core.review_item import ReviewState, Verdict
from ...core.text import printable
from ...review.queue import ReviewQueue
from ...router.settings import Settings
from .existing import existing
from .review_deciding import decide, must_get, parse_arguments
from .review_panel import panel_of, table_of
from .review_walk import work_through

app = typer.Typer(
    help="Work through the calls that wait for a human.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

LARGEST_FILE = 4_000_000

DatabaseOption = Annotated[
    str | None, typer.Option("--database", help="SQLite file or SQLAlchemy URL; default from the settings.")
]
ReviewerOption = Annotated[
    str | None,
    typer.Option("--reviewer", envvar="DEMUR_REVIEWER", help="Who decides; default: the name you log in with."),
]
TenantOption = Annotated[str | None, typer.Option("--tenant", help="Only items of this tenant.")]
TaskOption = Annotated[str | None, typer.Option("--task", help="Only items of this task.")]
NoteOption = Annotated[str, typer.Option("--note", help="Why; for a rejection, what the caller is told.")]
ItemArgument = Annotated[str, typer.Argument(metavar="ID")]


@app.command("list")
def list_items(
    database: DatabaseOption = None,
    state: Annotated[ReviewState | None, typer.Option(help="Only items in this state.")] = None,
    tenant: TenantOption = None,
    task: TaskOption = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 50,
    after: Annotated[str | None, typer.Option(help="Go on after this id.")] = None,
) -> None:
    """List what waits and what was decided, oldest first; calls of one conversation that wait are one line."""
    queue = _queue(database)
    counts = queue.counts(tenant=tenant, task=task)
    _console().print(table_of(queue.entries(state, tenant, task, limit, after)))
    typer.echo(", ".join(f"{number} {each.value}" for each, number in counts.items()))


@app.command("show")
def show(
    item_id: ItemArgument,
    database: DatabaseOption = None,
    full: Annotated[bool, typer.Option("--full", help="Show long texts to their end.")] = False,
) -> None:
    """Show one item, without claiming it."""
    queue = _queue(database)
    item = must_get(queue, item_id)
    _console().print(panel_of(item, 10_000_000 if full else 4000, queue.context(item)))


@app.command("next")
def next_item(
    database: DatabaseOption = None,
    reviewer: ReviewerOption = None,
    tenant: TenantOption = None,
    task: TaskOption = None,
) -> None:
    """Claim the most urgent conversation or item, show it call by call, ask for decisions; until none is left."""
    work_through(_queue(database), _reviewer(reviewer), _console().print, tenant=tenant, task=task)


@app.command("approve")
def approve(
    item_id: ItemArgument,
    database: DatabaseOption = None,
    reviewer: ReviewerOption = None,
    note: NoteOption = "",
) -> None:
    """Let the proposal through (for an effect of which nobody knows: it did happen)."""
    decide(_queue(database), item_id, _reviewer(reviewer), verdict=Verdict.APPROVE, note=note)


@app.command("reject")
def reject(
    item_id: ItemArgument,
    database: DatabaseOption = None,
    reviewer: ReviewerOption = None,
    note: NoteOption = "",
) -> None:
    """Withhold the proposal (for an effect of which nobody knows: it did not happen)."""
    decide(_queue(database), item_id, _reviewer(reviewer), verdict=Verdict.REJECT, note=note)


@app.command("edit")
def edit(
    item_id: ItemArgument,
    database: DatabaseOption = None,
    reviewer: ReviewerOption = None,
    answer: Annotated[str | None, typer.Option(help="The right answer.")] = None,
    answer_file: Annotated[Path | None, typer.Option(help="A file with the right answer.")] = None,
    arguments: Annotated[str | None, typer.Option(help="The right tool arguments, a JSON object.")] = None,
    arguments_file: Annotated[Path | None, typer.Option(help="A file with them.")] = None,
    tool_name: Annotated[str | None, typer.Option(help="Another tool instead.")] = None,
    note: NoteOption = "",
) -> None:
    """Let a corrected answer or tool call through."""
    text = _one_of("--arguments", arguments, arguments_file)
    decide(
        _queue(database),
        item_id,
        _reviewer(reviewer),
        verdict=Verdict.EDIT,
        answer=_one_of("--answer", answer, answer_file),
        arguments=None if text is None else parse_arguments(text),
        tool_name=tool_name,
        note=note,
    )


@app.command("respond")
def respond(
    item_id: ItemArgument,
    database: DatabaseOption = None,
    reviewer: ReviewerOption = None,
    answer: Annotated[str | None, typer.Option(help="What the caller gets instead.")] = None,
    answer_file: Annotated[Path | None, typer.Option(help="A file with it.")] = None,
    note: NoteOption = "",
) -> None:
    """Answer the caller yourself."""
    text = _one_of("--answer", answer, answer_file)
    decide(_queue(database), item_id, _reviewer(reviewer), verdict=Verdict.RESPOND, answer=text, note=note)


@app.command("expire")
def expire(database: DatabaseOption = None) -> None:
    """Bring every item whose time is up to its safe end."""
    expired = _queue(database).expire_due()
    for item in expired:
        typer.echo(f"{printable(item.id, 100)} {item.on_expiry.value}")
    typer.echo(f"{len(expired)} expired")


def _queue(database: str | None) -> ReviewQueue:
    settings = Settings.load()
    store = existing(database if database is not None else settings.database)
    return ReviewQueue(store, SystemClock(), lease_seconds=settings.review.lease_seconds)


def _reviewer(name: str | None) -> str:
    try:
        return name or getpass.getuser()
    except (KeyError, OSError, ImportError) as error:
        raise BadInput("who are you? give --reviewer NAME") from error


def _one_of(option: str, text: str | None, file: Path | None) -> str | None:
    if text is not None and file is not None:
        raise BadInput(f"give {option} or {option}-file, not both")
    if file is None:
        return text
    try:
        return read_named(file, largest=LARGEST_FILE, pipes=True).decode("utf-8")
    except (OSError, UnicodeError) as error:
        raise BadInput(f"{option}-file {str(file)!r} cannot be read: {error}") from error


def _console() -> Any:
    from rich.console import Console

    return Console()
