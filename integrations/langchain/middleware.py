"""`DemurMiddleware`: a LangChain agent whose answers and tool calls are judged before they count."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from ...core.errors import MissingExtra

try:
    from langchain.agents.middleware.types import (
        AgentMiddleware,
        ExtendedModelResponse,
        ModelRequest,
        ModelResponse,
        ToolCallRequest,
        hook_config,
    )
    from langgraph.config import get_config
except ImportError as error:
    raise MissingExtra("langchain", "langchain") from error
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import ToolMessage
from langgraph.runtime import Runtime
from langgraph.types import Command

from ...policies.tool_policy import ToolPolicy
from ...router.router import Router
from ...router.steps import adrive, drive
from .model_gate import ModelGate
from .options import AgentOptions, agent_tools, refuse
from .state import DemurState
from .tool_gate import ToolGate
from .turn_end import TurnEnd
from .wording import Wording

logger = logging.getLogger("demur")

ToolResult = ToolMessage | Command[Any]
ToolSettings = ToolPolicy | Mapping[str, Any] | str


class DemurMiddleware(AgentMiddleware[DemurState, Any, Any]):
    """Middleware for `create_agent`: a final answer is judged before it goes out, a tool call before it runs.

    What is decided is the router's: its settings, artefacts, log and queue. In shadow mode nothing changes but the
    records; irreversible tools are enforced unless the settings say otherwise.

    Args:
        router: judges, decides, records.
        task: the population that calibrates the agent's answers, and its tool calls where `tools` names no other.
        tenant: whose calls these are.
        tools: tool name → `ToolPolicy`, `AgentTool` (with a task of its own), a mapping of their fields, or just the
            side effects ("irreversible"). `[tools.NAME]` in the settings counts as well; the graver wins.
        larger: models to escalate a final answer to, by the names that have a price in `costs.escalate`; none may be
            called "model".
        on_defer: "interrupt" pauses the graph until a human decides, here or in the queue; it needs a checkpointer.
            "message" tells the agent that the call waits, and it goes on.
        format: of interrupts: LangChain's ("hitl") or the Agent Inbox's.
        conversation: its id, or a function of the run's config that gives it; by default the thread's id.
        reviewer: who decided, where a decision comes in by `Command(resume=...)`.
        abstain_text, waiting_text: what the user is told; by default the texts of the settings. `{review_id}` and
            `{run_id}` may stand in them.
        logprobs: ask the model for log-probabilities: "auto" where a fitted head reads them and the client is known to
            have them; True; False. Those that come by themselves are used in any case.
        prices: "model" or a name in `larger` → (money per token in, money per token out), for the record.
        name: tells two of them in one agent apart.

    Raises:
        ConfigurationError: an argument cannot work. That `tools` names a tool which the agent does not have is known,
            and said, at the first turn.
    """

    state_schema = DemurState

    def __init__(
        self,
        router: Router,
        *,
        task: str = "default",
        tenant: str = "default",
        tools: Mapping[str, ToolSettings] | None = None,
        larger: Mapping[str, BaseChatModel] | None = None,
        on_defer: Literal["interrupt", "message"] = "interrupt",
        format: Literal["hitl", "agent_inbox"] = "hitl",
        conversation: str | Callable[[Mapping[str, Any]], str | None] | None = None,
        reviewer: str = "langgraph",
        abstain_text: str | None = None,
        waiting_text: str | None = None,
        logprobs: Literal["auto"] | bool = "auto",
        prices: Mapping[str, tuple[float, float]] | None = None,
        name: str = "DemurMiddleware",
    ) -> None:
        super().__init__()
        self.tools = []
        if not isinstance(name, str) or not name:
            refuse("name", name, "needs a text")
        self._name = name
        self.options = AgentOptions(
            router=router,
            task=task,
            tenant=tenant,
            tools=agent_tools(tools),
            larger=dict(larger or {}),
            on_defer=on_defer,
            format=format,
            conversation=conversation,
            reviewer=reviewer,
            abstain_text=abstain_text,
            waiting_text=waiting_text,
            logprobs=logprobs,
            prices=dict(prices or {}),
        )
        for tool, policy in self.options.tools.items():
            router.declare_tool(tool, policy)
        wording = Wording(self.options)
        self._model_gate = ModelGate(self.options, wording)
        self._tool_gate = ToolGate(self.options, wording)
        self._turn_end = TurnEnd(self.options, wording)
        self._tools_checked = self._warned = False

    @property
    def name(self) -> str:
        return self._name

    def before_agent(self, state: DemurState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Forget how the last turn ended; say so where nothing could be resumed."""
        if self.options.on_defer == "interrupt" and not self._warned and not _has_checkpointer():
            self._warned = True
            said = (
                "DemurMiddleware(on_defer='interrupt'): this agent has no checkpointer, so a paused call could not be "
                "resumed; what is deferred waits in the queue and the agent goes on. Use "
                "create_agent(checkpointer=InMemorySaver()), say, or on_defer='message'"
            )
            logger.warning(said)
            warnings.warn(said, UserWarning, stacklevel=2)
        return {"demur_turn": {}, "demur_held": None}

    async def abefore_agent(self, state: DemurState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        return self.before_agent(state, runtime)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ExtendedModelResponse[Any]:
        """Judge a final answer before it goes out; score proposed tool calls, once."""
        self._check_tools(request)
        return drive(self._model_gate.plan(request, self._conversation(), handler))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ExtendedModelResponse[Any]:
        self._check_tools(request)
        return await adrive(self._model_gate.plan(request, self._conversation(), ahandler=handler))

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: DemurState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """End a withheld turn; where its answer waits for a human, pause until there is a decision."""
        return drive(self._turn_end.plan(state, pauses=self._pauses()))

    @hook_config(can_jump_to=["end"])
    async def aafter_model(self, state: DemurState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        return await adrive(self._turn_end.plan(state, pauses=self._pauses()))

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolResult]) -> ToolResult:
        """Run the tool, pause for a human, or say why it does not run. Nothing has an effect before the decision."""
        plan = self._tool_gate.plan(request, self._conversation(), pauses=self._pauses(), handler=handler)
        return drive(plan)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolResult]]
    ) -> ToolResult:
        plan = self._tool_gate.plan(request, self._conversation(), pauses=self._pauses(), ahandler=handler)
        return await adrive(plan)

    def _check_tools(self, request: ModelRequest[Any]) -> None:
        if not self._tools_checked:
            names = {str(tool.get("name", "")) if isinstance(tool, dict) else tool.name for tool in request.tools}
            self.options.check_bound(names)
            self._tools_checked = True

    def _conversation(self) -> str | None:
        chosen, config = self.options.conversation, _config()
        if isinstance(chosen, str):
            return chosen
        if callable(chosen):
            return chosen(config)
        thread = (config.get("configurable") or {}).get("thread_id")
        return None if thread is None else str(thread)[:200]

    def _pauses(self) -> bool:
        return self.options.on_defer == "interrupt" and _has_checkpointer()


def _config() -> Mapping[str, Any]:
    try:
        return get_config()
    except RuntimeError:  # called outside a graph, by a test
        return {}


def _has_checkpointer() -> bool:
    return (_config().get("configurable") or {}).get("__pregel_checkpointer") is not None
