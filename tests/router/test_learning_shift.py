"""`demur status` shows when the world is no longer the one that a head was fitted on."""

from __future__ import annotations

import io
import random

import pytest
from rich.console import Console

from demur import Call, Settings
from demur.core.database.tables import learned
from demur.core.outcome import Outcome, OutcomeSource
from demur.integrations.cli.status import show
from demur.router.learning.shift import FittedRate
from demur.router.learning.shift_measure import shifts
from demur.router.status import FittedOn, status

PLAIN = {"learning": {"refit_growth": 0.0}}
SURE, UNSURE = -0.02, -3.0


def ask(router, count, rate, *, seed=0, propensity=None, learn=True):
    """Calls of which exactly a share of `rate` turns out right."""
    draw = random.Random(seed)
    grades = [number < round(rate * count) for number in range(count)]
    draw.shuffle(grades)
    for number, right in enumerate(grades):
        result = router.run(Call.ask(f"question {seed}-{number}"))
        outcome = Outcome(
            response_id=result.response_id,
            correct=right,
            source=OutcomeSource.TEST,
            label_propensity=propensity,
            graded_at=router.clock.now(),
        )
        router.queue.outcomes.record(outcome)
        if learn:
            router.learning.catch_up()


def only(router, fitted, **options):
    return shifts(router.database, {"default": fitted}, **options)["default"]


def test_a_shifted_base_rate_is_told_and_what_became_of_it(make_router, scripted):
    router = make_router(scripted(), mode="shadow", settings=PLAIN)
    ask(router, 40, 0.95)
    before = only(router, FittedRate(0.95, "artefact a"))
    assert before.warning is None
    assert before.recent.value == pytest.approx(0.95)
    ask(router, 60, 0.3, seed=1)
    after = only(router, FittedRate(0.95, "artefact a"), recent=60)
    assert (after.recent.value, after.recent.n) == (pytest.approx(0.3), 60)
    assert after.recent.low < 0.3 < after.recent.high < 0.6
    assert "30%" in after.warning
    assert "95% of those that artefact a was fitted on" in after.warning
    assert (after.outcomes, after.behind) == (100, 0)
    assert after.mean_fused > 0.95 > after.mean_said > after.mean_observed == pytest.approx(0.3)
    assert after.smece_after < after.smece_before - 0.1


def test_the_newest_count_and_retracted_ones_do_not(make_router, scripted):
    router = make_router(scripted(), mode="shadow", settings=PLAIN)
    ask(router, 25, 1.0)
    ask(router, 25, 0.0, seed=1)
    assert only(router, None, recent=25).recent.value == 0.0
    assert only(router, None, recent=50).recent.value == pytest.approx(0.5)
    router.queue.outcomes.retract("test")
    found = only(router, None)
    assert (found.recent, found.outcomes, found.behind) == (None, 50, 50)
    router.learning.catch_up()
    assert "default" not in shifts(router.database, {"default": None})


def test_labels_are_weighed_and_those_of_unknown_chance_left_out(make_router, scripted):
    router = make_router(scripted(), mode="shadow", settings=PLAIN)
    ask(router, 20, 1.0, propensity=0.02)
    ask(router, 20, 0.0, seed=1, propensity=1.0)
    ask(router, 3, 0.0, seed=2, propensity=0.0)
    found = only(router, None)
    assert found.recent.value == pytest.approx(1000 / 1020)  # 20 stand for 1,000, 20 for themselves
    assert found.unweighable == 3
    assert (found.fitted, found.warning) == (None, None)


def test_a_head_learned_from_the_log_is_what_now_is_compared_with(make_router, scripted):
    draw = random.Random(3)
    replies = [("x", SURE if draw.random() < 0.6 else UNSURE) for _ in range(70)]
    router = make_router(scripted(replies), mode="shadow", artefact=None, settings=PLAIN)
    for number, (_, logprob) in enumerate(replies):
        result = router.run(Call.ask(f"topic {number * number} of {number}"))
        router.record_outcome(result.response_id, logprob == SURE, source="test")
    found = only(router, FittedRate(0.1, "artefact a"))
    assert (found.fitted, found.head) == (0.1, "artefact a")
    assert "base rate has shifted" in found.warning
    (head,) = router.learn()
    assert head.in_use
    found = only(router, FittedRate(0.1, "artefact a"))
    assert found.head == f"the head learned from the log ({head.head.labels} calls)"
    assert found.fitted == pytest.approx(head.head.right / head.head.labels)
    assert found.warning is None


def test_what_is_not_learned_yet_is_said_and_a_damaged_state_hides_nothing_else(make_router, scripted):
    router = make_router(scripted(), mode="shadow", settings=PLAIN)
    ask(router, 22, 0.5, learn=False)
    router.run(Call.ask("the next call learns"))
    ask(router, 1, 1.0, seed=1, learn=False)
    assert only(router, None).behind == 1
    with router.database.transaction() as connection:
        connection.execute(learned.update().where(learned.c.name == "online").values(state="not JSON"))
    found = only(router, None)
    assert (found.outcomes, found.recent.n) == (0, 23)


def test_status_says_it_in_plain_words(make_router, scripted):
    router = make_router(scripted(), mode="shadow", settings=PLAIN)
    ask(router, 40, 0.25)
    found = status(router.database, Settings(), {"default": FittedOn("art_1", right=90, wrong=10)})
    (task,) = found.tasks
    assert "demur learn --task default" in task.next_steps
    console = Console(file=io.StringIO(), width=300)
    show(found, console)
    said = console.file.getvalue()
    assert "Warning: the base rate has shifted: 25%" in said
    assert "90% of those that artefact art_1 was fitted on" in said
    assert "Online calibration has learned from 40 outcomes" in said
    assert "Calibration error (smECE)" in said
    untouched = status(router.database, Settings(tasks={"other": {}}), {})
    assert next(task for task in untouched.tasks if task.task == "other").shift is None


def test_a_tenant_sees_its_own(make_router, scripted):
    router = make_router(scripted(), mode="shadow", settings=PLAIN)
    ask(router, 5, 1.0)
    assert "default" not in shifts(router.database, {"default": None}, "somebody else")
    assert shifts(router.database, {"default": None}, "default")["default"].recent.n == 5
