"""Telling a model's failure from control flow that only looks like an exception."""

from __future__ import annotations

from ...core.errors import DemurError, ModelError
from ...core.text import said


def passes_through(error: Exception) -> bool:
    """True for Demur's own errors and for LangGraph's control flow (GraphBubbleUp: interrupts, commands to a parent).

    LangGraph's are told by their class's name and home, so that nothing needs to be installed for this.
    """
    if isinstance(error, DemurError):
        return True
    return any(c.__name__ == "GraphBubbleUp" and c.__module__.startswith("langgraph") for c in type(error).__mro__)


def model_error(name: str, error: Exception) -> ModelError:
    """The failure of a wrapped model, in one sentence; the original is its cause."""
    return ModelError(f"model {name!r} did not answer: {said(error).strip().splitlines()[0][:500]}")
