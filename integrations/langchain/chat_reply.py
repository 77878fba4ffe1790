"""From what a model generated to LangChain's message, whole or as the last chunk of a stream."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.content import InvalidToolCall
from langchain_core.messages.tool import ToolCall as LangChainToolCall
from langchain_core.messages.tool import ToolCallChunk, invalid_tool_call, tool_call, tool_call_chunk
from langchain_core.utils.json import parse_partial_json

from ...core.protocols import Generation
from ...core.response import Response, TokenTrace, ToolCall
from ..models.langchain import STOPPED_EARLY
from .call_json import BrokenCall, WrittenCall
from .tool_text import ToolText, certain_content, read_tool_text


@dataclass(frozen=True)
class TurnReader:
    """Reads the text of one turn, finished or not.

    Attributes:
        tools: calls are looked for.
        opening: what was written for the model before its text began (see `tool_choice.Offer`).
        thinking: the prompt opened the model's reasoning.
    """

    tools: bool = False
    opening: str = ""
    thinking: bool = False

    def read(self, text: str) -> ToolText:
        """Content and calls; offsets count from the start of `text`."""
        if not self.tools:
            return ToolText(text)
        found = read_tool_text(self.opening + text, thinking=self.thinking)
        if not self.opening:
            return found
        if not found.calls:
            broken = BrokenCall(None, self.opening + text, "the model had to call a tool and wrote no call")
            return ToolText("", (broken,))
        shift = len(self.opening)
        moved = tuple(
            replace(call, start=max(call.start - shift, 0), end=max(call.end - shift, 0))
            if isinstance(call, WrittenCall)
            else call
            for call in found.calls
        )
        return ToolText(found.content, moved)

    def locate(self, text: str) -> list[tuple[int, int]]:
        """Where name and arguments of the calls stand; [] where there is no call."""
        span = self.read(text).span
        return [] if span is None else [span]

    def certain(self, text: str) -> int:
        """How much of an unfinished text is content for certain."""
        if not self.tools:
            return len(text)
        return 0 if self.opening else certain_content(text, thinking=self.thinking)


@dataclass(frozen=True)
class Reply:
    """One finished turn.

    Attributes:
        generation: its response has the message's id, its content as text, and its calls.
    """

    message_id: str
    generation: Generation
    calls: tuple[LangChainToolCall, ...]
    broken: tuple[InvalidToolCall, ...]
    metadata: dict[str, Any]

    @classmethod
    def of(cls, generation: Generation, reader: TurnReader, *, message_id: str, ends: frozenset[int]) -> Reply:
        """Read the turn. `ends` are the tokens that end one."""
        response = generation.response
        read = reader.read(response.text)
        calls, broken = [], []
        for found in read.calls:
            fresh = f"call_{uuid4().hex}"  # never the model's own: it may write the same one twice
            if isinstance(found, WrittenCall):
                calls.append(tool_call(name=found.name, args=found.arguments, id=fresh))
            else:
                broken.append(
                    invalid_tool_call(name=found.name, args=_not_mended(found.text), id=fresh, error=found.error)
                )
        metadata: dict[str, Any] = {
            "model_name": response.model,
            "finish_reason": _finish_reason(response, bool(calls)),
        }
        if response.stopped_early:
            metadata[STOPPED_EARLY] = response.stopped_early
        if response.trace is not None:
            metadata["logprobs"] = openai_logprobs(response.trace, ends)
        proposed = tuple(ToolCall(id=call["id"], name=call["name"], arguments=call["args"]) for call in calls)
        stored = response.model_copy(update={"id": message_id, "text": read.content, "tool_calls": proposed})
        return cls(message_id, replace(generation, response=stored), tuple(calls), tuple(broken), metadata)

    @property
    def usage(self) -> UsageMetadata:
        cost = self.generation.response.cost
        total = cost.tokens_in + cost.tokens_out
        return UsageMetadata(input_tokens=cost.tokens_in, output_tokens=cost.tokens_out, total_tokens=total)

    def message(self) -> AIMessage:
        """The turn as one message."""
        return AIMessage(
            content=self.generation.response.text,
            tool_calls=list(self.calls),
            invalid_tool_calls=list(self.broken),
            usage_metadata=self.usage,
            response_metadata=self.metadata,
            id=self.message_id,
        )

    def last_chunk(self, sent: int) -> AIMessageChunk:
        """What a stream still owes after `sent` characters of content: the rest, and everything that comes once."""
        chunks: list[ToolCallChunk] = [
            tool_call_chunk(name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=None)
            for call in self.calls
        ]
        chunks += [tool_call_chunk(name=b["name"], args=b["args"], id=b["id"], index=None) for b in self.broken]
        return AIMessageChunk(
            content=self.generation.response.text[sent:],
            tool_call_chunks=chunks,
            usage_metadata=self.usage,
            response_metadata=self.metadata,
            id=self.message_id,
            chunk_position="last",
        )


def _not_mended(text: str) -> str:
    """The text of a broken call so that LangChain leaves it broken.

    It completes what looks like unfinished JSON when chunks are added up, and would make a call of it. A JSON string
    with the text in it stays what it is.
    """
    try:
        mended = parse_partial_json(text) if text else {}
    except (ValueError, RecursionError):
        return text
    return json.dumps(text, ensure_ascii=False) if isinstance(mended, dict) else text


def openai_logprobs(trace: TokenTrace, ends: frozenset[int]) -> dict[str, Any]:
    """OpenAI's shape, in plain floats, strings and lists: {"content": [{token, bytes, logprob, top_logprobs}]}.

    The token that ends the turn is left out, as there.
    """
    count = len(trace.logprobs)
    if trace.ids and trace.ids[-1] in ends:
        count -= 1
    content = []
    for index in range(count):
        top = trace.top[index] if trace.top else ()
        content.append(
            _token(trace.tokens[index], trace.logprobs[index])
            | {"top_logprobs": [_token(token.token, token.logprob) for token in top]}
        )
    return {"content": content}


def _finish_reason(response: Response, calls: bool) -> str:
    if response.truncated:
        return STOPPED_EARLY if response.stopped_early else "length"
    return "tool_calls" if calls else "stop"


def _token(token: str, logprob: float | None) -> dict[str, Any]:
    # A token inside a character decodes to a replacement character; which bytes it was is not known any more.
    known = None if "\ufffd" in token else list(token.encode())
    return {"token": token, "bytes": known, "logprob": logprob}
