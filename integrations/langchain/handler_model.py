"""The agent's own model call as a model of Demur's: asking it is calling the handler that LangChain handed in."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage

from ...core.call import Call
from ...core.errors import ModelError
from ...core.evidence import Captured, CaptureRequest, Document, Need
from ...core.protocols import Fingerprint, Gate, Generation
from ...core.record import canonical_json
from ...core.response import Cost, Response, ToolCall
from ..models.errors import model_error, passes_through
from ..models.huggingface.prompt import PromptTemplate, fill, quote
from ..models.langchain import LangChainModel, _chat_completions, _logprob_arguments, response_of
from .captures import captured_of
from .chat_model import LocalChatModel

NO_STREAM = "nostream"
"""LangGraph's tag for a model call whose tokens are not streamed to the user."""

Handler = Callable[[ModelRequest[Any]], ModelResponse[Any]]
AsyncHandler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]


@dataclass
class Drafts:
    """The responses of one turn by their Demur ids, so that the chosen one can be handed on whole."""

    found: dict[str, ModelResponse[Any]] = field(default_factory=dict)


@dataclass
class HandlerModel:
    """One chat model, asked through the handler. Implements `core.protocols.Model`.

    Args:
        request: the agent's request; its model is the one that answers.
        handler, ahandler: LangChain's, whichever side runs.
        first: the draft that is there already, for the first call without documents.
        prices: money per token in and out.
        is_larger: it is escalated to; where it fails, the router chooses among what is left.
        held: the draft must not reach a stream before it is judged.
        logprobs: ask for log-probabilities ("auto": from clients that are known to have them).
        capture: what the fitted heads read off a local model.
    """

    name: str
    request: ModelRequest[Any]
    handler: Handler | None
    ahandler: AsyncHandler | None
    drafts: Drafts
    prices: tuple[float, float] = (0.0, 0.0)
    held: bool = False
    logprobs: Any = "auto"
    capture: CaptureRequest | None = None
    first: Generation | None = None
    is_larger: bool = False

    @property
    def has_drafted(self) -> bool:
        """A draft exists: nothing is saved by a gate before it."""
        return self.first is not None

    @property
    def provides(self) -> frozenset[Need]:
        return frozenset({Need.TEXT})  # what else there is comes with each response

    def fingerprint(self) -> Fingerprint:
        """That of the chat model, with the agent's system prompt; of a local one, that of its weights."""
        model: Any = self.request.model
        if isinstance(model, LocalChatModel):
            return model.model.fingerprint()
        return LangChainModel(model, system=self.request.system_prompt, logprobs=False).fingerprint()

    def generate(
        self,
        call: Call,
        *,
        documents: Sequence[Document] = (),
        capture: CaptureRequest | None = None,
        gate: Gate | None = None,
    ) -> Generation:
        """Ask once; the first draft is not asked for twice.

        Raises:
            ModelError: the client raised. LangGraph's control flow passes.
        """
        if self.first is not None and not documents:
            return self.first
        assert self.handler is not None
        request, started = self._prepared(documents), time.perf_counter()
        try:
            response = self.handler(request)
        except Exception as error:
            if self._is_the_agents(error):
                raise
            raise model_error(self.name, error) from error
        return self._kept(response, time.perf_counter() - started)

    async def agenerate(
        self,
        call: Call,
        *,
        documents: Sequence[Document] = (),
        capture: CaptureRequest | None = None,
        gate: Gate | None = None,
    ) -> Generation:
        """`generate` through the handler's async side."""
        if self.first is not None and not documents:
            return self.first
        assert self.ahandler is not None
        request, started = self._prepared(documents), time.perf_counter()
        try:
            response = await self.ahandler(request)
        except Exception as error:
            if self._is_the_agents(error):
                raise
            raise model_error(self.name, error) from error
        return self._kept(response, time.perf_counter() - started)

    def _is_the_agents(self, error: Exception) -> bool:
        """Of the first draft the error itself goes on: retries and fallbacks around the gate look at it."""
        return passes_through(error) or (self.first is None and not self.is_larger)

    def _prepared(self, documents: Sequence[Document]) -> ModelRequest[Any]:
        request = self.request
        model: Any = request.model
        changes: dict[str, Any] = {}
        if isinstance(model, LocalChatModel) and model.capture is None and self.capture is not None:
            model = model.model_copy(update={"capture": self.capture})
        elif isinstance(model, BaseChatModel):
            asked = _logprob_arguments(model, self.logprobs, 5, None)
            if asked:
                model = _chat_completions(model)
                changes["model_settings"] = {**asked, **request.model_settings}
        if self.held:
            model = unstreamed(model)
        if documents:
            changes["messages"] = _with_documents(request.messages, documents)
        return request.override(model=model, **changes)

    def _kept(self, response: ModelResponse[Any], seconds: float) -> Generation:
        """The response as evidence; the original is kept under the evidence's id."""
        message = next((each for each in response.result if isinstance(each, AIMessage)), None)
        if message is None:
            raise ModelError(f"model {self.name!r} gave no AIMessage")
        generation = _generation(message, response, self.prices, seconds)
        self.drafts.found[generation.response.id] = response
        return generation


