"""`demur review next`: through the queue entry by entry, and through a conversation call by call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from ...core.review_item import ReviewItem
from ...review.queue import ReviewQueue
from .review_deciding import ask, give_back
from .review_panel import panel_of


def work_through(
    queue: ReviewQueue, reviewer: str, show: Callable[[Any], None], *, tenant: str | None, task: str | None
) -> None:
    """Claim the most urgent entry, show its items one after another, ask about each; again until none is left.

    What was skipped stays leased until the end, so that the next claim gives something else, and is then given back.
    """
    skipped: list[ReviewItem] = []
    held: list[ReviewItem] = []
    try:
        while (item := queue.claim(reviewer, tenant=tenant, task=task)) is not None:
            held.append(item)
            if not _conversation(queue, item, reviewer, show, task, skipped):
                return
        typer.echo("Nothing is waiting." if not skipped else f"Nothing else is waiting ({len(skipped)} skipped).")
    finally:
        for each in held:
            give_back(queue, queue.conversation(each), reviewer)


def _conversation(
    queue: ReviewQueue,
    claimed: ReviewItem,
    reviewer: str,
    show: Callable[[Any], None],
    task: str | None,
    skipped: list[ReviewItem],
) -> bool:
    """Ask about every item of a conversation, oldest first, those that arrive meanwhile included; False to stop."""
    seen: set[str] = set()
    while True:
        left = [each for each in queue.conversation(claimed) if each.id not in seen and task in (None, each.call.task)]
        if not left:
            return True
        fresh = not seen and left[0].id == claimed.id
        seen.add(left[0].id)
        # Anew: its present version, and the full lease for what takes a while to read.
        item = claimed if fresh else queue.claim(reviewer, item_id=left[0].id)
        if item is None:
            continue  # another has it by now, or its time is up
        total = len(seen) + len(left) - 1
        place = f"{len(seen)} of {total}" if total > 1 else ""
        show(panel_of(item, context=queue.context(item), place=place))
        said = ask(queue, item, reviewer)
        if said == "quit":
            return False
        if said == "skip":
            skipped.append(item)
