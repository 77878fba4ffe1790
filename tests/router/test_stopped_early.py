"""An answer that was stopped early is never answered, on whatever route it came about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from demur.core.decision import Route
from demur.core.protocols import Generation

SURE, UNSURE = -0.02, -3.0


def stopping(model: Any, *places: int) -> Any:
    """Its answers at these places (0 is the first) come stopped early."""
    generate, count = model.generate, iter(range(100))

    def stopped(*given: Any, **options: Any) -> Generation:
        generation = generate(*given, **options)
        if next(count) not in places:
            return generation
        ended = generation.response.model_copy(update={"truncated": True, "stopped_early": "no use"})
        return replace(generation, response=ended)

    model.generate = stopped
    return model


def last(router: Any, result: Any) -> Any:
    return router.log.get(result.run_id).rounds[-1]


def test_a_first_draft(make_router: Any, scripted: Any, go: Any) -> None:
    whole = go(make_router(scripted([("Paris", SURE)])))
    assert (whole.route, whole.value) == (Route.ANSWER, "Paris")
    router = make_router(stopping(scripted([("Paris", SURE)]), 0))
    result = go(router)
    assert result.route in (Route.ABSTAIN, Route.DEFER)
    assert result.value is None
    assert result.confidence.is_prior
    kept = last(router, result)
    assert kept.decision.fallback
    assert "stopped early: no use" in kept.decision.reason
    assert (kept.response.stopped_early, kept.response.text) == ("no use", "Paris")
    assert result.cost.tokens_out == 3  # what was written is paid for


@pytest.mark.parametrize("where", ["retrieve", "escalate"])
def test_a_later_answer_does_not_live_by_how_such_answers_turned_out(
    make_router: Any, scripted: Any, retriever_of: Any, go: Any, where: str
) -> None:
    """`escalate:big` has a measured chance of .95 and no head of its own; a stopped answer is none of those."""

    def routed(stop: bool) -> Any:
        places = (0,) if stop else ()
        if where == "escalate":
            big = stopping(scripted([("Paris", SURE)], name="big"), *places)
            router = make_router(scripted([("Rome", UNSURE)]), larger={"big": big}, fit={"retrieve": False})
        else:
            model = stopping(scripted([("Rome", UNSURE), ("Paris", SURE)]), *(place + 1 for place in places))
            router = make_router(model, retriever=retriever_of())
        return router, go(router)

    _, whole = routed(False)
    assert whole.value == "Paris"
    router, result = routed(True)
    assert result.value is None
    assert last(router, result).confidence is None
    assert "stopped early" in last(router, result).decision.reason
