"""LangChain messages as the dictionaries that chat templates read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage

from ...core.errors import BadInput

_SAID_TWICE = frozenset({"tool_use", "tool_call", "tool_call_chunk", "function_call"})
"""Blocks of an AI message that repeat its `tool_calls`."""


def template_messages(messages: Sequence[BaseMessage], *, system: str | None = None) -> list[dict[str, Any]]:
    """{"role", "content", "tool_calls"?, "name"?, "tool_call_id"?} of each message.

    Ids of calls are numbered anew ("call00001", ...): the random ones must not change what a model answers.

    Args:
        system: comes first, joined with a system message that stands there.

    Raises:
        BadInput: a kind of message, or a content block, that a template cannot write.
    """
    numbers: dict[str, tuple[str, str]] = {}
    found = [_one(message, numbers) for message in messages]
    if system:
        if found and found[0]["role"] == "system":
            found[0]["content"] = f"{system}\n\n{found[0]['content']}"
        else:
            found.insert(0, {"role": "system", "content": system})
    return found


def _one(message: BaseMessage, numbers: dict[str, tuple[str, str]]) -> dict[str, Any]:
    if isinstance(message, AIMessage):
        return _from_ai(message, numbers)
    content = _text(message, frozenset())
    if isinstance(message, SystemMessage):
        return {"role": "system", "content": content}
    if isinstance(message, HumanMessage):
        return {"role": "user", "content": content}
    if isinstance(message, ToolMessage):
        number, name = numbers.get(message.tool_call_id, (None, None))
        given = {"name": message.name or name, "tool_call_id": number}
        return {"role": "tool", "content": content} | {k: v for k, v in given.items() if v is not None}
    if isinstance(message, ChatMessage) and message.role in ("system", "user", "assistant"):
        return {"role": message.role, "content": content}
    role = f" with the role {message.role!r}" if isinstance(message, ChatMessage) else ""
    raise BadInput(
        f"a {type(message).__name__}{role} cannot be written by a chat template; "
        "use SystemMessage, HumanMessage, AIMessage or ToolMessage"
    )


def _from_ai(message: AIMessage, numbers: dict[str, tuple[str, str]]) -> dict[str, Any]:
    content = _text(message, _SAID_TWICE if message.tool_calls else frozenset())
    # What could not be run is shown to the model as it wrote it.
    attempts = [call["args"] for call in message.invalid_tool_calls if call.get("args")]
    written: dict[str, Any] = {"role": "assistant", "content": "\n".join(filter(None, [content, *attempts]))}
    calls = []
    for call in message.tool_calls:
        number = f"call{len(numbers) + 1:05d}"  # nine letters and digits: Mistral's templates ask for exactly that
        numbers[call["id"] or number] = number, call["name"]
        calls.append(
            {
                "id": number,
                "type": "function",
                "function": {"name": call["name"], "arguments": _json(call["args"], call["name"])},
            }
        )
    return written | ({"tool_calls": calls} if calls else {})


def _json(arguments: dict[str, Any], name: str) -> dict[str, Any]:
    try:
        return json.loads(json.dumps(arguments, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"the arguments of the earlier call of {name!r} are not JSON: {error}") from None


def _text(message: BaseMessage, ignored: frozenset[str]) -> str:
    """The text of a message.

    Raises:
        BadInput: it holds an image, audio, a file or another block that is not text.
    """
    if isinstance(message.content, str):
        return message.content
    parts: list[str] = []
    for block in message.content:
        if isinstance(block, str):
            parts.append(block)
        elif block.get("type") == "text" and isinstance(block.get("text"), str):
            parts.append(block["text"])
        elif block.get("type") not in ignored:
            raise BadInput(
                f"a {type(message).__name__} holds a content block of type {block.get('type')!r}; "
                "this model reads only text blocks"
            )
    return "".join(parts)
