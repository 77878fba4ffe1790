"""What the labels of a task say about all of its calls, through the real router."""

from __future__ import annotations

import random

from demur import Call
from demur.core.run import RunState
from demur.router.label_coverage import judged_calls, label_coverage
from demur.testing import Reviewer


def worked(make_router, scripted, rate, count=300):
    """Unsure answers are deferred and graded in the queue, of sure ones the draw is: as in a real week."""
    draw = random.Random(3)
    levels = [draw.choice([-0.02, -0.15, -1.4]) for _ in range(count)]
    router = make_router(
        scripted([(f"answer {number}", level) for number, level in enumerate(levels)]),
        settings={"policy": {"label_rate": rate}, "learning": {"refit_growth": 0.0, "online": False}},
    )
    truth = []
    for number in range(count):
        result = router.run(Call.ask(f"question {number}"))
        truth.append(draw.random() < result.confidence.value)
    reviewer = Reviewer(router)
    right = {router_run: truth[number] for number, router_run in enumerate(_runs_in_order(router))}
    for item in reviewer.waiting():
        (reviewer.approve if right[item.run_id] else reviewer.reject)(item.id)
    with router.database.reading() as connection:
        calls = judged_calls(connection, router.queue.outcomes, "default")
    waited = sum(run.state is not RunState.OPEN for run in router.log.list(limit=count))
    return label_coverage(calls), sum(truth) / count, waited


def _runs_in_order(router):
    listed = router.log.list(limit=1000)
    return [run.id for run in sorted(listed, key=lambda run: int(run.call.question.split()[-1]))]


def test_naive_is_wrong_and_weighted_is_right(make_router, scripted):
    found, truth, _ = worked(make_router, scripted, rate=0.3)
    assert found.naive.high < truth - 0.05
    assert found.weighted.low <= truth <= found.weighted.high
    assert found.refused is None


def test_without_draws_it_is_refused_and_the_blind_region_is_named(make_router, scripted):
    found, truth, _ = worked(make_router, scripted, rate=0.0)
    assert found.naive.high < truth
    assert found.weighted is None
    assert "were never going to be graded" in found.refused
    said = [str(region) for region in found.blind]
    assert any(text.startswith("answer, at confidence 0.8–1.0") and "ever going to be graded" in text for text in said)
