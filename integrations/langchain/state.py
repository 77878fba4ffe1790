"""What the middleware keeps in the agent's state: plain JSON values only, so that any checkpointer can store them."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from langchain.agents.middleware.types import AgentState, PrivateStateAttr

MOST_SCORES = 500
"""Scores of tool calls that are kept; the oldest go first."""


def merged(left: dict[str, Any] | None, right: dict[str, Any] | None) -> dict[str, Any]:
    """Both dicts in one; several writers in one step all count (a later one wins a key)."""
    together = {**(left or {})}
    for key, value in (right or {}).items():
        together.pop(key, None)  # what is written again is the newest again
        together[key] = value
    surplus = len(together) - MOST_SCORES
    return dict(list(together.items())[surplus:]) if surplus > 0 else together


def newest(left: Any, right: Any) -> Any:
    """The later value; where several write in one step, the last of them, and nobody's update is an error."""
    return right


class DemurState(AgentState[Any]):
    """The agent's state, with what Demur adds. None of it is part of the agent's input or output.

    Attributes:
        demur: tool call id → its score: confidence, low, high, labels, name, and what the gate needs to go on.
        demur_turn: how this turn ends: {} while it goes on; "route", "run_id", ... where Demur ended it.
        demur_held: the structured response that goes with a withheld answer, until a human has decided.
    """

    # LangGraph takes the last annotation for the reducer: anywhere else it is not seen, and two writers are an error.
    demur: NotRequired[Annotated[dict[str, Any], PrivateStateAttr, merged]]
    demur_turn: NotRequired[Annotated[dict[str, Any], PrivateStateAttr, newest]]
    demur_held: NotRequired[Annotated[Any, PrivateStateAttr, newest]]
