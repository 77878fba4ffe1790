"""Metrics of probabilities: Brier's parts, binned ECE, BAS, ETCU, TH-Score, weighted accuracy, InfoECE."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from demur.core.errors import BadInput, ConfigurationError, NotEnoughLabels
from demur.evaluation.metrics.bas import CLIP, RiskWeight, bas, worst_bas
from demur.evaluation.metrics.binned_ece import binned_ece
from demur.evaluation.metrics.brier import brier
from demur.evaluation.metrics.brier_decomposition import brier_decomposition
from demur.evaluation.metrics.confidence_weighted_accuracy import confidence_weighted_accuracy
from demur.evaluation.metrics.etcu import etcu, etcu_auc
from demur.evaluation.metrics.info_ece import info_ece, normalised_positions
from demur.evaluation.metrics.registry import METRICS, measure
from demur.evaluation.metrics.smece import smece, smece_excess, smece_if_calibrated
from demur.evaluation.metrics.th_score import th_score

ROWS = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=2, max_size=40)


def columns(rows: list[tuple[float, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([row[0] for row in rows]), np.array([float(row[1]) for row in rows])


def test_brier_in_parts_by_hand() -> None:
    # .2: one of two right, recalibrated ½; .8: both right, 1. Rate 3/4: uncertainty 3/16,
    # resolution ((1/4)² + (1/4)²) / 2 = 1/16, reliability (.3² + .2²) / 2 = .065.
    found = brier_decomposition([0.2, 0.2, 0.8, 0.8], [0, 1, 1, 1])
    assert (found.uncertainty, found.resolution, found.reliability) == pytest.approx((3 / 16, 1 / 16, 0.065))


@given(ROWS)
def test_the_parts_of_brier_add_up(rows: list[tuple[float, bool]]) -> None:
    confidence, correct = columns(rows)
    found = brier_decomposition(confidence, correct)
    assert found.reliability - found.resolution + found.uncertainty == pytest.approx(brier(confidence, correct))
    assert min(found.reliability, found.resolution) >= 0.0 and found.uncertainty <= 0.25


def test_binned_ece_by_hand() -> None:
    # Two bins of equal width: (.1, .5) mean .3 against ½; .9 against 1. (2 · .2 + .1) / 3.
    assert binned_ece([0.1, 0.5, 0.9], [0, 1, 1], bins=2) == pytest.approx((2 * 0.2 + 0.1) / 3)
    assert binned_ece([0.1, 0.2, 0.3, 0.9], [0, 0, 1, 1], bins=2, scheme="equal_mass") == pytest.approx(
        (2 * 0.15 + 2 * 0.4) / 4
    )
    with pytest.raises(ConfigurationError):
        binned_ece([0.5], [1], bins=0)
    with pytest.raises(ConfigurationError):
        binned_ece([0.5], [1], scheme="odd")  # type: ignore[arg-type]


WEIGHTS: dict[RiskWeight, object] = {
    "uniform": lambda t: 1.0,
    "linear": lambda t: 2.0 * t,
    "quadratic": lambda t: 3.0 * t * t,
}


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("confidence", [0.05, 0.5, 0.97])
def test_bas_is_the_integral_over_risk_levels(weight: RiskWeight, confidence: float) -> None:
    w = WEIGHTS[weight]
    right = quad(w, 0.0, confidence)[0]  # type: ignore[arg-type]
    wrong = quad(lambda t: -w(t) * t / (1.0 - t), 0.0, confidence)[0]  # type: ignore[operator]
    assert bas([confidence], [1], weight=weight) == pytest.approx(right)
    assert bas([confidence], [0], weight=weight) == pytest.approx(wrong)


def test_the_worst_of_bas_is_set_by_its_clip() -> None:
    # 1 - ε + ln ε at ε = 1e-4.
    assert bas([1.0], [0]) == pytest.approx(1 - CLIP + math.log(CLIP)) == pytest.approx(worst_bas("uniform"))
    assert bas([0.0], [0]) == pytest.approx(0.0, abs=1e-4)
    with pytest.raises(ConfigurationError):
        bas([0.5], [1], clip=0.6)
    with pytest.raises(ConfigurationError):
        bas([0.5], [1], weight="cubic")  # type: ignore[arg-type]


def test_etcu_by_hand() -> None:
    # τ = ½: .6 right +1, .7 wrong -1, .4 withheld, .5 is not above.
    assert etcu([0.6, 0.7, 0.4, 0.5], [1, 0, 1, 1], 0.5) == pytest.approx(0.0)
    # τ = .9: a wrong call costs 9.
    assert etcu([0.95, 0.95], [1, 0], 0.9) == pytest.approx((1 - 9) / 2)
    assert etcu([0.1], [1], 0.1) == 0.0


@given(ROWS)
def test_the_area_under_etcu_is_about_bas(rows: list[tuple[float, bool]]) -> None:
    confidence, correct = columns(rows)
    confidence = np.clip(confidence, 0.0, 0.98)
    assert etcu_auc(confidence, correct) == pytest.approx(bas(confidence, correct), abs=0.04)


def test_th_score_by_hand() -> None:
    # Three of four rows are extreme, two of them right: (e^(2/3 - 1/2) - 1) · 3/4.
    assert th_score([0.95, 0.99, 0.05, 0.5], [1, 0, 1, 0]) == pytest.approx(math.expm1(1 / 6) * 0.75)
    assert th_score([0.5, 0.6], [1, 0]) == 0.0
    with pytest.raises(ConfigurationError):
        th_score([0.5], [1], band=0.7)


def test_confidence_weighted_accuracy_by_hand() -> None:
    assert confidence_weighted_accuracy([0.9, 0.3], [1, 0]) == pytest.approx(0.75)
    assert confidence_weighted_accuracy([0.45, 0.15], [1, 0]) == pytest.approx(0.75)
    with pytest.raises(NotEnoughLabels):
        confidence_weighted_accuracy([0.0, 0.0], [1, 0])


def test_info_ece_by_hand() -> None:
    positions = normalised_positions([1, 2, 1, 2, 4], ["a", "a", "b", "b", "b"])
    assert positions == pytest.approx([0.5, 1.0, 0.25, 0.5, 1.0])
    # Two bins: (.5, .25, .5) mean confidence .5 against 1/3; (1, 1) mean .9 against 1. Each counts the same.
    found = info_ece([0.6, 0.8, 0.4, 0.5, 1.0], [1, 1, 0, 0, 1], positions, bins=2)
    assert found == pytest.approx(((0.5 - 1 / 3) + 0.1) / 2)
    with pytest.raises(BadInput, match="count from 1"):
        normalised_positions([0, 1], ["a", "a"])
    with pytest.raises(BadInput):
        info_ece([0.5], [1], [1.5])


def test_smece_excess_is_what_chance_does_not_explain() -> None:
    draw = np.random.default_rng(2)
    confidence = draw.random(600)
    correct = (draw.random(600) < confidence).astype(float)
    calibrated = smece_excess(confidence, correct)
    assert calibrated.value == pytest.approx(smece(confidence, correct) - smece_if_calibrated(confidence))
    assert calibrated.value < 0.0
    off = smece_excess(confidence**3, correct)
    assert off.value > 0.1 and off.low > 0.0


def test_the_level_is_kept_by_calibrated_forecasts() -> None:
    # At 95 % about one calibrated forecast in twenty shows an excess: of 60, more than 9 would be a 1 in 1,000 chance.
    above = 0
    for seed in range(60):
        draw = np.random.default_rng([3, seed])
        confidence = draw.beta(1, 3, size=150)
        above += smece(confidence, draw.random(150) < confidence) > smece_if_calibrated(
            confidence, draws=200, seed=seed
        )
    assert above <= 9


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_stays_within_its_bounds_and_has_an_interval(name: str) -> None:
    draw = np.random.default_rng(4)
    confidence = draw.random(200)
    correct = (draw.random(200) < confidence).astype(float)
    found = measure(name, confidence, correct, resamples=200)
    low, high = METRICS[name].bounds
    assert low <= found.low <= found.value <= found.high <= high
    assert measure(name, confidence, correct, resamples=200) == found
    with pytest.raises(BadInput):
        measure(name, [0.5, float("nan")], [1, 0])


@pytest.mark.parametrize("name", [name for name, metric in METRICS.items() if metric.probabilities])
def test_metrics_of_probabilities_refuse_other_scores(name: str) -> None:
    with pytest.raises(BadInput):
        measure(name, [0.5, 1.5], [1, 0])
