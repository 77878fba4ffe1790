"""What a human has already said at LangChain's own gate about a call that is about to run: nobody is asked twice.

`HumanInTheLoopMiddleware` leaves no trace of an approval in the state, but the checkpoint at which it paused holds
its question and the answer. Only that counts: a gate that another middleware jumped over has asked nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from langchain.agents.middleware.types import ToolCallRequest

from .scores import digest

_INTERRUPT, _RESUME, _CHECKPOINTER = "__interrupt__", "__resume__", "__pregel_checkpointer"
_SCRATCHPAD = "__pregel_scratchpad"
_FURTHEST = 20
"""Checkpoints that are looked at: the steps between the model's turn and its tools."""


@dataclass(frozen=True)
class Approval:
    """A human let this very call through.

    Attributes:
        reviewer: which gate says so.
    """

    reviewer: str


def approved_elsewhere(request: ToolCallRequest) -> Approval | None:
    """The approval (or the edit that made the call what it is), or None."""
    saver, config = _saver(request)
    if saver is None:
        return None
    for _ in range(_FURTHEST):
        found = saver.get_tuple(config)
        if found is None:
            return None
        if _approves(found, request.tool_call) or _just_approved(found, request):
            return Approval("HumanInTheLoopMiddleware")
        if found.parent_config is None or not _has_turn(found, request.tool_call):
            return None
        config = found.parent_config
    return None


async def aapproved_elsewhere(request: ToolCallRequest) -> Approval | None:
    """The async twin."""
    saver, config = _saver(request)
    if saver is None:
        return None
    for _ in range(_FURTHEST):
        found = await saver.aget_tuple(config)
        if found is None:
            return None
        if _approves(found, request.tool_call) or _just_approved(found, request):
            return Approval("HumanInTheLoopMiddleware")
        if found.parent_config is None or not _has_turn(found, request.tool_call):
            return None
        config = found.parent_config
    return None


def _saver(request: ToolCallRequest) -> tuple[Any, Any]:
    configurable = (request.runtime.config or {}).get("configurable") or {}
    kept = {key: configurable[key] for key in ("thread_id", "checkpoint_id") if configurable.get(key) is not None}
    # The node's own namespace is that of its task; the graph's checkpoints lie one level up.
    namespace = str(configurable.get("checkpoint_ns", "")).rpartition("|")[0]
    saver = configurable.get(_CHECKPOINTER)
    usable = saver is not None and hasattr(saver, "get_tuple") and "thread_id" in kept
    return (saver if usable else None), {"configurable": {**kept, "checkpoint_ns": namespace}}


def _has_turn(found: Any, call: Mapping[str, Any]) -> bool:
    """Is the model's turn with this call in the checkpoint's state? Before it nobody can have been asked about it."""
    messages = (found.checkpoint.get("channel_values") or {}).get("messages") or []
    return any(
        each.get("id") == call["id"] for message in messages for each in getattr(message, "tool_calls", None) or ()
    )


def _approves(found: Any, call: Mapping[str, Any]) -> bool:
    writes: list[tuple[str, str, Any]] = list(found.pending_writes or ())
    for task, channel, value in writes:
        if channel != _INTERRUPT:
            continue
        answers = [given for other, name, given in writes if other == task and name == _RESUME]
        questions = [each.value for each in _interrupts(value)]
        for answer in answers:
            given = answer if isinstance(answer, list) else [answer]
            if any(_lets_through(q, a, call) for q, a in zip(questions, given, strict=False)):
                return True
    return False


def _just_approved(found: Any, request: ToolCallRequest) -> bool:
    """A gate around this one asked about this very call, in this very task; its answer is not in a checkpoint yet."""
    pad = ((request.runtime.config or {}).get("configurable") or {}).get(_SCRATCHPAD)
    answers = list(getattr(pad, "resume", None) or ())
    asked = [
        each for _, channel, value in found.pending_writes or () if channel == _INTERRUPT for each in _interrupts(value)
    ]
    mine = [each.value for each in asked if isinstance(each.value, Mapping)]
    mine = [each for each in mine if each.get("tool_call_id") == request.tool_call["id"]]
    return any(_lets_through(question, answer, request.tool_call) for question in mine for answer in answers[:1])


def _interrupts(value: Any) -> Iterator[Any]:
    for each in value if isinstance(value, list | tuple) else [value]:
        if hasattr(each, "value"):
            yield each


def _lets_through(question: Any, answer: Any, call: Mapping[str, Any]) -> bool:
    """Does the answer to LangChain's question (batched, or one per call) let this call run as it stands?"""
    if not isinstance(question, Mapping) or not isinstance(answer, Mapping) or "demur" in question:
        return False
    wanted = digest(call["name"], call["args"])
    if question.get("type") == "tool_approval":
        return question.get("tool_call_id") == call["id"] and _allows(question, answer, wanted)
    requests, decisions = question.get("action_requests"), answer.get("decisions")
    if not isinstance(requests, list) or not isinstance(decisions, list):
        return False
    return any(_allows(asked, decided, wanted) for asked, decided in zip(requests, decisions, strict=False))


def _allows(asked: Any, decided: Any, wanted: str) -> bool:
    if not isinstance(asked, Mapping) or not isinstance(decided, Mapping):
        return False
    if decided.get("type") == "approve":
        return digest(str(asked.get("name")), asked.get("args") or {}) == wanted
    action = decided.get("edited_action")
    if decided.get("type") == "edit" and isinstance(action, Mapping) and action.get("name") == asked.get("name"):
        # Into another tool it is a call of its own, and that tool's policy is asked (fault 3).
        return digest(str(action.get("name")), action.get("args") or {}) == wanted
    return False
