"""What became of calls that the agent was told to wait for: said to the model beside its next turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain.agents.middleware.types import ModelRequest
from langchain_core.messages import SystemMessage, ToolMessage

from ...core.record import canonical_json
from ...core.review_item import Resolution, ReviewItem, ReviewKind, ReviewState, Verdict
from ...core.run import Run, RunState
from ...core.text import limited
from ...router.router import Router
from .messages import STAMP

_MOST = 5
"""Reviews that are looked up for one turn, the newest."""


def with_news(router: Router, request: ModelRequest[Any]) -> ModelRequest[Any]:
    """The request, its system text followed by what was decided meanwhile; nothing of it enters the conversation."""
    said = [text for run_id in _waiting(request.messages) if (text := news_of(router, run_id))]
    if not said:
        return request
    before = request.system_message
    parts = [*([str(before.text)] if before is not None else []), "Reviews that have ended meanwhile:", *said]
    return request.override(system_message=SystemMessage("\n".join(parts)))


def _waiting(messages: Sequence[Any]) -> list[str]:
    """Runs of which the newest word is that they wait."""
    newest: dict[str, str] = {}
    for message in messages:
        stamp = message.response_metadata.get(STAMP) if isinstance(message, ToolMessage) else None
        if isinstance(stamp, dict) and stamp.get("run_id") and stamp.get("review_id"):
            newest.pop(stamp["run_id"], None)
            newest[stamp["run_id"]] = str(stamp.get("route"))
    return [run_id for run_id, route in newest.items() if route == "defer"][-_MOST:]


def news_of(router: Router, run_id: str) -> str | None:
    """One line about a run that was deferred: what was decided, and what truly came of it; None while it waits.

    "Carried out" is said only where it was: a call that was let through may wait to be carried out, be at work, fail,
    be too late, wait anew because an edit made another call of it, or have ended nobody knows how.
    """
    run = router.log.get(run_id)
    first = next((item for item in router.queue.of_run(run_id) if item.kind is ReviewKind.DEFERRED), None)
    if run is None or first is None or first.state not in (ReviewState.RESOLVED, ReviewState.EXPIRED):
        return None
    what = f"- Review {first.id} of {_call(first.call.tool_name, first.call.arguments)}"
    became, item = run, first
    while (child := _child(router, became)) is not None:  # an edit made another call of it, gated on its own
        was = item.resolution
        if was is not None:
            what += f", which a person changed into {_call(was.tool_name, was.arguments)}"
        became = child
        asked = next((each for each in router.queue.of_run(child.id) if each.kind is ReviewKind.DEFERRED), None)
        if asked is None:
            return f"{what}: {_came_of(became, None)}"
        item = asked
    if item.state not in (ReviewState.RESOLVED, ReviewState.EXPIRED):
        return f"{what}: that waits anew, as review {item.id}. Nothing is carried out yet; tell the user so."
    return f"{what}: {_decided(item, became)}"


def _child(router: Router, run: Run) -> Run | None:
    """The run of the call that an edit made of this one; one that failed before anything happened counts for nothing
    while its parent waits to be carried out."""
    child = router.log.child_of(run.id)
    if child is not None and child.state is RunState.FAILED and run.state is RunState.WAITING:
        return None
    return child


def _decided(item: ReviewItem, run: Run) -> str:
    resolution = item.resolution
    if resolution is None:
        return "nobody decided in time; it is not carried out."
    if resolution.verdict is Verdict.RESPOND:
        return f"answered by a person, and not carried out: {limited(resolution.answer or '', 1000)}"
    if resolution.verdict is Verdict.REJECT:
        why = f" ({limited(resolution.note, 500)})" if resolution.note else ""
        return f"rejected{why}; it is not carried out."
    return _came_of(run, resolution if resolution.verdict is Verdict.EDIT else None)


def _came_of(run: Run, edit: Resolution | None) -> str:
    """What became of a call that was let through."""
    through = "let through"
    again = "Call it once more with the same arguments; it is carried out then, once."
    if edit is not None:
        through += f", changed into {_call(edit.tool_name or run.call.tool_name, edit.arguments)}"
        again = "Call it once more with the arguments that it had; it is carried out as changed then, once."
        if edit.tool_name not in (None, run.call.tool_name):
            again = "Call it once more with the arguments that it had; what it was changed into is gated then."
    said = limited(run.error or (run.result.reason if run.result is not None else ""), 500)
    why = f": {said}" if said else ""
    if run.state is RunState.WAITING:
        return f"{through}. {again}"
    if run.state is RunState.OPEN:
        return f"{through}. It is being carried out, and how it ends is not known yet. Do not call it again."
    if run.state is RunState.UNKNOWN:
        return f"{through} and begun. It is not known whether it happened; a person finds out. Do not call it again."
    if run.state is RunState.FAILED:
        return f"{through}, but it failed{why}"
    if run.result is not None and run.result.delivered:
        return f"{through} and carried out."
    return f"{through}, but not carried out{why}"


def _call(name: str | None, arguments: Mapping[str, Any] | None) -> str:
    return f"{name}({limited(canonical_json(dict(arguments or {})), 500)})"
