"""What is handed to a router, checked before anything is stored: wrong things are named, not stumbled over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.call import Call, CallKind
from ..core.decision import Route
from ..core.errors import ConfigurationError
from ..core.protocols import Generation
from ..core.response import Response
from ..core.text import limited
from ..policies.expected_cost import Arm
from .settings import Settings
from .site import Tool

_MODEL = ("name", "provides", "fingerprint", "generate")
_PROBE = ("name", "needs", "stage", "cost_rank", "signal_names", "measure")


def check_parts(
    settings: Any, model: Any, probes: Sequence[Any], retriever: Any, larger: Any, documents_limit: Any
) -> None:
    """Refuse what a router cannot be made of.

    Raises:
        ConfigurationError: with the argument, its value and what it must be.
    """
    if not isinstance(settings, Settings):
        _refuse("settings", settings, "use Settings(...) or Settings.load(path)")
    if model is not None:
        check_model("model", model)
    if larger is not None and not isinstance(larger, Mapping):
        _refuse("larger", larger, "give the larger models by name: {'big': model}")
    for name, each in (larger or {}).items():
        check_model(f"larger[{name!r}]", each)
    if retriever is not None:
        _needs("retriever", retriever, ("retrieve",), "a Retriever")
    for each in probes:
        _needs("probes", each, _PROBE, "Probes")
    if not isinstance(documents_limit, int) or isinstance(documents_limit, bool) or documents_limit < 1:
        _refuse("documents_limit", documents_limit, "it must be at least 1; leave the retriever out instead")


def check_model(argument: str, model: Any) -> None:
    """Refuse what does not answer as a model does."""
    _needs(argument, model, _MODEL, "a Model, such as HuggingFaceModel, LangChainModel or FunctionModel")


def check_call(call: Any, tool: Any, proposal: Any, exclude: Any, model: Any, larger: Any = None) -> None:
    """Refuse a tool call without its tool, a model call with one, and arms that do not exist."""
    if not isinstance(call, Call):
        _refuse("call", call, "use Call.ask(question) or Call(kind='tool', ...)")
    if tool is not None and not isinstance(tool, Tool):
        _refuse("tool", tool, "use Tool(name, run)")
    whole = isinstance(proposal, Generation) and isinstance(proposal.response, Response)
    if proposal is not None and not whole:
        _refuse("proposal", proposal, "use the Generation that proposed the call")
    if model is not None:
        check_model("model", model)
    for name, each in (larger or {}).items():
        check_model(f"larger[{name!r}]", each)
    if call.kind is CallKind.TOOL:
        if tool is None:
            raise ConfigurationError(f"the call of tool {call.tool_name!r} comes without the tool; pass tool=Tool(...)")
        if tool.name != call.tool_name:
            raise ConfigurationError(f"the call is of tool {call.tool_name!r}, and the tool given is {tool.name!r}")
    elif tool is not None or proposal is not None:
        raise ConfigurationError("tool= and proposal= belong to tool calls; this call is of a model (kind='llm')")
    if exclude is not None and not (
        isinstance(exclude, Mapping) and all(isinstance(part, str) for pair in exclude.items() for part in pair)
    ):
        _refuse("exclude", exclude, "give the reason by arm: {'retrieve': 'why'}")
    for arm in exclude or {}:
        if arm != Route.ESCALATE:  # by itself it stands for every larger model
            Arm.parse(arm)


def _needs(argument: str, given: Any, parts: Sequence[str], what: str) -> None:
    missing = [part for part in parts if not hasattr(given, part)]
    if missing or isinstance(given, type):
        _refuse(argument, given, f"it must be {what}" + (f"; {', '.join(missing)} missing" if missing else ""))


def _refuse(argument: str, given: Any, remedy: str) -> None:
    try:
        shown = limited(repr(given), 200)
    except Exception as error:  # noqa: BLE001 - a foreign __repr__ may raise anything
        shown = f"<no repr: {type(error).__name__}>"
    raise ConfigurationError(f"{argument}={shown} cannot be used: {remedy}")
