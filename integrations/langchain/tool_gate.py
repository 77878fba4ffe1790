"""The gate around tool calls: decided when they are about to run, whatever happened to them on the way here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import Command
from pydantic import ValidationError

from ...core.call import Call, CallKind, SideEffects
from ...core.errors import EffectBusy, EffectFailed, EffectUnknown
from ...core.record import content_hash
from ...core.review_item import ReviewItem
from ...core.run import Result, RunState
from ...router.reissue import waiting_run
from ...router.site import Tool
from ...router.steps import Plan, Step, blocking
from .asking import Asking
from .messages import call_messages, last_turn, stamped, tool_answer
from .options import AgentOptions
from .other_gate import Approval, aapproved_elsewhere, approved_elsewhere
from .scores import digest, proposal_of
from .tool_values import from_json, to_json
from .wording import Wording, was_rejected

ToolResult = ToolMessage | Command[Any]
ToolHandler = Callable[[ToolCallRequest], ToolResult]
AsyncToolHandler = Callable[[ToolCallRequest], Awaitable[ToolResult]]


@dataclass
class Carrier:
    """The tool as the router runs it: through LangChain's handler, what it really gave kept for the graph."""

    request: ToolCallRequest
    handler: ToolHandler | None
    ahandler: AsyncToolHandler | None
    given: list[ToolResult] = field(default_factory=list)

    def tool(self, name: str, *, idempotent: bool) -> Tool:
        return Tool(
            name=name,
            run=lambda **arguments: self._run(name, arguments),
            arun=None if self.ahandler is None else lambda **arguments: self._arun(name, arguments),
            idempotent=idempotent,
        )

    def _asked(self, name: str, arguments: dict[str, Any]) -> ToolCallRequest:
        call = self.request.tool_call
        if (name, arguments) == (call["name"], call["args"]):
            return self.request
        found = next(tool for tool in self.request.runtime.tools if tool.name == name)
        return self.request.override(tool_call={**call, "name": name, "args": arguments}, tool=found)

    def _run(self, name: str, arguments: dict[str, Any]) -> Any:
        assert self.handler is not None
        self.given[:] = [self.handler(self._asked(name, arguments))]
        return to_json(self.given[0])

    async def _arun(self, name: str, arguments: dict[str, Any]) -> Any:
        assert self.ahandler is not None
        self.given[:] = [await self.ahandler(self._asked(name, arguments))]
        return to_json(self.given[0])


