"""What the end user is told while a call waits for a human, and when waiting ends without an answer."""

from __future__ import annotations

import string
from typing import Any, Protocol

from ..core.review_item import ReviewState, Verdict
from ..core.run import Result, RunState
from ..review.queue import ReviewQueue

PLACES = ("review_id", "run_id")


class Texts(Protocol):
    """The four texts, with `{review_id}` and `{run_id}` in them."""

    @property
    def message(self) -> str: ...

    @property
    def abstained(self) -> str: ...

    @property
    def rejected(self) -> str: ...

    @property
    def expired(self) -> str: ...


def check_places(text: str) -> str:
    """The text itself, if nothing but `{review_id}` and `{run_id}` stands in its braces.

    Raises:
        ValueError: something else does.
    """
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError as error:
        raise ValueError(f"{error}; a brace of its own is written twice: {{{{ or }}}}") from error
    for _, place, spec, conversion in parts:
        if place is not None and (place not in PLACES or spec or conversion):
            raise ValueError(f"{{{place}}} has no meaning here; only {{review_id}} and {{run_id}} may stand in braces")
    return text


def message_for(result: Result[Any], texts: Texts, queue: ReviewQueue) -> str | None:
    """The text for a result, or None where it delivers, or failed (then there is an error to tell of)."""
    if result.delivered or result.state is RunState.FAILED:
        return None
    text = texts.message
    if result.state is RunState.DONE:
        text = {"rejected": texts.rejected, "expired": texts.expired}.get(_how_it_ended(result, queue), texts.abstained)
    return text.format(review_id=result.review_id or "", run_id=result.run_id)


def _how_it_ended(result: Result[Any], queue: ReviewQueue) -> str:
    item = None if result.review_id is None else queue.get(result.review_id)
    if item is None:
        return "abstained"
    if item.state is ReviewState.EXPIRED:
        return "expired"
    refused = item.resolution is not None and item.resolution.verdict is Verdict.REJECT
    return "rejected" if refused else "abstained"