def unstreamed(model: Any) -> Any:
    """A copy of the model (never the user's own) whose tokens are not streamed."""
    if isinstance(model, BaseChatModel):
        return model.model_copy(update={"tags": [*(model.tags or []), NO_STREAM]})
    return model.with_config(tags=[NO_STREAM])


def _generation(
    message: AIMessage, response: ModelResponse[Any], prices: tuple[float, float], seconds: float
) -> Generation:
    """A turn as a generation: text, log-probabilities, captures, cost.

    Of a structured answer, its JSON is the text: log-probabilities of prose beside it do not speak about it.
    """
    structured = response.structured_response is not None and bool(message.tool_calls)
    bare = message.model_copy(update={"invalid_tool_calls": [], "tool_calls": []})
    made = response_of(bare, seconds=seconds, price_in=prices[0], price_out=prices[1])
    local = captured_of(message)
    captured: Captured | None = local.captured if local is not None else None
    update: dict[str, Any] = {}
    if structured:
        update = {"text": _as_text([call["args"] for call in message.tool_calls]), "trace": None}
    elif message.tool_calls:
        update = {"trace": None}
    if local is not None and (structured or not message.tool_calls):
        update["trace"] = local.response.trace
    return Generation(made.model_copy(update=update), captured)


def _as_text(values: list[Any]) -> str:
    try:
        return canonical_json(values[0] if len(values) == 1 else values)
    except (TypeError, ValueError):
        return repr(values)


def _with_documents(messages: Sequence[Any], documents: Sequence[Document]) -> list[Any]:
    """The documents, quoted as data, in the last user message."""
    found = list(messages)
    for at in range(len(found) - 1, -1, -1):
        if isinstance(found[at], HumanMessage):
            values = {"question": str(found[at].text), "documents": quote(documents)}
            found[at] = found[at].model_copy(update={"content": fill(PromptTemplate().chat_documents, values)})
            return found
    return [*found, HumanMessage(f"Passages, quoted as data:\n{quote(documents)}")]


def call_response(generation: Generation, message: AIMessage, call: Any, *, counts: bool) -> tuple[Response, Any]:
    """What is known of one proposed call, and its captures; nothing of it hangs on the call's id.

    A local model's trace of a turn with one call is that of its name and arguments. Providers' log-probabilities are
    those of prose, if of anything, and are not used.

    Args:
        counts: the turn's cost is counted with this call (with one of them, that is).

    Raises:
        ValueError: the arguments are not JSON that can be stored.
    """
    alone = len(message.tool_calls) == 1
    local = captured_of(message) if alone else None
    response = Response(
        tool_calls=(ToolCall(name=call["name"], arguments=call["args"]),),
        trace=None if local is None else local.response.trace,
        cost=generation.response.cost if counts else Cost(),
        model=generation.response.model,
        truncated=generation.response.truncated,
        stopped_early=generation.response.stopped_early,
    )
    return response, None if local is None else local.captured
