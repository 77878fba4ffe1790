"""Writes calls as the prompts of one model, and prompts as its tokens."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ....core.call import Call
from ....core.errors import BadInput, ConfigurationError, PromptTooLong
from ....core.evidence import Document
from ....core.record import content_hash
from .chat import ChatTemplate
from .prompt import PromptTemplate, chat_messages, cleaned, plain_prompt, render_chat, special_tokens
from .question import Question, question_span


@dataclass(frozen=True)
class PromptWriter:
    """How one model is asked.

    Attributes:
        name: of the model, for messages.
        chats: prompts are written with the tokenizer's chat template.
        system: system text put before every conversation.
        limit: most tokens that the model can read; None: no such limit.
        eos: tokens that end a turn.
    """

    name: str
    tokenizer: Any
    template: PromptTemplate
    chats: bool
    system: str | None
    limit: int | None
    eos: Collection[int]

    @cached_property
    def _special(self) -> list[str]:
        return special_tokens(self.tokenizer)

    @cached_property
    def _tool_template(self) -> ChatTemplate:
        template = ChatTemplate(self.tokenizer, name=self.name)
        template.require_tools()
        return template

    @property
    def hash(self) -> str:
        """SHA-256 of everything that shapes a prompt."""
        return content_hash(
            {
                "chat": getattr(self.tokenizer, "chat_template", None) if self.chats else None,
                "template": self.template.as_dict(),
                "system": self.system,
            }
        )

    def text(self, call: Call, documents: Sequence[Document] = ()) -> str:
        """The text that the model would read.

        Raises:
            BadInput: the call asks nothing.
            ConfigurationError: the call offers tools, and this model's prompts cannot.
        """
        safe, documents = cleaned(call, documents, self._special)
        if not self.chats:
            if call.tools:
                raise ConfigurationError(
                    f"{self.name} has no chat template: it cannot be offered tools; use a chat model"
                )
            return plain_prompt(safe, self.template, documents, self.system)
        messages = chat_messages(safe, self.template, documents, self.system)
        return self._tool_template.prompt(messages, call.tools) if call.tools else render_chat(self.tokenizer, messages)

    def encode(self, call: Call, documents: Sequence[Document], *, room: int) -> list[int]:
        """The tokens of a call's prompt; see `tokens`."""
        return self.tokens(self.text(call, documents), whose=f"call {call.id}", chat=self.chats, room=room)

    def tokens(self, text: str, *, whose: str, chat: bool, room: int) -> list[int]:
        """The tokens of a prompt.

        Args:
            chat: a chat template wrote it, with its own beginning-of-sequence token.
            room: tokens that have to fit behind it.

        Raises:
            BadInput: it has no tokens.
            PromptTooLong: prompt and answer do not fit the context.
        """
        ids = list(self.tokenizer(text, add_special_tokens=not chat, verbose=False)["input_ids"])
        if not chat and ids and ids[-1] in self.eos:
            ids.pop()  # some tokenizers close every text; then there would be nothing to go on from
        if not ids:
            raise BadInput(f"the prompt of {whose} has no tokens in the vocabulary of {self.name}")
        if self.limit is not None and len(ids) + room > self.limit:
            raise PromptTooLong(len(ids), self.limit)
        return ids

    def question(self, call: Call, documents: Sequence[Document]) -> Question:
        """Where the newest question's tokens are in the prompt."""
        asked, _ = cleaned(call, (), self._special)
        prompt, question = self.text(call, documents), asked.question.strip()
        if not question:
            return None
        # What stays the same at the end of the prompt when something else is asked is the template's.
        other = self.text(_asking(asked, "x" if question[-1] != "x" else "y", call.tools), documents)
        tail = _same_ending(prompt, other)
        return question_span(self.tokenizer, prompt, question, special=not self.chats, tail=tail)


def _asking(call: Call, question: str, tools: Sequence[Any]) -> Call:
    """The same conversation with another newest question."""
    messages = list(call.messages)
    last = max(place for place, message in enumerate(messages) if message.role == "user")
    messages[last] = messages[last].model_copy(update={"content": question})
    return call.model_copy(update={"messages": tuple(messages), "tools": tuple(tools)})


def _same_ending(one: str, other: str) -> int:
    """Length of the longest ending that two texts share."""
    count = 0
    while count < min(len(one), len(other)) and one[-1 - count] == other[-1 - count]:
        count += 1
    return count
