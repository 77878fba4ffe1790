"""Kinds of turn: what a response does in a conversation."""

from __future__ import annotations

from enum import StrEnum


class TurnKind(StrEnum):
    """Each kind is right or wrong in its own way, and is calibrated on its own.

    An answer asserts something. A refusal is right where the question could not or should not be answered. A
    clarification asks back, and is right where something needed was missing. A tool call proposes to act.
    """

    ANSWER = "answer"
    REFUSAL = "refusal"
    CLARIFICATION = "clarification"
    TOOL_CALL = "tool_call"
