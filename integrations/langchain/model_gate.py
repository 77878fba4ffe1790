"""The gate around model calls: a final answer is judged before it goes out, a proposed tool call is scored once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain.agents.middleware.types import ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage
from langgraph.types import Command
from pydantic import ValidationError

from ...core.call import Call, CallKind
from ...core.decision import Mode, Stage
from ...core.evidence import Evidence
from ...core.protocols import Generation
from ...core.run import Result, RunState
from ...policies.mode import effective_mode
from ...router.answer_plan import ANSWER_ARM, escalate_arm
from ...router.steps import Plan, Step, blocking
from .handler_model import AsyncHandler, Drafts, Handler, HandlerModel, call_response
from .messages import STAMP, call_messages, fresh_id, plain_answer, stamp, stamped, unanswered, with_unique_ids
from .news import with_news
from .options import SMALL, AgentOptions
from .scores import score_entry
from .wording import Wording


@dataclass(frozen=True)
class ModelGate:
    """What happens around one model call, written once for both sides."""

    options: AgentOptions
    wording: Wording

    def plan(
        self,
        request: ModelRequest[Any],
        conversation: str | None,
        handler: Handler | None = None,
        ahandler: AsyncHandler | None = None,
    ) -> Plan[ExtendedModelResponse[Any]]:
        """Draft; judge what is a final answer; score what is a tool call."""
        request = yield blocking(with_news, self.options.router, request)
        call = self._call(request, conversation)
        held = effective_mode(self.options.router.settings, call) is Mode.ENFORCE
        drafts = Drafts()
        model = self._model(SMALL, request, drafts, held, handler, ahandler)
        draft: Generation = yield Step(run=lambda: model.generate(call), arun=lambda: model.agenerate(call))
        response = drafts.found[draft.response.id]
        update: dict[str, Any] = {}
        if is_final(response):
            model.first = draft
            response, update = yield from self._judged(call, model, response, request, held)
        return (yield from self._scored(response, update, request, draft, model, conversation, held))

    def _call(self, request: ModelRequest[Any], conversation: str | None) -> Call:
        return Call(
            kind=CallKind.LLM,
            messages=call_messages(request.messages, request.system_message),
            task=self.options.task,
            tenant=self.options.tenant,
            conversation_id=conversation,
        )

    def _model(
        self,
        name: str,
        request: ModelRequest[Any],
        drafts: Drafts,
        held: bool,
        handler: Handler | None,
        ahandler: AsyncHandler | None,
    ) -> HandlerModel:
        arm = ANSWER_ARM if name == SMALL else escalate_arm(name)
        return HandlerModel(
            name=name,
            request=request,
            handler=handler,
            ahandler=ahandler,
            drafts=drafts,
            prices=self.options.prices.get(name, (0.0, 0.0)),
            held=held,
            logprobs=self._logprobs(),
            is_larger=name != SMALL,
            capture=self.options.router.assessor(self.options.task).capture_request(arm),
        )

    def _logprobs(self) -> Any:
        """By itself, only what a fitted head reads is asked for: some models refuse a request that asks for more."""
        if self.options.logprobs != "auto":
            return self.options.logprobs
        artefact = self.options.router.artefacts.get(self.options.task)
        names = {name for head in artefact.heads.values() for name in head.signal_names} if artefact is not None else ()
        return "auto" if any(name.startswith("token.") for name in names) else False

    def _judged(
        self, call: Call, model: HandlerModel, draft: ModelResponse[Any], request: ModelRequest[Any], held: bool
    ) -> Plan[tuple[ModelResponse[Any], dict[str, Any]]]:
        """The router's own course over the drafts, and what it means for this turn."""
        router = self.options.router
        larger = {
            name: self._model(
                name, request.override(model=chat_model), model.drafts, held, model.handler, model.ahandler
            )
            for name, chat_model in self.options.larger.items()
        }
        given = {"model": model, "larger": larger}
        result: Result[Any] = yield Step(run=lambda: router.run(call, **given), arun=lambda: router.arun(call, **given))
        if result.delivered:
            chosen = model.drafts.found.get(result.response_id or "", draft)
            return delivered(chosen, result, new_id=held), {}
        name = next((each.name for each in draft.result if isinstance(each, AIMessage)), None)
        ended: dict[str, Any] = {"demur_turn": {**stamp(result), "state": result.state.value}}
        if result.state is RunState.WAITING:
            ended["demur_held"] = draft.structured_response
        text = yield blocking(self.wording.to_user, result)
        message = plain_answer(text, result, name=name)
        return ModelResponse(result=[message]), ended

    def _scored(
        self,
        response: ModelResponse[Any],
        update: dict[str, Any],
        request: ModelRequest[Any],
        draft: Generation,
        model: HandlerModel,
        conversation: str | None,
        held: bool,
    ) -> Plan[ExtendedModelResponse[Any]]:
        """The turn's proposed tool calls, each scored once; their scores go into the state with the turn itself."""
        at = next((n for n, each in enumerate(response.result) if isinstance(each, AIMessage)), None)
        message = None if at is None else response.result[at]
        if at is not None and isinstance(message, AIMessage) and unanswered(message, response.result):
            unique = with_unique_ids(message)
            if held and STAMP not in unique.response_metadata:
                unique = unique.model_copy(update={"id": fresh_id()})
            entries = yield blocking(self._entries, message, unique, response, request, draft, model, conversation)
            result = [*response.result[:at], unique, *response.result[at + 1 :]]
            response = ModelResponse(result=result, structured_response=response.structured_response)
            update = {**update, "demur": entries}
        return ExtendedModelResponse(response, Command(update=update) if update else None)

    def _entries(
        self,
        written: AIMessage,
        message: AIMessage,
        response: ModelResponse[Any],
        request: ModelRequest[Any],
        draft: Generation,
        model: HandlerModel,
        conversation: str | None,
    ) -> dict[str, Any]:
        state: Mapping[str, Any] = request.state or {}
        known = state.get("demur") or {}
        judged = STAMP in message.response_metadata  # its run counts the cost already
        entries: dict[str, Any] = {}
        for call in unanswered(message, response.result):
            try:
                proposed, captured = call_response(draft, written, call, counts=not entries and not judged)
                asked = Call(
                    kind=CallKind.TOOL,
                    messages=call_messages(request.messages, None),
                    tool_name=call["name"],
                    arguments=call["args"],
                    task=self.options.task_of(call["name"]),
                    tenant=self.options.tenant,
                    conversation_id=conversation,
                    side_effects=self.options.side_effects_of(call["name"]),
                )
            except (ValidationError, ValueError):
                continue  # what cannot be stored cannot be judged: the tool gate refuses it
            site = self.options.router.site(asked, model=model)
            evidence = Evidence(call=asked, response=proposed, captured=captured, arm=ANSWER_ARM, model=model)
            assessment = site.assessor.assess(evidence, Stage.AFTER)
            entries[call["id"]] = score_entry(
                site, proposed, assessment, call["name"], call["args"], known.get(call["id"])
            )
        return entries


def is_final(response: ModelResponse[Any]) -> bool:
    """Does the turn assert something to the user: prose without tool calls, or a structured response?"""
    message = next((each for each in response.result if isinstance(each, AIMessage)), None)
    if message is None:
        return False
    return response.structured_response is not None or not message.tool_calls


def delivered(response: ModelResponse[Any], result: Result[Any], *, new_id: bool) -> ModelResponse[Any]:
    """The whole response, its message with its verdict; under a new id where the draft was held back."""
    messages: list[Any] = []
    for each in response.result:
        if isinstance(each, AIMessage):
            each = stamped(each, result, id=fresh_id() if new_id else None)
        messages.append(each)
    return ModelResponse(result=messages, structured_response=response.structured_response)
