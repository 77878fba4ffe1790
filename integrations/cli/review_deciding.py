"""Deciding items from the terminal: what is asked, what is understood, and what is given back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import typer
from pydantic import ValidationError

from ...core.call import CallKind
from ...core.errors import BadInput, DemurError, LeaseLost, StaleItem
from ...core.review_item import Resolution, ReviewItem, ReviewKind, ReviewState, Verdict
from ...core.text import printable
from ...review.queue import ReviewQueue


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


def ask(queue: ReviewQueue, item: ReviewItem, reviewer: str) -> str:
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


def decide(queue: ReviewQueue, item_id: str, name: str, **parts: Any) -> None:
    """Claim and decide one item. What was claimed only for this, of its conversation too, is given back at the end."""
    before = must_get(queue, item_id)
    if before.state is ReviewState.RESOLVED:
        _resolve(queue, before, name, parts)  # the same decision again is fine, another one is refused
        return
    held = any(each.lease_owner == name for each in queue.conversation(before))
    item = queue.claim(name, item_id=item_id)
    if item is None:
        siblings = [before, *queue.conversation(before)]
        holder = next((each.lease_owner for each in siblings if each.lease_owner not in (None, name)), None)
        by = "" if holder is None else f", leased to {holder!r} with its conversation"
        raise StaleItem(f"review item {item_id!r} is {before.state}{by}; it cannot be decided now")
    try:
        _resolve(queue, item, name, parts)
    finally:
        if not held:
            give_back(queue, queue.conversation(item), name)


def _resolve(queue: ReviewQueue, item: ReviewItem, reviewer: str, parts: dict[str, Any]) -> None:
    try:
        resolution = Resolution(reviewer=reviewer, resolved_at=queue.clock.now(), **parts)
    except ValidationError as error:
        raise BadInput("; ".join(each["msg"] for each in error.errors(include_input=False))) from error
    queue.resolve(item.id, resolution, version=item.version)
    typer.echo(f"{printable(item.id, 100)} {resolution.verdict.value}: stored")


def must_get(queue: ReviewQueue, item_id: str) -> ReviewItem:
    """The item.

    Raises:
        BadInput: there is none.
    """
    item = queue.get(item_id)
    if item is None:
        raise BadInput(f"there is no review item {item_id!r}")
    return item


def give_back(queue: ReviewQueue, items: Iterable[ReviewItem], reviewer: str) -> None:
    """Give back those that the reviewer still holds; where that fails, the lease runs out by itself."""
    for item in items:
        try:
            now = queue.get(item.id)
            if now is not None and now.state is ReviewState.CLAIMED and now.lease_owner == reviewer:
                queue.release(item.id, reviewer)
        except DemurError as error:
            typer.echo(printable(str(error)), err=True)
