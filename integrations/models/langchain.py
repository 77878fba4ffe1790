"""Any LangChain chat model as a model of Demur's."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from ...core.call import Call
from ...core.errors import ConfigurationError, ModelError
from ...core.evidence import CaptureRequest, Document, Need
from ...core.protocols import Fingerprint, Gate, Generation
from ...core.record import content_hash
from ...core.response import Cost, Response, ToolCall
from .errors import model_error, passes_through
from .huggingface.prompt import PromptTemplate, chat_messages, cleaned
from .logprobs import trace_of

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage

STOPPED_EARLY = "stopped_early"
"""Finish reason of an answer that was given up while it was written, and the key under which the reason stands."""

_TRUNCATED = {"length", "max_tokens", "MAX_TOKENS", STOPPED_EARLY}

# What LangChain's standard parameters leave out, under the names that clients use.
_DECODING = (
    "num_predict",
    "num_ctx",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "repeat_penalty",
    "reasoning",
    "reasoning_effort",
)


class LangChainModel:
    """Wraps a `BaseChatModel`; implements `core.protocols.Model`. The client is never changed.

    A turn that proposes tool calls is a black box: providers give log-probabilities for its prose at most, and those
    say nothing about the call.

    Args:
        chat_model: any LangChain chat model.
        name: for people; by default the model's own name.
        system: system text put before the conversation.
        prompt_template: its `chat_documents` says how documents are quoted.
        logprobs: ask for log-probabilities. "auto": from OpenAI-like and Ollama clients; True: from any client, with
            the arguments of `bind`; False: never (those that come all the same are read).
        top_logprobs: how many alternatives a token to ask for; providers allow 20 at most.
        bind: call arguments that ask for log-probabilities, where they are not OpenAI's.
        version: the model version that the provider states, for the fingerprint.
        price_in, price_out: money for a token in and out, in the policy's unit.

    Raises:
        ConfigurationError: a setting cannot work.
    """

    def __init__(
        self,
        chat_model: BaseChatModel,
        *,
        name: str | None = None,
        system: str | None = None,
        prompt_template: PromptTemplate | None = None,
        logprobs: Literal["auto"] | bool = "auto",
        top_logprobs: int = 5,
        bind: dict[str, Any] | None = None,
        version: str | None = None,
        price_in: float = 0.0,
        price_out: float = 0.0,
    ) -> None:
        if not 0 <= top_logprobs <= 20:
            raise ConfigurationError(f"top_logprobs={top_logprobs} must lie in 0 to 20")
        if logprobs not in (True, False, "auto"):
            raise ConfigurationError(f"logprobs={logprobs!r}: use 'auto', True or False")
        if not hasattr(chat_model, "ainvoke"):
            raise ConfigurationError(f"{type(chat_model).__name__} is not a LangChain chat model (no invoke/ainvoke)")
        self._parameters = dict(chat_model._get_ls_params()) if hasattr(chat_model, "_get_ls_params") else {}
        self.name = name or str(self._parameters.get("ls_model_name") or type(chat_model).__name__)
        chosen = {k: getattr(chat_model, k, None) for k in _DECODING}
        self._decoding = {k: v for k, v in chosen.items() if isinstance(v, bool | int | float | str)}
        self._provider = str(self._parameters.get("ls_provider") or type(chat_model).__name__)
        self._system = system
        self._template = prompt_template or PromptTemplate()
        self._version = version
        self._price_in, self._price_out = price_in, price_out
        arguments = _logprob_arguments(chat_model, logprobs, top_logprobs, bind)
        self._asks = arguments is not None
        self._client: Any = chat_model
        if arguments:
            self._client = _chat_completions(chat_model).bind(**arguments)

    @property
    def provides(self) -> frozenset[Need]:
        return frozenset({Need.TEXT, Need.LOGPROBS}) if self._asks else frozenset({Need.TEXT})

    def fingerprint(self) -> Fingerprint:
        """Provider, name and stated version; unpinned, because the weights can change behind them."""
        decoding = {k: self._parameters.get(k) for k in ("ls_temperature", "ls_max_tokens", "ls_stop")} | self._decoding
        model = self._parameters.get("ls_model_name") or self.name
        return Fingerprint(
            name=self.name,
            identity=f"{self._provider}:{model}:{self._version or 'unstated'}",
            pinned=False,
            prompt=content_hash({"system": self._system, "documents": self._template.chat_documents}),
            decoding=content_hash(decoding),
        )

    def generate(
        self,
        call: Call,
        *,
        documents: Sequence[Document] = (),
        capture: CaptureRequest | None = None,
        gate: Gate | None = None,
    ) -> Generation:
        """Ask once. `capture` and `gate` are ignored: a hosted model cannot be looked into.

        Raises:
            BadInput: the call asks nothing.
            ModelError: the client raised, or gave something that is not a message. LangGraph's control flow passes.
        """
        messages, started = self._messages(call, documents), time.perf_counter()
        try:
            message = self._client.invoke(messages)
        except Exception as error:
            if passes_through(error):
                raise
            raise model_error(self.name, error) from error
        return Generation(self._response(message, time.perf_counter() - started))

    async def agenerate(
        self,
        call: Call,
        *,
        documents: Sequence[Document] = (),
        capture: CaptureRequest | None = None,
        gate: Gate | None = None,
    ) -> Generation:
        """`generate` through the client's own async side."""
        messages, started = self._messages(call, documents), time.perf_counter()
        try:
            message = await self._client.ainvoke(messages)
        except Exception as error:
            if passes_through(error):
                raise
            raise model_error(self.name, error) from error
        return Generation(self._response(message, time.perf_counter() - started))

    def _messages(self, call: Call, documents: Sequence[Document]) -> list[BaseMessage]:
        from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

        kinds = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
        safe, documents = cleaned(call, documents, ())
        found: list[BaseMessage] = []
        for message in chat_messages(safe, self._template, documents, self._system):
            if message["role"] == "tool":
                # Without the id of its call a provider refuses a tool message.
                found.append(HumanMessage(f"Result of a tool:\n{message['content']}"))
            else:
                found.append(kinds[message["role"]](message["content"]))
        return found

    def _response(self, message: Any, seconds: float) -> Response:
        return response_of(message, name=self.name, seconds=seconds, price_in=self._price_in, price_out=self._price_out)


