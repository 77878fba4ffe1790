"""A call: one question to a model or one proposed use of a tool."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from .record import JsonObject, Record, new_id


class CallKind(StrEnum):
    """What is being wrapped."""

    LLM = "llm"
    TOOL = "tool"


class SideEffects(StrEnum):
    """What carrying the call out does to the world."""

    NONE = "none"
    REVERSIBLE = "reversible"
    IRREVERSIBLE = "irreversible"


class Message(Record):
    """One chat message. Its text is data: escaped where shown, never run."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str


class Call(Record):
    """What comes in at the door.

    Attributes:
        kind: `llm` (messages) or `tool` (tool_name and arguments).
        task: the population that shares a calibration, such as "triviaqa" or "refunds".
        tenant: whose call it is; stores never mix tenants.
        idempotency_key: the same key never has its effect twice.
        deadline: the moment (aware, UTC) after which an answer is worth nothing.
        tools: what the model is offered to call, in OpenAI's shape; for `llm` calls.
        metadata: JSON values for the caller's own use; never shown to a model.
    """

    id: str = Field(default_factory=lambda: new_id("call"))
    kind: CallKind = CallKind.LLM
    messages: tuple[Message, ...] = ()
    tool_name: str | None = Field(default=None, max_length=200)
    arguments: JsonObject = Field(default_factory=dict)
    tools: tuple[JsonObject, ...] = ()
    task: str = Field(default="default", min_length=1, max_length=200)
    tenant: str = Field(default="default", min_length=1, max_length=200)
    conversation_id: str | None = Field(default=None, max_length=200)
    side_effects: SideEffects = SideEffects.NONE
    idempotency_key: str | None = Field(default=None, min_length=1, max_length=200)
    deadline: datetime | None = None
    metadata: JsonObject = Field(default_factory=dict)

    @field_validator("deadline")
    @classmethod
    def _aware(cls, value: datetime | None) -> datetime | None:
        if value is not None and value.tzinfo is None:
            raise ValueError(f"deadline {value} has no time zone; use datetime.now(UTC) + timedelta(...)")
        return value

    @model_validator(mode="after")
    def _kind_has_its_parts(self) -> Call:
        if self.kind is CallKind.TOOL and not self.tool_name:
            raise ValueError("a tool call needs tool_name; give the name of the tool that would run")
        if self.kind is CallKind.LLM and self.tool_name:
            raise ValueError(f"an llm call has tool_name={self.tool_name!r}; use kind='tool'")
        return self

    @classmethod
    def ask(cls, question: str, *, system: str | None = None, **fields: Any) -> Call:
        """An `llm` call with one user message."""
        messages = (Message(role="user", content=question),)
        if system is not None:
            messages = (Message(role="system", content=system), *messages)
        return cls(kind=CallKind.LLM, messages=messages, **fields)

    @property
    def question(self) -> str:
        """The newest user message, or the tool call as `name(arguments)`."""
        if self.kind is CallKind.TOOL:
            return f"{self.tool_name}({self.arguments})"
        return next((m.content for m in reversed(self.messages) if m.role == "user"), "")
