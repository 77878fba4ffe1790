"""A cost as the columns of its run, and back."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from .response import Cost


def cost_columns(cost: Cost) -> dict[str, Any]:
    """The columns of a run that hold its cost."""
    return {
        "cost_money": cost.money,
        "cost_tokens_in": cost.tokens_in,
        "cost_tokens_out": cost.tokens_out,
        "cost_seconds": cost.seconds,
    }


def cost_of(run: Row[Any]) -> Cost:
    """The cost in a run's row."""
    return Cost(
        money=run.cost_money,
        tokens_in=run.cost_tokens_in,
        tokens_out=run.cost_tokens_out,
        seconds=run.cost_seconds,
    )