def response_of(
    message: AIMessage, *, name: str = "", seconds: float = 0.0, price_in: float = 0.0, price_out: float = 0.0
) -> Response:
    """A LangChain message as a response: text of its content blocks, tool calls, log-probabilities, usage.

    Raises:
        ModelError: it is no AIMessage, or proposes a tool call whose arguments are not JSON.
    """
    from langchain_core.messages import AIMessage

    if not isinstance(message, AIMessage):
        raise ModelError(f"model {name!r} gave a {type(message).__name__}, not an AIMessage")
    if message.invalid_tool_calls:
        bad = message.invalid_tool_calls[0]
        raise ModelError(f"model {name!r} proposed a call of {bad.get('name')!r} whose arguments are not JSON")
    metadata = message.response_metadata or {}
    usage = message.usage_metadata
    tokens_in = usage["input_tokens"] if usage else 0
    tokens_out = usage["output_tokens"] if usage else 0
    reason = next((metadata[k] for k in ("finish_reason", "done_reason", "stop_reason") if metadata.get(k)), None)
    try:
        calls = tuple(ToolCall(id=c.get("id"), name=c["name"], arguments=c["args"]) for c in message.tool_calls)
    except ValidationError as error:
        raise ModelError(f"model {name!r} proposed a tool call that cannot be stored: {error}") from error
    return Response(
        text=str(message.text),
        tool_calls=calls,
        trace=None if calls else trace_of(metadata.get("logprobs")),
        cost=Cost(
            money=tokens_in * price_in + tokens_out * price_out,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            seconds=seconds,
        ),
        model=name or str(metadata.get("model_name") or metadata.get("model") or "unknown"),
        truncated=isinstance(reason, str) and reason in _TRUNCATED,
        stopped_early=str(metadata.get(STOPPED_EARLY) or reason) if reason == STOPPED_EARLY else "",
    )


def _logprob_arguments(
    chat_model: Any, logprobs: Literal["auto"] | bool, top: int, bind: dict[str, Any] | None
) -> dict[str, Any] | None:
    """Call arguments that ask for log-probabilities; None where they are not asked for."""
    if logprobs is False:
        return None
    if bind is not None:
        return dict(bind)
    asked = {"logprobs": True, "top_logprobs": top} if top else {"logprobs": True}
    if logprobs is True:
        return asked
    family = {c.__name__ for c in type(chat_model).__mro__}
    if "BaseChatOpenAI" in family:
        return None if _wants_responses_api(chat_model) else asked
    return asked if "ChatOllama" in family else None


def _wants_responses_api(chat_model: Any) -> bool:
    """The user chose OpenAI's Responses API, or an option or a model that exists only there.

    It drops log-probabilities, so the model is a black box; forcing it elsewhere would make the call fail.
    """
    chosen = getattr(chat_model, "use_responses_api", None)
    if chosen is not None:
        return bool(chosen)
    options = ("reasoning", "include", "truncation", "context_management", "use_previous_response_id")
    if any(getattr(chat_model, o, None) for o in options) or chat_model.output_version == "responses/v1":
        return True
    decides = getattr(chat_model, "_use_responses_api", None)  # knows the models that answer nowhere else
    return bool(decides({})) if callable(decides) else False


def _chat_completions(chat_model: Any) -> Any:
    """A copy that does not switch to the Responses API by itself; any other client as it is."""
    if "BaseChatOpenAI" not in {c.__name__ for c in type(chat_model).__mro__} or _wants_responses_api(chat_model):
        return chat_model
    return chat_model.model_copy(update={"use_responses_api": False})
