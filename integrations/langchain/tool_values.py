"""What a tool returned, as JSON under its key and back: a replay gives the same message without running the tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.types import Command

_MARK = "demur_tool_message"


def to_json(value: Any) -> Any:
    """The tool's message as a plain dict. A `Command` cannot be kept: it is told of by its message only."""
    message = _message_of(value)
    if message is None:
        return value
    whole = isinstance(value, ToolMessage)
    return {_MARK: {"content": message.content, "status": message.status, "whole": whole}}


def from_json(value: Any, call: Mapping[str, Any]) -> ToolMessage:
    """The message that a stored value stands for; a reviewer's own text is one as well."""
    kept = value.get(_MARK) if isinstance(value, Mapping) else None
    if isinstance(kept, Mapping):
        content, status = kept["content"], kept["status"]
        if not kept.get("whole", True):
            content = f"{content}\n(Carried out before; its update of the state is not repeated.)"
    elif value is None:
        content, status = "It was carried out before; what it returned is not known.", "success"
    else:
        content, status = value if isinstance(value, str) else str(getattr(value, "text", value)), "success"
    return ToolMessage(content=content, status=status, name=call["name"], tool_call_id=call["id"])


def _message_of(value: Any) -> ToolMessage | None:
    if isinstance(value, ToolMessage):
        return value
    if isinstance(value, Command) and isinstance(value.update, Mapping):
        messages = value.update.get("messages") or []
        found = [each for each in messages if isinstance(each, ToolMessage)] if isinstance(messages, list) else []
        return found[-1] if found else ToolMessage(content="", tool_call_id="")
    return None
