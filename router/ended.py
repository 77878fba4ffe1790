"""What a stored run comes to, for whoever asks about it again."""

from __future__ import annotations

from typing import Any

from ..core.decision import Mode, Route
from ..core.errors import EffectBusy
from ..core.run import Result, Run, RunState


def result_of(run: Run) -> Result[Any]:
    """The stored result of a run that is not at work; put together from what is known where none was stored.

    Raises:
        EffectBusy: it is still at work, or being carried out after it waited.
    """
    if run.state is RunState.OPEN:
        raise EffectBusy(f"run {run.id} with the same idempotency key is still at work; ask again later")
    if run.result is not None and run.result.state is run.state:
        return run.result
    return Result[Any](
        value=None,
        route=Route.DEFER if run.state is RunState.UNKNOWN else Route.ABSTAIN,
        recommended=run.rounds[-1].decision.route if run.rounds else Route.ABSTAIN,
        mode=run.rounds[-1].decision.mode if run.rounds else Mode.ENFORCE,
        confidence=run.rounds[-1].confidence if run.rounds else None,
        run_id=run.id,
        state=run.state,
        reason=run.error or f"the run with this idempotency key is {run.state}",
        cost=run.cost,
    )
