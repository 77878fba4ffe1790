"""A LangChain chat model that answers by script, tool calls and streaming included."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from pydantic import Field, PrivateAttr

from ..core.errors import BadInput

Turn = str | AIMessage | BaseException


class ScriptedChatModel(BaseChatModel):
    """Gives its turns one after another; the same for agents that call tools.

    Args:
        turns: a text, a message (`call_tool` makes one with a tool call), or an exception, which is raised.
        name_of_model: as it stands in the messages' `model_name`.

    Attributes:
        asked: the messages of every call so far.
        tools_seen: the names of the tools that were bound.
    """

    turns: Sequence[Any]
    name_of_model: str = "scripted"
    asked: list[list[BaseMessage]] = Field(default_factory=list)
    tools_seen: list[str] = Field(default_factory=list)
    _next: list[int] = PrivateAttr(default_factory=lambda: [0])

    @staticmethod
    def call_tool(name: str, arguments: dict[str, Any] | None = None, *, id: str | None = None) -> AIMessage:
        """A turn that proposes one tool call."""
        call = {"name": name, "args": dict(arguments or {}), "id": id or f"call_{name}", "type": "tool_call"}
        return AIMessage(content="", tool_calls=[call])

    @property
    def _llm_type(self) -> str:
        return "demur-scripted"

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return {"ls_provider": "demur", "ls_model_name": self.name_of_model, "ls_model_type": "chat"}

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[Any, AIMessage]:
        """Remembers the tools' names; the script says what is called."""
        self.tools_seen[:] = [str(getattr(tool, "name", getattr(tool, "__name__", tool))) for tool in tools]
        return self.bind(**kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._turn(messages))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        """Word by word; a tool call in one piece."""
        message = self._turn(messages)
        words = str(message.text).split(" ")
        chunks = [
            AIMessageChunk(content=word if not at else f" {word}", id=message.id) for at, word in enumerate(words)
        ]
        calls = [
            tool_call_chunk(name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=at)
            for at, call in enumerate(message.tool_calls)
        ]
        chunks.append(
            AIMessageChunk(
                content="",
                id=message.id,
                tool_call_chunks=calls,
                response_metadata=message.response_metadata,
                usage_metadata=message.usage_metadata,
            )
        )
        for chunk in chunks:
            if run_manager is not None:
                run_manager.on_llm_new_token(str(chunk.content), chunk=ChatGenerationChunk(message=chunk))
            yield ChatGenerationChunk(message=chunk)

    def _turn(self, messages: list[BaseMessage]) -> AIMessage:
        number = self._next[0]
        self._next[0] += 1
        self.asked.append(list(messages))
        if number >= len(self.turns):
            raise BadInput(f"the chat model was asked {number + 1} times and its script has {len(self.turns)} turns")
        turn: Turn = self.turns[number]
        if isinstance(turn, BaseException):
            raise turn
        message = AIMessage(turn) if isinstance(turn, str) else turn
        words = len(str(message.text).split()) + len(message.tool_calls)
        usage = {"input_tokens": len(messages), "output_tokens": words, "total_tokens": len(messages) + words}
        return message.model_copy(
            update={
                "usage_metadata": message.usage_metadata or usage,
                "response_metadata": {"model_name": self.name_of_model, **message.response_metadata},
            }
        )
