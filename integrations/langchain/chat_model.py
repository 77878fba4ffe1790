"""A local model as a LangChain chat model with tools, and with a window into every message it writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.base import LangSmithParams
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from pydantic import ConfigDict, Field

from ...core.errors import ConfigurationError
from ...core.evidence import CaptureRequest
from ...core.protocols import Generation
from ...core.record import new_id
from ..models.huggingface.assemble import plan_of
from ..models.huggingface.chat import ChatTemplate
from ..models.huggingface.engine import Listener
from ..models.huggingface.model import HuggingFaceModel
from ..models.huggingface.stream import AsyncTextStream, TextStream
from .captures import remember
from .chat_messages import template_messages
from .chat_reply import Reply, TurnReader
from .tool_choice import Offer, offer_of

_DECODING = ("max_tokens", "temperature", "top_p", "top_k", "seed")
_KNOWN = (*_DECODING, "stop", "tools", "tool_choice")
_OF_LANGCHAIN = frozenset({"stream", "stream_usage"})  # say how the answer is wanted, not what is asked


class LocalChatModel(BaseChatModel):
    """A LangChain chat model over a `HuggingFaceModel`; the model inside is never changed and may be shared.

    Every message carries token counts, the reason it ended and the log-probability of each of its tokens;
    `captures.captured_of(message)` gives the hidden states and the lens that `capture` asked for. One generation runs
    at a time on one set of weights; others wait, and the async side waits in a thread.

    Attributes:
        model: its tokenizer needs a chat template.
        capture: what to read off the model for every message; None: log-probabilities and the five likeliest tokens.
        max_tokens, temperature, top_p, top_k, seed, stop: None is what `model` says. Temperature 0 takes the likeliest
            token. All but `stop` may be given for one call as well.
        template_options: switches of the chat template, such as {"enable_thinking": False}.
        cache: off, whatever LangChain's global cache says: a cached answer has no captures.

    Raises:
        ConfigurationError: the model has no chat template, a layer in `capture` does not exist, or a setting is out
            of range.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    model: HuggingFaceModel
    capture: CaptureRequest | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: list[str] | None = None
    template_options: dict[str, Any] = Field(default_factory=dict)
    cache: Any = False

    def __init__(self, **fields: Any) -> None:
        """Fields as above, by name."""
        super().__init__(**fields)
        # Not in a validator: pydantic would wrap the error in one of its own.
        if not self.model.chats:
            raise ConfigurationError(
                f"model {self.model.name!r} writes plain prompts; LocalChatModel needs a chat template (chat='auto')"
            )
        _ = self._template
        plan_of(self.capture or CaptureRequest(), self.model.layer_count)
        self._model_for(None, {})

    @property
    def _template(self) -> ChatTemplate:
        return ChatTemplate(self.model.tokenizer, name=self.model.name, options=self.template_options)

    @property
    def _llm_type(self) -> str:
        return "demur-local"

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        chosen = self._model_for(None, {}).decoding
        return {"model_name": self.model.name, **chosen.settings(), "seed": chosen.seed} | (
            {"template_options": self.template_options} if self.template_options else {}
        )

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        chosen = self._model_for(stop, {key: kwargs[key] for key in _DECODING if key in kwargs}).decoding
        params = LangSmithParams(
            ls_provider="demur",
            ls_model_name=str(kwargs.get("model", self.model.name)),
            ls_model_type="chat",
            ls_temperature=chosen.temperature if chosen.do_sample else 0.0,
            ls_max_tokens=chosen.max_new_tokens,
        )
        if chosen.stop:
            params["ls_stop"] = list(chosen.stop)
        return params

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | bool | dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Offer tools through the chat template.

        Args:
            tools: anything that LangChain can describe.
            tool_choice: None or "auto" leaves it to the model; "any", "required" or True makes it call one; a tool's
                name makes it call that one; "none" offers nothing. A call is made sure by beginning it for the model.

        Raises:
            ConfigurationError: the chat template has no tools, or the choice cannot be had.
        """
        offer_of(self._template, tools, tool_choice)
        from langchain_core.utils.function_calling import convert_to_openai_tool

        described = [convert_to_openai_tool(tool) for tool in tools]
        return self.bind(tools=described, tool_choice=tool_choice, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        turn = self._turn(messages, stop, kwargs)
        return turn.result(turn.generate(Listener()))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        listener = Listener()

        def work() -> ChatResult:
            turn = self._turn(messages, stop, kwargs)
            return turn.result(turn.generate(listener))

        try:
            return await asyncio.to_thread(work)
        except asyncio.CancelledError:
            listener.cancel.set()
            raise

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        turn = self._turn(messages, stop, kwargs)
        pieces = _Pieces(turn.reader)
        with TextStream(turn.produce) as stream:
            for piece in stream:
                if fresh := pieces.fresh(piece):
                    chunk = turn.chunk(fresh)
                    if run_manager is not None:
                        run_manager.on_llm_new_token(fresh, chunk=chunk)
                    yield chunk
        chunk = turn.last_chunk(stream.generation, pieces.sent)
        if run_manager is not None:
            run_manager.on_llm_new_token(str(chunk.message.content), chunk=chunk)
        yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        turn = await asyncio.to_thread(self._turn, messages, stop, kwargs)
        pieces = _Pieces(turn.reader)
        async with AsyncTextStream(turn.produce) as stream:
            async for piece in stream:
                if fresh := pieces.fresh(piece):
                    chunk = turn.chunk(fresh)
                    if run_manager is not None:
                        await run_manager.on_llm_new_token(fresh, chunk=chunk)
                    yield chunk
        chunk = turn.last_chunk(stream.generation, pieces.sent)
        if run_manager is not None:
            await run_manager.on_llm_new_token(str(chunk.message.content), chunk=chunk)
        yield chunk

    def _turn(self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any]) -> _Turn:
        """Everything about one call, checked and written out.

        Raises:
            ConfigurationError: an argument is unknown or cannot work.
            BadInput: the template cannot write the messages.
        """
        unknown = kwargs.keys() - {*_KNOWN, *_OF_LANGCHAIN}
        if unknown:
            raise ConfigurationError(f"LocalChatModel does not know {sorted(unknown)}; it takes {_KNOWN}")
        offer: Offer = offer_of(self._template, kwargs.get("tools"), kwargs.get("tool_choice"))
        model = self._model_for(stop, {key: kwargs[key] for key in _DECODING if key in kwargs})
        prompt = self._template.prompt(template_messages(messages, system=model.system), offer.tools) + offer.opening
        opened = prompt.rstrip().endswith("<think>")
        reader = TurnReader(bool(offer.tools), self._template.without_control(offer.opening), opened)
        return _Turn(model, prompt, reader, self.capture, new_id("resp"))

    def _model_for(self, stop: Sequence[str] | None, given: Mapping[str, Any]) -> HuggingFaceModel:
        """The model with this call's decoding. Stop strings add up; anything else is the nearest that was given."""
        chosen = {key: getattr(self, key) if given.get(key) is None else given[key] for key in _DECODING}
        changes = {key: value for key, value in chosen.items() if value is not None}
        if "max_tokens" in changes:
            changes["max_new_tokens"] = changes.pop("max_tokens")
        temperature = changes.pop("temperature", None)
        if temperature is not None:
            changes["do_sample"] = temperature != 0
            if temperature != 0:
                changes["temperature"] = temperature
        own = self.model.decoding.stop
        changes["stop"] = tuple(dict.fromkeys([*own, *(self.stop or ()), *(stop or ())]))
        return self.model.with_decoding(**changes)


