"""What is stored of a run when it is handed to a human."""

from __future__ import annotations

from typing import Any

from ..core.call import Call, CallKind
from ..core.decision import Decision, Mode, Route
from ..core.review_item import ReviewItem, SafeEnd
from ..core.run import Result, Round, RunState


def plain_item(call: Call, round_: Round) -> ReviewItem:
    """The item of a deferral for which the router made none: due at the call's deadline, of no special priority."""
    decision, response = round_.decision, round_.response
    is_tool = call.kind is CallKind.TOOL
    return ReviewItem(
        run_id=decision.run_id,
        decision_id=decision.id,
        response_id=None if response is None else response.id,
        call=call,
        proposed=None if is_tool or response is None or response.stopped_before_generating else response.text,
        confidence=round_.confidence,
        reason=decision.reason,
        on_expiry=SafeEnd.REJECT if is_tool else SafeEnd.ABSTAIN,
        due_at=call.deadline,
    )


def waiting_result(mode: str, round_: Round, review_id: str) -> Result[Any]:
    """What the caller is told while the run waits."""
    decision: Decision = round_.decision
    return Result[Any](
        value=None,
        route=Route.DEFER,
        recommended=decision.route,
        mode=Mode(mode),
        confidence=round_.confidence,
        run_id=decision.run_id,
        response_id=None if round_.response is None else round_.response.id,
        review_id=review_id,
        turn=round_.turn,
        state=RunState.WAITING,
        reason=decision.reason,
    )
