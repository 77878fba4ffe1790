"""What holds of every metric: monotone maps, a perfect score, a constant one, repeated rows."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.evaluation.evaluate import evaluate
from demur.evaluation.metrics.bas import bas
from demur.evaluation.metrics.etcu import THRESHOLDS, etcu
from demur.evaluation.metrics.registry import METRICS
from demur.evaluation.metrics.turn_trend import turn_trend
from demur.evaluation.metrics.within_question import within_question

RANKED = [name for name, metric in METRICS.items() if not metric.probabilities]
# Odd sixteenths: none is a tie after any of the maps, and none is at a threshold.
SCORES = st.sampled_from([k / 16 for k in range(1, 16, 2)])
ROWS = st.lists(st.tuples(SCORES, st.booleans()), min_size=2, max_size=30)

# 4 right and 4 wrong rows.
LABELS = np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0])


def value_of(name: str, scores: np.ndarray, labels: np.ndarray) -> float:
    return float(METRICS[name].build(scores, labels)(np.ones((1, labels.size)))[0])


@pytest.mark.parametrize("name", RANKED)
@given(ROWS)
@settings(max_examples=30)
def test_metrics_of_order_do_not_see_the_scale(name: str, rows: list[tuple[float, bool]]) -> None:
    scores, labels = np.array([row[0] for row in rows]), np.array([float(row[1]) for row in rows])
    found = value_of(name, scores, labels)
    for mapped in (np.log(scores), 1000.0 * scores - 7.0, scores**5, np.log(scores / (1.0 - scores))):
        assert value_of(name, mapped, labels) == pytest.approx(found, nan_ok=True)


@given(st.lists(st.tuples(SCORES, st.booleans(), st.integers(0, 3)), min_size=2, max_size=20))
def test_nor_do_those_within_questions_and_conversations(rows: list[tuple[float, bool, int]]) -> None:
    scores, labels, members = (np.array([float(row[k]) for row in rows]) for k in range(3))
    assert within_question(np.log(scores), labels, members) == within_question(scores, labels, members)
    turns = np.arange(1, len(rows) + 1)
    if max(np.unique(members, return_counts=True)[1]) > 1:
        assert turn_trend(scores**3, turns, members) == pytest.approx(turn_trend(scores, turns, members))


def test_a_perfect_order_has_the_best_value_of_every_metric_of_order() -> None:
    scores = np.arange(8.0)[::-1]
    # AURC: risks 0 for the first four, then 1/5, 2/6, 3/7, 4/8, over 8 rows.
    best = dict.fromkeys(RANKED, 1.0) | {
        "aurc": (1 / 5 + 2 / 6 + 3 / 7 + 4 / 8) / 8,
        "excess_aurc": 0.0,
        "selective_accuracy_at_80_coverage": 4 / 7,  # 7 of 8 rows are the fewest that make 80 %
        "coverage_at_risk_05": 4 / 8,
        "coverage_at_risk_10": 4 / 8,
        "coverage_at_risk_20": 5 / 8,  # one wrong of five
    }
    assert {name: value_of(name, scores, LABELS) for name in RANKED} == pytest.approx(best, abs=1e-12)


def test_certain_and_right_has_the_best_value_of_every_metric_of_probabilities() -> None:
    clip = 1e-4
    bas_of_wrong = {"uniform": clip + math.log1p(-clip), "linear": clip**2 + 2 * clip + 2 * math.log1p(-clip)}
    expected = {
        "brier": 0.0,
        "brier_reliability": 0.0,
        "brier_resolution": 0.25,
        "brier_uncertainty": 0.25,
        "log_loss": 0.0,
        "smece": 0.0,
        "ece_squared_debiased": 0.0,
        "ece_15_equal_width": 0.0,
        "ece_15_equal_mass": 0.0,
        "bas_uniform": (1 - clip + bas_of_wrong["uniform"]) / 2,
        "bas_linear": ((1 - clip) ** 2 + bas_of_wrong["linear"]) / 2,
        "etcu_10": 0.5,
        "etcu_50": 0.5,
        "etcu_90": 0.5,
        "etcu_auc": 0.5,
        # Blind to direction in the low band: half of the extreme rows count as wrong, e^0 − 1.
        "th_score": 0.0,
        "confidence_weighted_accuracy": 1.0,
    }
    found = {name: value_of(name, LABELS, LABELS) for name in expected}
    assert found == pytest.approx(expected, abs=1e-9)
    assert value_of("smece_excess", LABELS, LABELS) == pytest.approx(0.0, abs=0.005)


def test_a_constant_tells_nothing_apart() -> None:
    scores, labels = np.full(8, 0.7), np.array([1.0, 1, 1, 1, 1, 1, 0, 0])  # 3/4 right
    expected = {
        "auroc": 0.5,
        "auprc_right": 0.75,
        "auprc_wrong": 0.25,
        "aurc": 0.25,
        # Against 1/7 and 2/8 after six right rows, over 8.
        "excess_aurc": 0.25 - (1 / 7 + 2 / 8) / 8,
        "selective_accuracy_at_50_coverage": 0.75,
        "selective_accuracy_at_80_coverage": 0.75,
        "coverage_at_risk_05": 0.0,
        "coverage_at_risk_10": 0.0,
        "coverage_at_risk_20": 0.0,
        "brier": 0.75 * 0.09 + 0.25 * 0.49,
        "brier_reliability": 0.05**2,
        "brier_resolution": 0.0,
        "brier_uncertainty": 3 / 16,
        "log_loss": -0.75 * math.log(0.7) - 0.25 * math.log(0.3),
        "ece_squared_debiased": 0.05**2 - (3 / 16) / 7,
        "ece_15_equal_width": 0.05,
        "ece_15_equal_mass": 0.05,
        "bas_uniform": 0.7 + 0.25 * math.log(0.3),
        "etcu_10": 0.75 - 0.25 / 9,
        "etcu_50": 0.75 - 0.25,
        "etcu_90": 0.0,
        "th_score": 0.0,
        "confidence_weighted_accuracy": 0.75,
    }
    assert {name: value_of(name, scores, labels) for name in expected} == pytest.approx(expected)
    assert value_of("smece", scores, labels) <= 0.05 + 1e-9


@pytest.mark.parametrize("name", METRICS)
def test_rows_drawn_twice_count_twice(name: str) -> None:
    draw = np.random.default_rng(5)
    scores, labels = draw.integers(1, 40, 60) / 41, (draw.random(60) < 0.6).astype(float)
    statistic = METRICS[name].build(scores, labels)
    counts = draw.integers(0, 3, 60)
    drawn = float(statistic(counts[None, :].astype(float))[0])
    repeated = METRICS[name].build(np.repeat(scores, counts), np.repeat(labels, counts))
    if METRICS[name].method == "centred" and ("ece" in name):
        # Bins, kernel width and percentile are those of all rows, not of the resample.
        assert np.isfinite(drawn)
    else:
        assert drawn == pytest.approx(float(repeated(np.ones((1, counts.sum())))[0]))


def test_a_confidence_at_a_threshold_is_not_above_it_whatever_the_rounding() -> None:
    assert [threshold for threshold in THRESHOLDS if etcu([threshold], [1], threshold) != 0.0] == []
    assert [threshold for threshold in THRESHOLDS if etcu([threshold + 1e-9], [1], threshold) != 1.0] == []


@given(ROWS)
def test_always_hedging_is_worth_more_than_certain_error(rows: list[tuple[float, bool]]) -> None:
    labels = np.array([float(row[1]) for row in rows])
    assert bas(np.zeros(labels.size), labels) == pytest.approx(0.0, abs=2e-4)
    if not labels.all():
        assert bas(np.ones(labels.size), labels) < bas(np.full(labels.size, 0.5), labels) or labels.mean() > 0.9


def test_the_page_names_every_metric_with_its_file() -> None:
    room = Path(__file__).resolve().parents[2]
    page = (room / "docs" / "metrics.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", page))
    related = {"within_question_discrimination", "within_question_ties", "turn_trend", "info_ece"}
    draw = np.random.default_rng(6)
    given = evaluate(draw.random(40), draw.integers(0, 2, 40), resamples=100, null_draws=100)
    assert (set(METRICS) | set(given) | related) - named == set()
    files = re.findall(r"`(\w+\.py)`", page)
    assert files and [each for each in files if not (room / "evaluation" / "metrics" / each).is_file()] == []
