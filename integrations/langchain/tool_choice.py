"""Which tools a turn may call, and whether it must."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...core.errors import ConfigurationError
from ..models.huggingface.chat import ChatTemplate


@dataclass(frozen=True)
class Offer:
    """What is offered to the model in one turn.

    Attributes:
        tools: in OpenAI's shape; none: what the model writes is never read as a call.
        opening: what is written for the model so that it has to call; "" leaves it free.
    """

    tools: tuple[dict[str, Any], ...] = ()
    opening: str = ""


def offer_of(template: ChatTemplate, tools: Sequence[Any] | None, choice: Any) -> Offer:
    """Settle tools and choice.

    Args:
        tools: anything that LangChain can describe.
        choice: None or "auto"; "none"; "any", "required" or True; a tool's name, or OpenAI's dictionary with it.

    Raises:
        ConfigurationError: the template has no tools, or the choice names none of them.
    """
    from langchain_core.utils.function_calling import convert_to_openai_tool

    described = tuple(convert_to_openai_tool(tool) for tool in tools or ())
    names = [tool["function"]["name"] for tool in described]
    if isinstance(choice, dict):
        choice = (choice.get("function") or {}).get("name") or choice.get("name")
    if choice == "none" or not described:
        if choice not in (None, False, "auto", "none"):
            raise ConfigurationError(f"tool_choice={choice!r} without tools; bind the tools as well")
        return Offer()
    template.require_tools()
    if choice in (None, False, "auto"):
        return Offer(described)
    if choice in (True, "any", "required"):
        # With one tool there is nothing to choose.
        return Offer(described, template.opening(names[0] if len(names) == 1 else None))
    if choice not in names:
        raise ConfigurationError(f"tool_choice={choice!r} is none of the tools {names}, nor 'auto', 'any' or 'none'")
    return Offer(described, template.opening(choice))
