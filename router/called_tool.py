"""Which tool a call is about, for heads that know tools apart."""

from __future__ import annotations

from ..core.call import Call
from ..core.evidence import Evidence
from ..evaluation.graders.tool_syntax import read_calls


def tool_of(evidence: Evidence) -> str | None:
    """What the call or its response would run; None where that is nothing, or several different things."""
    if evidence.call.tool_name:
        return evidence.call.tool_name
    if evidence.response is None:
        return None
    if evidence.response.tool_calls:
        return _only({each.name for each in evidence.response.tool_calls})
    return tool_in_text(evidence.call, evidence.response.text)


def tool_in_text(call: Call, text: str) -> str | None:
    """The one tool that is called in a text by a model that was offered tools; None for another one than was offered.

    A local model writes its calls as text. What is read here is only which confidence to take: nothing is run by it.
    """
    offered = {_name(each) for each in call.tools}
    named = _only({each.name for each in read_calls(text)}) if call.tools else None
    return named if named in offered else None


def _only(names: set[str]) -> str | None:
    return next(iter(names)) if len(names) == 1 else None


def _name(tool: object) -> object:
    function = tool.get("function", tool) if isinstance(tool, dict) else None
    return function.get("name") if isinstance(function, dict) else None
