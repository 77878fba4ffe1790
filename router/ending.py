"""How a run ends that was broken off: by what its effects say, not by what anybody hopes."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select

from ..core.confidence import Confidence
from ..core.database.tables import effects, rounds, runs
from ..core.decision import Mode, Route
from ..core.run import EffectState, Result, RunState
from ..core.stored_cost import cost_of
from ..core.stored_result import pack_result
from ..core.stored_value import unpack
from ..core.text import limited
from ..review.parents import tell_parent
from ..review.queue import ReviewQueue
from .resumption import approved_item
from .unknown import mark_unknown

ERROR_LIMIT = 10_000


def end_by_effects(
    connection: Connection,
    queue: ReviewQueue,
    run: Row[Any],
    now: datetime,
    *,
    error: str,
    why_unknown: str,
    idempotent_tools: Collection[str] = (),
) -> RunState:
    """Bring an open run to its end, inside the caller's transaction.

    - An effect was started and nobody knows how it ended: `unknown`, and a human is asked.
    - The tool reported a failure: `failed`.
    - The effect is done: `done`, with its stored result.
    - Nothing happened: `failed` with `error`, and the key is free; a run that a human let through `waits` again, and
      so does the parent of a run that a reviewer's edit made.

    Args:
        run: the run's row.
        error: what is stored where nothing happened.
        why_unknown: ends the sentence "the tool was started and ...".
        idempotent_tools: tools that may run again under their key though they were started.
    """
    found = connection.execute(
        select(effects).where(effects.c.run_id == run.id).order_by(effects.c.updated_at, effects.c.idempotency_key)
    ).all()
    by_state: dict[EffectState, list[Row[Any]]] = {state: [] for state in EffectState}
    for effect in found:
        state = EffectState(effect.state)
        harmless = state is EffectState.STARTED and effect.tool_name in idempotent_tools
        if state is EffectState.INTENDED or harmless:
            _free(connection, effect, error, now)
        else:
            by_state[state].append(effect)
    unsure = by_state[EffectState.STARTED] + by_state[EffectState.UNKNOWN]
    if unsure:
        for effect in unsure:
            mark_unknown(connection, queue, effect, why_unknown, now)
        return RunState.UNKNOWN
    reported = [effect for effect in by_state[EffectState.FAILED] if not effect.may_run_again]
    if reported:
        _close(connection, run, RunState.FAILED, now, error=reported[-1].error)
        tell_parent(connection, run.id, now)
        return RunState.FAILED
    if by_state[EffectState.DONE]:
        result = _result(connection, run, unpack(by_state[EffectState.DONE][-1].result or '{"json": null}'))
        _close(connection, run, RunState.DONE, now, result=result)
        tell_parent(connection, run.id, now)
        return RunState.DONE
    if approved_item(connection, run.id) is not None:
        # A human let it through and nothing has happened yet: it can be resumed once more.
        connection.execute(
            runs.update().where(runs.c.id == run.id).values(state=RunState.WAITING.value, updated_at=now)
        )
        return RunState.WAITING
    _close(connection, run, RunState.FAILED, now, error=limited(error, ERROR_LIMIT))
    return RunState.FAILED


def _free(connection: Connection, effect: Row[Any], why: str, now: datetime) -> None:
    connection.execute(
        effects.update()
        .where(effects.c.tenant == effect.tenant, effects.c.idempotency_key == effect.idempotency_key)
        .values(state=EffectState.FAILED.value, error=limited(why, ERROR_LIMIT), may_run_again=True, updated_at=now)
    )


def _close(
    connection: Connection,
    run: Row[Any],
    state: RunState,
    now: datetime,
    *,
    result: Result[Any] | None = None,
    error: str | None = None,
) -> None:
    connection.execute(
        runs.update()
        .where(runs.c.id == run.id)
        .values(
            state=state.value,
            route=None if result is None else result.route.value,
            result=None if result is None else pack_result(result),
            error=error,
            updated_at=now,
            finished_at=now,
        )
    )


def _result(connection: Connection, run: Row[Any], value: Any) -> Result[Any]:
    newest = connection.execute(
        select(rounds.c.response_id, rounds.c.confidence)
        .where(rounds.c.run_id == run.id)
        .order_by(rounds.c.number.desc())
        .limit(1)
    ).one_or_none()
    approved = approved_item(connection, run.id)
    return Result[Any](
        value=value,
        route=Route.ANSWER,
        recommended=Route(run.recommended) if run.recommended else Route.ANSWER,
        mode=Mode(run.mode),
        confidence=Confidence.model_validate_json(newest.confidence) if newest and newest.confidence else None,
        run_id=run.id,
        response_id=newest.response_id if newest else None,
        review_id=None if approved is None else approved.id,
        reason="the run was interrupted after its effect; this is the result that was stored",
        cost=cost_of(run),
    )
