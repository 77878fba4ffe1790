"""`demur review`: work through the queue in a terminal.

Everything shown was written by models, callers or reviewers. It is shown as plain text, without markup, with control
characters and text-direction overrides made visible.
"""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from ...core.call import CallKind
from ...core.clock import SystemClock
from ...core.errors import BadInput, DemurError, LeaseLost, StaleItem
from ...core.files import read_named
from ...core.review_item import Resolution, ReviewItem, ReviewKind, ReviewState, Verdict
from ...core.text import printable
from ...review.queue import ReviewQueue
from ...router.settings import Settings
from .existing import existing
from .review_panel import panel_of, table_of

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
    """List items, oldest first."""
    queue = _queue(database)
    counts = queue.counts(tenant=tenant, task=task)
    _console().print(table_of(queue.list(state, tenant, task, limit, after)))
    typer.echo(", ".join(f"{number} {each.value}" for each, number in counts.items()))


@app.command("show")
def show(
    item_id: ItemArgument,
    database: DatabaseOption = None,
    full: Annotated[bool, typer.Option("--full", help="Show long texts to their end.")] = False,
) -> None:
    """Show one item, without claiming it."""
    item = _must_get(_queue(database), item_id)
    _console().print(panel_of(item, limit=10_000_000) if full else panel_of(item))


@app.command("next")
def next_item(
    database: DatabaseOption = None,
    reviewer: ReviewerOption = None,
    tenant: TenantOption = None,
    task: TaskOption = None,
) -> None:
    """Claim the most urgent item, show it, ask for a decision; again until there is none left."""
    queue, name = _queue(database), _reviewer(reviewer)
    skipped: list[str] = []
    try:
        while (item := queue.claim(name, tenant=tenant, task=task)) is not None:
            _console().print(panel_of(item))
            said = _ask(queue, item, name)
            if said == "quit":
                queue.release(item.id, name)
                return
            if said == "skip":
                # Kept leased until the end, so that the next claim gives another one.
                skipped.append(item.id)
        typer.echo("Nothing is waiting." if not skipped else f"Nothing else is waiting ({len(skipped)} skipped).")
    finally:
        for item_id in skipped:
            _quietly(lambda item_id=item_id: queue.release(item_id, name))


@app.command("approve")
def approve(
    item_id: ItemArgument,
    database: DatabaseOption = None,
    reviewer: ReviewerOption = None,
    note: NoteOption = "",
) -> None:
    """Let the proposal through (for an effect of which nobody knows: it did happen)."""
    _decide(database, item_id, reviewer, verdict=Verdict.APPROVE, note=note)


@app.command("reject")
def reject(
    item_id: ItemArgument,
    database: DatabaseOption = None,
    reviewer: ReviewerOption = None,
    note: NoteOption = "",
) -> None:
    """Withhold the proposal (for an effect of which nobody knows: it did not happen)."""
    _decide(database, item_id, reviewer, verdict=Verdict.REJECT, note=note)


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
    _decide(
        database,
        item_id,
        reviewer,
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
    _decide(database, item_id, reviewer, verdict=Verdict.RESPOND, answer=text, note=note)


@app.command("expire")
def expire(database: DatabaseOption = None) -> None:
    """Bring every item whose time is up to its safe end."""
    expired = _queue(database).expire_due()
    for item in expired:
        typer.echo(f"{printable(item.id, 100)} {item.on_expiry.value}")
    typer.echo(f"{len(expired)} expired")


def parse_arguments(text: str) -> dict[str, Any]:
    """Tool arguments from JSON, every type kept.

    Raises:
        BadInput: not one JSON object, a key twice, or NaN or an infinity.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError(f"a key appears twice among {[key for key, _ in pairs]}")
        return dict(pairs)

    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not JSON")

    try:
        value = json.loads(text, object_pairs_hook=once, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the arguments are not JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadInput(f"the arguments must be a JSON object such as {{}}, not {printable(text, 100)!r}")
    return value


def _ask(queue: ReviewQueue, item: ReviewItem, reviewer: str) -> str:
    """Ask until something was decided: "decided", "skip", "quit" or "lost"."""
    while True:
        choices = "a/r/s/q" if item.kind is ReviewKind.EFFECT_UNKNOWN else "a/e/r/s/q"
        said = typer.prompt(f"[a]pprove, [e]dit, [r]eject, [s]kip, [q]uit ({choices})").strip().lower()
        if said in ("q", "quit"):
            return "quit"
        if said in ("s", "skip"):
            return "skip"
        try:
            parts = _parts(item, said)
            if parts is None:
                continue
            _resolve(queue, item, reviewer, parts)
            return "decided"
        except (LeaseLost, StaleItem) as error:
            typer.echo(printable(str(error)))
            return "lost"
        except BadInput as error:
            typer.echo(printable(str(error)))


def _parts(item: ReviewItem, said: str) -> dict[str, Any] | None:
    if said in ("a", "approve"):
        return {"verdict": Verdict.APPROVE}
    if said in ("r", "reject"):
        return {
            "verdict": Verdict.REJECT,
            "note": typer.prompt("why (the caller is told)", default="", show_default=False),
        }
    if said not in ("e", "edit"):
        return None
    if item.call.kind is CallKind.TOOL:
        return {
            "verdict": Verdict.EDIT,
            "arguments": parse_arguments(typer.prompt("arguments (JSON object, one line)")),
        }
    return {"verdict": Verdict.EDIT, "answer": typer.prompt("the right answer")}


def _decide(database: str | None, item_id: str, reviewer: str | None, **parts: Any) -> None:
    """Claim, decide; an item that was claimed only for this is given back where the decision is refused."""
    queue, name = _queue(database), _reviewer(reviewer)
    before = _must_get(queue, item_id)
    if before.state is ReviewState.RESOLVED:
        _resolve(queue, before, name, parts)  # the same decision again is fine, another one is refused
        return
    item = queue.claim(name, item_id=item_id)
    if item is None:
        held = f", leased to {before.lease_owner!r}" if before.state is ReviewState.CLAIMED else ""
        raise StaleItem(f"review item {item_id!r} is {before.state}{held}; it cannot be decided now")
    try:
        _resolve(queue, item, name, parts)
    except DemurError:
        if before.state is ReviewState.OPEN:
            _quietly(lambda: queue.release(item_id, name))
        raise


def _resolve(queue: ReviewQueue, item: ReviewItem, reviewer: str, parts: dict[str, Any]) -> None:
    try:
        resolution = Resolution(reviewer=reviewer, resolved_at=queue.clock.now(), **parts)
    except ValidationError as error:
        raise BadInput("; ".join(each["msg"] for each in error.errors(include_input=False))) from error
    queue.resolve(item.id, resolution, version=item.version)
    typer.echo(f"{printable(item.id, 100)} {resolution.verdict.value}: stored")


def _quietly(give_back: Callable[[], Any]) -> None:
    """Give a lease back; where that fails it runs out by itself."""
    try:
        give_back()
    except DemurError as error:
        typer.echo(printable(str(error)), err=True)


def _queue(database: str | None) -> ReviewQueue:
    settings = Settings.load()
    store = existing(database if database is not None else settings.database)
    return ReviewQueue(store, SystemClock(), lease_seconds=settings.review.lease_seconds)


def _must_get(queue: ReviewQueue, item_id: str) -> ReviewItem:
    item = queue.get(item_id)
    if item is None:
        raise BadInput(f"there is no review item {item_id!r}")
    return item


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
