"""What a resolved or expired item does to its run, in the same transaction."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from ..core.call import CallKind
from ..core.database.tables import decisions, effects, rounds, runs
from ..core.decision import Mode, Route
from ..core.review_item import Resolution, ReviewItem, ReviewKind, Verdict
from ..core.run import EffectState, Result, RunState
from ..core.stored_cost import cost_of
from ..core.stored_result import pack_result
from ..core.turn import TurnKind
from .parents import tell_parent


def label_propensity_of(connection: Connection, item: ReviewItem) -> float | None:
    """What the decision behind an item said about its chance to be graded; None where there is no such decision."""
    return connection.execute(
        select(decisions.c.label_propensity).where(decisions.c.id == item.decision_id)
    ).scalar_one_or_none()


def turn_of(connection: Connection, item: ReviewItem) -> TurnKind | None:
    """Which kind of turn the response is that waits; None where there is none."""
    turn = connection.execute(
        select(rounds.c.turn).where(rounds.c.run_id == item.run_id, rounds.c.response_id == item.response_id)
    ).scalar()
    return None if turn is None else TurnKind(turn)


def settle_resolved(connection: Connection, item: ReviewItem, resolution: Resolution, now: datetime) -> None:
    """Carry a resolution over to the run.

    A deferred answer is delivered or withheld at once. An approved or edited tool call stays `waiting`: the router's
    resumption runs it, once. A label changes nothing but the outcomes.
    """
    verdict, note = resolution.verdict, resolution.note
    if item.kind is ReviewKind.EFFECT_UNKNOWN:
        _settle_effect(connection, item, happened=verdict is Verdict.APPROVE, note=note, now=now)
    elif item.kind is ReviewKind.DEFERRED:
        if verdict is Verdict.REJECT:
            _finish(connection, item, Route.ABSTAIN, None, note or "rejected by a reviewer", now)
        elif verdict is Verdict.RESPOND:
            _finish(connection, item, Route.ANSWER, resolution.answer, note or "answered by a reviewer", now)
        elif item.call.kind is CallKind.LLM:
            value = item.proposed if verdict is Verdict.APPROVE else resolution.answer
            reason = "approved by a reviewer" if verdict is Verdict.APPROVE else "corrected by a reviewer"
            _finish(connection, item, Route.ANSWER, value, note or reason, now)


def settle_expired(connection: Connection, item: ReviewItem, now: datetime) -> None:
    """Nobody decided in time: a waiting run abstains. An effect of which nobody knows stays unknown."""
    if item.kind is ReviewKind.DEFERRED:
        _finish(connection, item, Route.ABSTAIN, None, f"nobody decided by {item.due_at}: {item.on_expiry}", now)


def _finish(connection: Connection, item: ReviewItem, route: Route, value: Any, reason: str, now: datetime) -> None:
    """The run's end, unless it is no longer waiting (then the human came too late to change it)."""
    run = connection.execute(
        select(runs).where(runs.c.id == item.run_id, runs.c.state == RunState.WAITING.value)
    ).one_or_none()
    if run is not None:
        result = _result(connection, item, run, route, value, reason)
        _close(connection, item.run_id, RunState.DONE, route, result, None, now)


def _settle_effect(connection: Connection, item: ReviewItem, *, happened: bool, note: str, now: datetime) -> None:
    """The human found out. That it did not happen frees the key: the same call may be made again."""
    connection.execute(
        effects.update()
        .where(effects.c.run_id == item.run_id, effects.c.state == EffectState.UNKNOWN.value)
        .values(
            state=(EffectState.DONE if happened else EffectState.FAILED).value,
            error=None if happened else "a reviewer found that it did not happen",
            may_run_again=not happened,
            updated_at=now,
        )
    )
    run = connection.execute(
        select(runs).where(runs.c.id == item.run_id, runs.c.state == RunState.UNKNOWN.value)
    ).one_or_none()
    if run is None:
        return
    if happened:
        said = note or "a reviewer found that the effect happened; what the tool returned is not known"
        result = _result(connection, item, run, Route.ANSWER, None, said)
        _close(connection, item.run_id, RunState.DONE, Route.ANSWER, result, None, now)
    else:
        error = note or "a reviewer found that the effect did not happen; safe to call again"
        _close(connection, item.run_id, RunState.FAILED, None, None, error, now)


def _result(connection: Connection, item: ReviewItem, run: Any, route: Route, value: Any, reason: str) -> Result[Any]:
    return Result[Any](
        value=value,
        route=route,
        recommended=Route(run.recommended) if run.recommended else Route.DEFER,
        mode=Mode(run.mode),
        confidence=item.confidence,
        run_id=item.run_id,
        response_id=item.response_id,
        review_id=item.id,
        turn=turn_of(connection, item),
        reason=reason,
        cost=cost_of(run),
    )


def _close(
    connection: Connection,
    run_id: str,
    state: RunState,
    route: Route | None,
    result: Result[Any] | None,
    error: str | None,
    now: datetime,
) -> None:
    connection.execute(
        runs.update()
        .where(runs.c.id == run_id)
        .values(
            state=state.value,
            route=None if route is None else route.value,
            result=None if result is None else pack_result(result),
            error=error,
            updated_at=now,
            finished_at=now,
        )
    )
    tell_parent(connection, run_id, now)
