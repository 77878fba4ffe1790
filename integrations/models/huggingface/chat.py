"""Whole conversations through a model's own chat template: tools offered, tool calls made, results handed back."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from ....core.errors import BadInput, ConfigurationError
from .prompt import defuser, render_chat, special_tokens

# What templates write around turns, tools and results, whether or not the tokenizer has a token of its own for it.
_MARKER = re.compile(r"<\|[^\s<>|]{1,40}\|>|</?[A-Za-z][\w-]{1,40}>|\[/?[A-Z][A-Z_]{1,30}\]")

_PROBE_NAME, _PROBE_ARGUMENT, _PROBE_VALUE, _PROBE_RESULT = "probe_tool", "probe_argument", 48151, "probe result 7319"
_PROBE_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": _PROBE_NAME,
        "description": "A tool.",
        "parameters": {
            "type": "object",
            "properties": {_PROBE_ARGUMENT: {"type": "integer", "description": "A number."}},
            "required": [_PROBE_ARGUMENT],
        },
    },
}
_ASKED = [{"role": "user", "content": "A question."}]
_CALLED = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {
            "id": "call00001",
            "type": "function",
            "function": {"name": _PROBE_NAME, "arguments": {_PROBE_ARGUMENT: _PROBE_VALUE}},
        }
    ],
}
_ANSWERED = {"role": "tool", "name": _PROBE_NAME, "tool_call_id": "call00001", "content": _PROBE_RESULT}


class ChatTemplate:
    """Writes prompts with a tokenizer's chat template.

    All text in messages and tools is data: the control tokens of the tokenizer and the tags that the template writes
    are broken up in it, so it can neither end its turn nor pose as a tool's result.

    Args:
        options: switches of the template itself, such as {"enable_thinking": False}.

    Raises:
        ConfigurationError: the tokenizer has no chat template.
    """

    def __init__(self, tokenizer: Any, *, name: str, options: Mapping[str, Any] | None = None) -> None:
        template = getattr(tokenizer, "chat_template", None)
        if not template:
            raise ConfigurationError(f"the tokenizer of {name!r} has no chat template; use an instruction-tuned model")
        self._tokenizer = tokenizer
        self._name = name
        self._options = dict(options or {})
        if clash := self._options.keys() & {"tools", "tokenize", "add_generation_prompt", "chat_template"}:
            raise ConfigurationError(f"template options {sorted(clash)} are set here; leave them out")
        written = "\n".join(map(str, template.values())) if isinstance(template, dict) else str(template)
        self._special = special_tokens(tokenizer)
        self._defuse = defuser([*self._special, *_MARKER.findall(written)])

    def prompt(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()) -> str:
        """The conversation as text, with the model's turn opened.

        Args:
            messages: {"role", "content"}, with "tool_calls" [{"type": "function", "function": {"name", "arguments"}}]
                in the assistant's and "name" in the tools'.
            tools: in OpenAI's shape.

        Raises:
            BadInput: no messages, or the template refuses them.
        """
        if not messages:
            raise BadInput("there are no messages to answer")
        return self._render(self._defused(list(messages)), self._defused(list(tools)))

    def require_tools(self) -> None:
        """Raises ConfigurationError where the template does not write tools, calls or results."""
        if self._gap is not None:
            raise ConfigurationError(
                f"the chat template of {self._name!r} cannot be used with tools: {self._gap}. Use a model whose "
                "template supports tools (Qwen2.5, Llama 3.1, Hermes, ...), or ask without bind_tools"
            )

    def opening(self, name: str | None) -> str:
        """What the model writes first when it calls a tool: up to the tool's name, or with it into the arguments.

        Put behind a prompt it leaves the model nothing but to call.

        Args:
            name: the tool to call; None leaves it to the model.

        Raises:
            ConfigurationError: this template's calls have no such beginning.
        """
        opened = self._render(_ASKED, [_PROBE_TOOL])
        called = self._render([*_ASKED, _CALLED], [_PROBE_TOOL], add_generation_prompt=False)
        before, found, after = called[len(opened) :].partition(_PROBE_NAME)
        arguments = re.search(rf'\{{\s*"{_PROBE_ARGUMENT}"', after)
        if not called.startswith(opened) or not found or arguments is None:
            raise ConfigurationError(
                f"the chat template of {self._name!r} does not write calls in a way that can be begun for the model; "
                "use tool_choice='auto'"
            )
        if name is None:
            return before
        return before + json.dumps(name, ensure_ascii=False)[1:-1] + after[: arguments.start() + 1]

    def without_control(self, text: str) -> str:
        """`text` without control tokens, as decoding leaves them out."""
        for token in self._special:
            text = text.replace(token, "")
        return text

    @cached_property
    def _gap(self) -> str | None:
        """What the template lacks for tools."""
        try:
            if self._render(_ASKED, [_PROBE_TOOL]) == self._render(_ASKED, []):
                return "it writes the same prompt with tools as without"
            written = self._render([*_ASKED, _CALLED, _ANSWERED], [_PROBE_TOOL])
        except BadInput as error:
            return str(error)
        if str(_PROBE_VALUE) not in written:
            return "it leaves out the calls that were made"
        return None if _PROBE_RESULT in written else "it leaves out the results of tools"

    def _render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any], **options: Any) -> str:
        return render_chat(self._tokenizer, messages, tools=list(tools) or None, **self._options, **options)

    def _defused(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._defuse(value)
        if isinstance(value, Mapping):
            return {self._defused(key): self._defused(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._defused(item) for item in value]
        return value
