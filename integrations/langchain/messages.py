"""LangChain's messages as a call's, and Demur's words as LangChain messages."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, SystemMessage, ToolMessage

from ...core.call import Message
from ...core.record import canonical_json
from ...core.run import Result
from ...core.text import storable

STAMP = "demur"
"""Where a message carries its verdict: `message.response_metadata["demur"]`."""

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}


def call_messages(messages: Sequence[AnyMessage], system: SystemMessage | None) -> tuple[Message, ...]:
    """The conversation as text; of a turn that calls tools, the calls."""
    found = [*([system] if system is not None else []), *messages]
    return tuple(Message(role=_role(each), content=_content(each)) for each in found)  # type: ignore[arg-type]


def _role(message: BaseMessage) -> str:
    return _ROLES.get(message.type, "user")


def _content(message: BaseMessage) -> str:
    text = str(message.text)
    if isinstance(message, AIMessage) and message.tool_calls:
        calls = [{"name": call["name"], "arguments": call["args"]} for call in message.tool_calls]
        try:
            text = f"{text}\n{canonical_json(calls)}".strip()
        except (TypeError, ValueError):
            text = f"{text}\n{calls!r}".strip()
    return storable(text)


def fresh_id() -> str:
    """An id that no stream has seen: a message that keeps its old one is not emitted again."""
    return f"demur-{uuid.uuid4().hex}"


def stamp(result: Result[Any]) -> dict[str, Any]:
    """What is said beside a message. Plain values, whole: put on one finished message, never on chunks."""
    confidence = result.confidence
    return {
        "route": result.route.value,
        "recommended": result.recommended.value,
        "confidence": None if confidence is None or confidence.is_prior else float(confidence.value),
        "mode": result.mode.value,
        "run_id": result.run_id,
        "response_id": result.response_id,
        "review_id": result.review_id,
        "reason": result.reason,
    }


def stamped(message: Any, result: Result[Any], *, id: str | None = None) -> Any:
    """A copy of the message with its verdict; under another id where one is given."""
    update: dict[str, Any] = {"response_metadata": {**message.response_metadata, STAMP: stamp(result)}}
    if id is not None:
        update["id"] = id
    return message.model_copy(update=update)


def plain_answer(text: str, result: Result[Any], *, name: str | None = None, id: str | None = None) -> AIMessage:
    """A message of Demur's own: no tool calls, so that the agent's loop can end on it."""
    return AIMessage(content=text, id=id or fresh_id(), name=name, response_metadata={STAMP: stamp(result)})


def tool_answer(
    call: Any, text: str, *, failed: bool, result: Result[Any] | None = None, id: str | None = None
) -> ToolMessage:
    """What the model gets instead of the tool's result."""
    return ToolMessage(
        content=text,
        name=call["name"],
        tool_call_id=call["id"],
        status="error" if failed else "success",
        response_metadata={} if result is None else {STAMP: stamp(result)},
        id=id,
    )


def last_turn(messages: Sequence[AnyMessage]) -> tuple[AIMessage | None, list[ToolMessage]]:
    """The newest message of the model, and the tool messages after it."""
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if isinstance(message, AIMessage):
            return message, [each for each in messages[at + 1 :] if isinstance(each, ToolMessage)]
    return None, []


def unanswered(message: AIMessage, after: Sequence[BaseMessage]) -> list[Any]:
    """The tool calls that nothing has answered yet."""
    answered = {each.tool_call_id for each in after if isinstance(each, ToolMessage)}
    return [call for call in message.tool_calls if call["id"] not in answered]


def with_unique_ids(message: AIMessage) -> AIMessage:
    """The message, its tool calls told apart: a missing or repeated id would make two calls one."""
    seen: set[str] = set()
    calls: list[Any] = []
    for at, call in enumerate(message.tool_calls):
        wanted = call.get("id") or f"{message.id or 'call'}-{at}"
        unique, number = wanted, 2
        while unique in seen:
            unique, number = f"{wanted}~{number}", number + 1
        seen.add(unique)
        calls.append(call if call.get("id") == unique else {**call, "id": unique})
    if calls == message.tool_calls:
        return message
    # What a provider keeps beside the calls would bring the old ids back.
    extra = {key: value for key, value in message.additional_kwargs.items() if key != "tool_calls"}
    return message.model_copy(update={"tool_calls": calls, "additional_kwargs": extra})
