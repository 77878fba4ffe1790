"""What became of calls that the agent was told to wait for: said to the model beside its next turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain.agents.middleware.types import ModelRequest
from langchain_core.messages import SystemMessage, ToolMessage

from ...core.record import canonical_json
from ...core.review_item import ReviewItem, ReviewState, Verdict
from ...core.run import RunState
from ...core.text import limited
from ...router.router import Router
from .messages import STAMP

_MOST = 5
"""Reviews that are looked up for one turn, the newest."""


def with_news(router: Router, request: ModelRequest[Any]) -> ModelRequest[Any]:
    """The request, its system text followed by what was decided meanwhile; nothing of it enters the conversation."""
    said = [text for run_id in _waiting(request.messages) if (text := _news(router, run_id))]
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


def _news(router: Router, run_id: str) -> str | None:
    items = router.queue.of_run(run_id)
    run = router.log.get(run_id)
    if not items or run is None or items[0].state not in (ReviewState.RESOLVED, ReviewState.EXPIRED):
        return None
    return _sentence(items[0], run.state)


def _sentence(item: ReviewItem, state: RunState) -> str:
    resolution = item.resolution
    what = f"- Review {item.id} of {item.call.tool_name}({limited(canonical_json(item.call.arguments), 500)})"
    if resolution is None:
        return f"{what}: nobody decided in time; it is not carried out."
    if resolution.verdict in (Verdict.APPROVE, Verdict.EDIT):
        if state is RunState.WAITING:
            return f"{what}: let through. Call it once more with the same arguments; it is carried out then, once."
        return f"{what}: let through and carried out."
    if resolution.verdict is Verdict.RESPOND:
        return f"{what}: answered by a person: {limited(resolution.answer or '', 1000)}"
    return f"{what}: rejected{f' ({limited(resolution.note, 500)})' if resolution.note else ''}; it is not carried out."
