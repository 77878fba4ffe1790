"""What an agent's middleware was told, checked when it is made and not at the agent's first turn."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from ...core.call import SideEffects
from ...core.errors import ConfigurationError
from ...core.text import limited
from ...policies.tool_policy import ToolPolicy, graver_policy
from ...router.router import Router

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

SMALL = "model"
"""The name of the agent's own model, beside those of larger ones."""
FORMATS = ("hitl", "agent_inbox")
DEFERRALS = ("interrupt", "message")


@dataclass(frozen=True)
class AgentTool(ToolPolicy):
    """The policy of one tool in an agent.

    Attributes:
        task: the population that calibrates this tool's calls; None: the agent's own task.
    """

    task: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.task is not None:
            _check_name("task", self.task)


@dataclass(frozen=True)
class AgentOptions:
    """The arguments of `DemurMiddleware`; see there.

    Raises:
        ConfigurationError: an option cannot work.
    """

    router: Router
    task: str
    tenant: str
    tools: Mapping[str, AgentTool]
    larger: Mapping[str, BaseChatModel]
    on_defer: str
    format: str
    conversation: str | Callable[[Mapping[str, Any]], str | None] | None
    reviewer: str
    abstain_text: str | None
    waiting_text: str | None
    logprobs: Any
    prices: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.router, Router):
            refuse("router", self.router, "use a demur.Router")
        for name in ("task", "tenant", "reviewer"):
            _check_name(name, getattr(self, name))
        if self.on_defer not in DEFERRALS:
            refuse("on_defer", self.on_defer, f"use {' or '.join(map(repr, DEFERRALS))}")
        if self.format not in FORMATS:
            refuse("format", self.format, f"use {' or '.join(map(repr, FORMATS))}")
        if self.conversation is not None and not isinstance(self.conversation, str) and not callable(self.conversation):
            refuse("conversation", self.conversation, "use an id, or a function of the run's config that gives one")
        if isinstance(self.conversation, str):
            _check_name("conversation", self.conversation)
        for name in ("abstain_text", "waiting_text"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str) and value.strip()):
                refuse(name, value, "use a text, or leave it out for that of the settings")
        if self.logprobs not in (True, False, "auto"):
            refuse("logprobs", self.logprobs, "use 'auto', True or False")
        self._check_larger()
        for name, tool in self.tools.items():
            try:
                self.router.settings.policy_for(self.task_of(name)).costs.with_loss(tool.loss)
            except ConfigurationError as error:
                refuse(f"tools[{name!r}].loss", tool.loss, f"it does not go with the costs: {error}")
        for name, pair in self.prices.items():
            if name != SMALL and name not in self.larger:
                refuse("prices", name, f"name {SMALL!r} or a larger model{_close(name, [SMALL, *self.larger])}")
            if not (isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(p, int | float) for p in pair)):
                refuse(f"prices[{name!r}]", pair, "give (money per token in, money per token out)")

    def _check_larger(self) -> None:
        priced = self.router.settings.policy_for(self.task).costs.escalate
        for name, model in self.larger.items():
            _check_name("larger", name)
            if name == SMALL:
                refuse("larger", name, f"{SMALL!r} names the agent's own model, in `prices` too; use another name")
            if not hasattr(model, "bind_tools") or not hasattr(model, "ainvoke"):
                refuse(f"larger[{name!r}]", model, "it must be a LangChain chat model")
            if name not in priced:
                raise ConfigurationError(
                    f"larger names {name!r}, but what asking it costs is not set; set costs.escalate.{name} in the "
                    f"settings{_close(name, priced)}"
                )

    def tool(self, name: str) -> AgentTool:
        """What was said about a tool here; the settings may say more."""
        return self.tools.get(name) or AgentTool()

    def task_of(self, tool: str) -> str:
        return self.tool(tool).task or self.task

    def side_effects_of(self, tool: str) -> SideEffects:
        """The graver of what was said here and what the settings say."""
        settings = self.router.settings.tool_policies
        declared = settings.get(tool) or settings.get("*") or ToolPolicy()
        return graver_policy(self.tool(tool), declared).side_effects

    def check_bound(self, bound: Collection[str]) -> None:
        """Refuse a tool policy that no tool of the agent answers to: a typo would leave the real tool ungated.

        Raises:
            ConfigurationError: naming what comes close.
        """
        for name in self.tools:
            if name not in bound:
                raise ConfigurationError(
                    f"DemurMiddleware(tools=...) names {name!r}, and the agent has no such tool{_close(name, bound)}. "
                    f"Its tools are {', '.join(sorted(bound)) or 'none'}; where another middleware hides some, put "
                    "DemurMiddleware first in the list"
                )


def agent_tools(given: Any) -> dict[str, AgentTool]:
    """The tool policies by name, from policies, mappings of their fields, or just the side effects.

    Raises:
        ConfigurationError: a value cannot work, or a key of a mapping is unknown.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        refuse("tools", given, "give the policies by tool name: {'refund': ToolPolicy('irreversible')}")
    made: dict[str, AgentTool] = {}
    for name, value in given.items():
        _check_name("tools", name)
        made[name] = _agent_tool(name, value)
    return made


def _agent_tool(name: str, value: Any) -> AgentTool:
    if isinstance(value, AgentTool):
        return value
    if isinstance(value, ToolPolicy):
        return AgentTool(value.side_effects, value.idempotent, value.loss, value.always_review)
    known = [each.name for each in fields(AgentTool)]
    if isinstance(value, Mapping):
        for key in value:
            if key not in known:
                raise ConfigurationError(
                    f"tools[{name!r}] has the key {key!r}{_close(str(key), known)}; use {', '.join(known)}"
                )
        return AgentTool(**value)
    if isinstance(value, str):
        return AgentTool(side_effects=value)  # type: ignore[arg-type]  # checked, and made one, by ToolPolicy
    return refuse(f"tools[{name!r}]", value, "use a ToolPolicy, an AgentTool, a mapping, or the side effects as text")


def refuse(argument: str, value: Any, remedy: str) -> Any:
    """Raises ConfigurationError: the argument, its value, and what to do."""
    raise ConfigurationError(f"DemurMiddleware({argument}={limited(repr(value), 200)}): {remedy}")


def _check_name(argument: str, value: Any) -> None:
    if not isinstance(value, str) or not 1 <= len(value) <= 200:
        refuse(argument, value, "needs a text of 1 to 200 characters")


def _close(name: str, known: Collection[str]) -> str:
    found = difflib.get_close_matches(name, list(known), n=2, cutoff=0.5)
    return f" (did you mean {' or '.join(map(repr, found))}?)" if found else ""
