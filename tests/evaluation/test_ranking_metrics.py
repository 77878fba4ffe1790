"""AUPRC, excess AURC, within-question discrimination, the trend along a conversation: metrics of order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn.metrics import average_precision_score

from demur.core.errors import BadInput, ConfigurationError, NotEnoughLabels
from demur.evaluation.metrics.auprc import auprc
from demur.evaluation.metrics.excess_aurc import best_aurc, excess_aurc
from demur.evaluation.metrics.registry import measure
from demur.evaluation.metrics.risk_coverage import aurc
from demur.evaluation.metrics.turn_trend import turn_trend, turn_trend_metric
from demur.evaluation.metrics.within_question import within_question, within_question_metric

ROWS = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.4, 0.5, 0.9]), st.booleans()), min_size=2, max_size=40)


def columns(rows: list[tuple[float, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([row[0] for row in rows]), np.array([float(row[1]) for row in rows])


def test_auprc_by_hand() -> None:
    # Right, wrong, right from the top: precision 1 at recall 1/2, 2/3 at recall 1: (1 + 2/3) / 2.
    assert auprc([0.9, 0.8, 0.7], [1, 0, 1]) == pytest.approx((1 + 2 / 3) / 2)
    # From the bottom the only wrong row is second: precision 1/2.
    assert auprc([0.9, 0.8, 0.7], [1, 0, 1], positive="wrong") == pytest.approx(0.5)
    assert auprc([0.5] * 4, [1, 0, 0, 0]) == pytest.approx(0.25)
    with pytest.raises(NotEnoughLabels):
        auprc([0.5, 0.6], [0, 0])
    with pytest.raises(ConfigurationError):
        auprc([0.5], [1], positive="both")  # type: ignore[arg-type]


@given(ROWS)
def test_auprc_agrees_with_scikit_learn(rows: list[tuple[float, bool]]) -> None:
    scores, correct = columns(rows)
    if correct.any():
        assert auprc(scores, correct) == pytest.approx(average_precision_score(correct, scores))
    if not correct.all():
        assert auprc(scores, correct, positive="wrong") == pytest.approx(average_precision_score(1 - correct, -scores))


def test_excess_aurc_by_hand() -> None:
    # Right, wrong, right: risks 0, 1/2, 1/3; the best order has 0, 0, 1/3. Excess (1/2) / 3.
    assert excess_aurc([0.9, 0.8, 0.7], [1, 0, 1]) == pytest.approx(1 / 6)
    assert excess_aurc([0.9, 0.8, 0.1], [1, 1, 0]) == pytest.approx(0.0, abs=1e-12)
    # H_3 - H_2 = 1/3: 1 - 2/3 - 2/3 · 1/3 = 1/9, the mean of 0, 0, 1/3.
    assert best_aurc(np.array([2.0]), np.array([3.0]))[0] == pytest.approx(1 / 9)


@given(ROWS)
def test_excess_aurc_is_what_is_above_the_best_order(rows: list[tuple[float, bool]]) -> None:
    scores, correct = columns(rows)
    found = excess_aurc(scores, correct)
    best = aurc(correct + np.linspace(0.0, 0.1, correct.size), correct)
    assert found == pytest.approx(aurc(scores, correct) - best, abs=1e-9)
    assert excess_aurc(np.exp(scores), correct) == pytest.approx(found)


def test_within_question_by_hand() -> None:
    # a: right .9 over wrong .5 won, over wrong .9 tied. b: right .2 under wrong .3 lost. c: no pair.
    found = within_question([0.9, 0.5, 0.9, 0.2, 0.3, 0.7], [1, 0, 0, 1, 0, 1], ["a", "a", "a", "b", "b", "c"])
    assert (found.discrimination, found.ties, found.pairs) == (0.5, pytest.approx(1 / 3), 3)
    nothing = within_question([0.5, 0.6], [1, 1], ["a", "a"])
    assert (nothing.discrimination, nothing.ties, nothing.pairs) == (None, None, 0)


def test_within_question_sees_what_auroc_hides() -> None:
    # Confidence follows the question's difficulty only: AUROC is high, within a question it is chance.
    draw = np.random.default_rng(0)
    easy = np.repeat(draw.random(300), 4)
    correct = (draw.random(1200) < easy).astype(float)
    scores = easy + draw.normal(size=1200) * 1e-6
    questions = np.repeat(np.arange(300), 4)
    assert measure("auroc", scores, correct).value > 0.75
    found = measure(within_question_metric(questions), scores, correct, groups=questions)
    assert found.low < 0.5 < found.high
    assert found.value == pytest.approx(within_question(scores, correct, questions).discrimination)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.floats(0, 1)), min_size=2, max_size=30))
def test_the_trend_is_the_mean_of_kendalls_tau(rows: list[tuple[int, int, float]]) -> None:
    conversations, turns, scores = (np.array([row[k] for row in rows]) for k in range(3))
    expected = []
    for each in np.unique(conversations):
        mine = conversations == each
        if np.unique(turns[mine]).size > 1:
            constant = np.unique(scores[mine]).size == 1
            expected.append(0.0 if constant else float(kendalltau(turns[mine], scores[mine])[0]))
    if not expected:
        with pytest.raises(NotEnoughLabels):
            turn_trend(scores, turns, conversations)
        return
    assert turn_trend(scores, turns, conversations) == pytest.approx(np.mean(expected))


def test_the_trend_has_an_interval_over_conversations() -> None:
    draw = np.random.default_rng(1)
    conversations, turns = np.repeat(np.arange(40), 5), np.tile(np.arange(1, 6), 40)
    scores = turns + draw.normal(size=200) * 2
    found = measure(turn_trend_metric(turns, conversations), scores, np.ones(200), groups=conversations)
    assert 0.0 < found.low < found.value < found.high < 1.0
    with pytest.raises(BadInput):
        turn_trend([0.5, np.nan], [1, 2], ["a", "a"])