@dataclass(frozen=True)
class _Turn:
    """One call on its way through the model."""

    model: HuggingFaceModel
    prompt: str
    reader: TurnReader
    capture: CaptureRequest | None
    message_id: str

    def generate(self, listener: Listener) -> Generation:
        listener.locate = self.reader.locate
        return self.model.continue_chat(self.prompt, capture=self.capture, listener=listener)

    def produce(self, put: Callable[[str], None], cancel: Event) -> Generation:
        return self.generate(Listener(text=put, cancel=cancel))

    def result(self, generation: Generation) -> ChatResult:
        reply = self._reply(generation)
        # Nothing in llm_output: LangChain copies it into the message, and a stream has none.
        return ChatResult(generations=[ChatGeneration(message=reply.message())])

    def chunk(self, text: str) -> ChatGenerationChunk:
        return ChatGenerationChunk(message=AIMessageChunk(content=text, id=self.message_id))

    def last_chunk(self, generation: Generation, sent: int) -> ChatGenerationChunk:
        return ChatGenerationChunk(message=self._reply(generation).last_chunk(sent))

    def _reply(self, generation: Generation) -> Reply:
        reply = Reply.of(generation, self.reader, message_id=self.message_id, ends=self.model.end_tokens)
        remember(self.message_id, reply.generation)
        return reply


class _Pieces:
    """Of a growing text, what is certain to be content and was not sent yet."""

    def __init__(self, reader: TurnReader) -> None:
        self._reader = reader
        self._text = ""
        self.sent = 0

    def fresh(self, piece: str) -> str:
        self._text += piece
        certain = self._reader.certain(self._text)
        if certain <= self.sent:
            return ""
        begin, self.sent = self.sent, certain
        return self._text[begin:certain]