@dataclass(frozen=True)
class ToolGate:
    """What happens around one tool call, written once for both sides."""

    options: AgentOptions
    wording: Wording

    def plan(
        self,
        request: ToolCallRequest,
        conversation: str | None,
        *,
        pauses: bool,
        handler: ToolHandler | None = None,
        ahandler: AsyncToolHandler | None = None,
    ) -> Plan[ToolResult]:
        """Run the tool, ask a human, or say why not.

        Args:
            pauses: deferring pauses the graph; otherwise the agent is told that the call waits.
        """
        call = request.tool_call
        message, answers = last_turn(request.state.get("messages") or [])
        answered = next((each for each in answers if each.tool_call_id == call["id"]), None)
        if answered is not None:
            return answered  # another gate has answered it: whoever jumped here, it does not run
        first = self._the_same(call, message)
        if first is not None:
            text = f"This is the same call as {first}, which is carried out once; see what came of that."
            return tool_answer(call, text, failed=False)
        try:
            asked = self._call(request, conversation, message)
        except (ValidationError, ValueError) as error:
            text = f"The call of {call['name']} was not carried out: its arguments cannot be stored ({error})."
            return tool_answer(call, text[:2000], failed=True)
        carrier = Carrier(request, handler, ahandler)
        try:
            result = yield from self._decide(asked, request, carrier)
            return (yield from self._follow(result, asked, carrier, pauses))
        except (EffectBusy, EffectFailed, EffectUnknown) as error:
            return tool_answer(call, f"The call of {call['name']} was not carried out again: {error}", failed=True)

    def _the_same(self, call: Any, message: Any) -> str | None:
        """The id of an earlier call of this turn that is word for word the same, where doing it twice would matter."""
        if message is None or self.options.side_effects_of(call["name"]) is SideEffects.NONE:
            return None
        mine = digest(call["name"], call["args"])
        for other in message.tool_calls:
            if other["id"] == call["id"]:
                return None
            if digest(other["name"], other["args"]) == mine:
                return other["id"]
        return None

    def _call(self, request: ToolCallRequest, conversation: str | None, message: Any) -> Call:
        name, arguments = request.tool_call["name"], request.tool_call["args"]
        messages = request.state.get("messages") or []
        before = messages[: messages.index(message)] if message in messages else messages
        return Call(
            kind=CallKind.TOOL,
            messages=call_messages(before, None),
            tool_name=name,
            arguments=arguments,
            task=self.options.task_of(name),
            tenant=self.options.tenant,
            conversation_id=conversation,
            side_effects=self.options.side_effects_of(name),
            idempotency_key=self._key(request, conversation, message),
            metadata={"tool_call_id": str(request.tool_call["id"])},
        )

    def _key(self, request: ToolCallRequest, conversation: str | None, message: Any) -> str:
        """The same for a replay of the same call, another one for the next.

        A thread and the call's id tell calls apart; where a model uses an id again in a later turn, how often it did;
        without a thread nothing can be replayed, and the turn's own id stands in.
        """
        call = request.tool_call
        entry = (request.state.get("demur") or {}).get(call["id"]) or {}
        where = conversation if conversation is not None else f"turn:{getattr(message, 'id', None)}"
        parts = [where, call["id"], digest(call["name"], call["args"]), entry.get("nth", 0)]
        return f"agent:{content_hash(parts)}"

    def _decide(self, asked: Call, request: ToolCallRequest, carrier: Carrier) -> Plan[Result[Any]]:
        """Run it through the router: judged by the score that it was given when it was proposed."""
        router, call = self.options.router, request.tool_call
        twin = yield blocking(waiting_run, router.database, asked)
        if twin is not None:
            found = yield blocking(router.log.get, twin)
            if found is not None and found.result is not None:
                return found.result
        tool = carrier.tool(call["name"], idempotent=self.options.tool(call["name"]).idempotent)
        known = proposal_of((request.state.get("demur") or {}).get(call["id"]), call["name"], call["args"])
        given: dict[str, Any] = {"tool": tool}
        if known is not None:
            given |= {"proposal": known[0], "model": known[1]}
        return (yield Step(run=lambda: router.run(asked, **given), arun=lambda: router.arun(asked, **given)))

    def _follow(self, result: Result[Any], asked: Call, carrier: Carrier, pauses: bool) -> Plan[ToolResult]:
        """From the decision to what the graph gets. A call may wait again after an edit made another of it."""
        call, item = carrier.request.tool_call, None
        asking = Asking(self.options.router, self.options.format, self.options.reviewer)
        while result.state is RunState.WAITING and result.review_id is not None:
            elsewhere = yield Step(
                run=lambda: approved_elsewhere(carrier.request),
                arun=lambda: aapproved_elsewhere(carrier.request),
            )
            item = yield from self._reviewed(result.review_id, asking, carrier.request, elsewhere, pauses)
            if item is None:
                return tool_answer(call, self.wording.to_model(result, call["name"]), failed=False, result=result)
            result = yield from self._carry_out(result, item, carrier)
        return self._answer(result, item, carrier)

    def _reviewed(
        self, review_id: str, asking: Asking, request: ToolCallRequest, elsewhere: Approval | None, pauses: bool
    ) -> Plan[ReviewItem | None]:
        """The decided item; None where nobody has decided and the agent goes on meanwhile."""
        decided = yield from asking.decided(review_id)
        if decided is None and elsewhere is not None:
            return (yield from asking.settle(review_id, elsewhere.reviewer))
        if decided is None and not pauses:
            return None
        if not pauses:
            return decided
        tools = [tool.name for tool in request.runtime.tools]
        return (yield from asking.plan(review_id, tools))

    def _carry_out(self, waiting: Result[Any], item: ReviewItem, carrier: Carrier) -> Plan[Result[Any]]:
        """What a decision lets through, exactly once: the router resumes the run with the handler as its tool."""
        router = self.options.router
        name = item.call.tool_name or ""
        if item.resolution is not None and item.resolution.tool_name is not None:
            name = item.resolution.tool_name
        tool = carrier.tool(name, idempotent=self.options.tool(name).idempotent)
        run_id = waiting.run_id
        return (
            yield Step(run=lambda: router.resume(run_id, tool=tool), arun=lambda: router.aresume(run_id, tool=tool))
        )

    def _answer(self, result: Result[Any], item: ReviewItem | None, carrier: Carrier) -> ToolResult:
        call = carrier.request.tool_call
        if result.delivered:
            given = carrier.given[0] if carrier.given else from_json(result.value, call)
            return stamped(given, result) if isinstance(given, ToolMessage) else given
        if item is not None and was_rejected(item):
            return tool_answer(call, self.wording.rejected(item, call["name"]), failed=True, result=result)
        return tool_answer(call, self.wording.to_model(result, call["name"]), failed=True, result=result)
