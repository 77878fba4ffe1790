"""What a reviewer sees beside an item: which kind of turn it is, and what was said before it in its conversation."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, or_, select

from ..core.call import Call
from ..core.database.tables import runs
from ..core.errors import StoreError
from ..core.record import Record
from ..core.review_item import ReviewItem
from ..core.run import NotStored, RunState
from ..core.stored_result import unpack_result
from ..core.turn import TurnKind
from .settle import turn_of


class EarlierTurn(Record):
    """One call before; its texts are whole, and data: whoever shows them limits and escapes them.

    Attributes:
        question: what was asked, or the tool call.
        answer: what the caller got, as text; None where nothing was delivered (yet).
        ending: the route it took, or the run's state where it has not ended in one.
    """

    run_id: str
    question: str
    answer: str | None
    ending: str


class Context(Record):
    """What goes with an item.

    Attributes:
        turn: None where there is no response, or it was logged before kinds of turn were.
        earlier: the newest calls of the conversation before the item's, oldest first.
        left_off: there were more before those.
    """

    turn: TurnKind | None
    earlier: tuple[EarlierTurn, ...] = ()
    left_off: bool = False


def context_of(connection: Connection, item: ReviewItem, limit: int) -> Context:
    """Read it off the log.

    Args:
        limit: earlier turns at most.
    """
    turn, call = turn_of(connection, item), item.call
    if call.conversation_id is None:
        return Context(turn=turn)
    own = connection.execute(select(runs.c.created_at).where(runs.c.id == item.run_id)).scalar()
    # The log of runs is the order in which things were said; an item may have come much later.
    before = item.created_at if own is None else own
    found = connection.execute(
        select(runs.c.id, runs.c.call, runs.c.result, runs.c.state)
        .where(runs.c.tenant == call.tenant, runs.c.conversation_id == call.conversation_id)
        .where(or_(runs.c.created_at < before, (runs.c.created_at == before) & (runs.c.id < item.run_id)))
        .where(runs.c.id != item.run_id)
        .order_by(runs.c.created_at.desc(), runs.c.id.desc())
        .limit(limit + 1)
    ).all()
    earlier = tuple(_turn(row) for row in reversed(found[:limit]))
    return Context(turn=turn, earlier=earlier, left_off=len(found) > limit)


def _turn(row: Any) -> EarlierTurn:
    try:
        question = Call.model_validate_json(row.call).question
        result = None if row.result is None else unpack_result(row.result)
    except (ValidationError, StoreError):  # one damaged row must not hide the item itself
        return EarlierTurn(run_id=row.id, question="(this turn is damaged in the database)", answer=None, ending="")
    if result is None:
        return EarlierTurn(run_id=row.id, question=question, answer=None, ending=row.state)
    ending = row.state if result.state is RunState.WAITING else result.route.value
    answer = _text(result.value) if result.delivered else None
    return EarlierTurn(run_id=row.id, question=question, answer=answer, ending=ending)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, NotStored):
        return value.text
    return json.dumps(value, ensure_ascii=False, default=str)
