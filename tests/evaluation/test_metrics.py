"""Metrics against hand-worked values, scikit-learn and relplot, and properties that must hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, roc_auc_score
from sklearn.metrics import log_loss as sklearn_log_loss

from demur.core.errors import BadInput, ConfigurationError, NotEnoughLabels
from demur.evaluation.estimate import Estimate
from demur.evaluation.evaluate import evaluate
from demur.evaluation.metrics.auroc import auroc, auroc_statistic
from demur.evaluation.metrics.bootstrap import bootstrap
from demur.evaluation.metrics.brier import brier, brier_minus_base_rate
from demur.evaluation.metrics.ece import debiased_squared_ece, equal_mass_bins
from demur.evaluation.metrics.log_loss import log_loss
from demur.evaluation.metrics.means import mean_statistic
from demur.evaluation.metrics.paired import paired_difference
from demur.evaluation.metrics.proportion import proportion
from demur.evaluation.metrics.registry import METRICS
from demur.evaluation.metrics.risk_coverage import (
    answered_at_coverage,
    aurc,
    coverage_at_risk,
    risk_coverage_curve,
    selective_accuracy,
)
from demur.evaluation.metrics.smece import smece, smece_statistic

scored = st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=2, max_size=60).filter(
    lambda rows: len({right for _, right in rows}) == 2
)


def _split(rows):
    return np.array([score / 20 for score, _ in rows]), np.array([right for _, right in rows], dtype=float)


def _calibrated(n, seed=0):
    generator = np.random.default_rng(seed)
    confidence = generator.uniform(size=n)
    return confidence, (generator.uniform(size=n) < confidence).astype(float)


def test_auroc_by_hand():
    # Right .8 and .5, wrong .5 and .1: of four pairs three are won and one tied.
    assert auroc([0.8, 0.5, 0.5, 0.1], [1, 1, 0, 0]) == 3.5 / 4
    assert auroc([3, 2, 1], [1, 0, 0]) == 1.0
    assert auroc([5, 5, 5], [1, 0, 1]) == 0.5


@given(scored)
def test_auroc_properties(rows):
    scores, correct = _split(rows)
    value = auroc(scores, correct)
    assert 0.0 <= value <= 1.0
    assert value == pytest.approx(roc_auc_score(correct, scores))
    assert auroc(np.exp(3 * scores) - 7, correct) == value
    assert auroc(scores, 1 - correct) == pytest.approx(1 - value)
    assert auroc(-scores, correct) == pytest.approx(1 - value)


def test_auroc_of_a_resample_is_auroc_of_the_repeated_rows():
    scores, correct = _calibrated(40)
    weights = np.random.default_rng(1).integers(0, 4, size=(5, 40)).astype(float)
    values = auroc_statistic(scores, correct)(weights)
    for row, value in zip(weights.astype(int), values, strict=True):
        assert value == pytest.approx(roc_auc_score(np.repeat(correct, row), np.repeat(scores, row)))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None])
def test_a_score_that_is_no_number_is_named(bad):
    with pytest.raises(BadInput, match=r"confidence\[1\]"):
        auroc([0.1, bad, 0.3], [0, 1, 1])


@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [
        ([], [], "empty"),
        ([0.1], [0, 1], "lengths differ"),
        ([0.1, 1.1], [0, 1], r"confidence\[1\] is 1.1, outside"),
        ([0.1, 0.2], [0, 0.5], r"correct\[1\] is 0.5"),
        ([0.1, 0.2], [0, math.nan], r"correct\[1\]"),
        (["a", "b"], [0, 1], "not a number"),
        ([[0.1], [0.2]], [0, 1], "shape"),
        ([0.1, object()], [0, 1], "index 1"),
    ],
)
def test_every_probability_metric_refuses_bad_input(confidence, correct, message):
    for metric in (brier, log_loss, smece, debiased_squared_ece, brier_minus_base_rate, evaluate):
        with pytest.raises(BadInput, match=message):
            metric(confidence, correct)


def test_one_class_has_no_auroc():
    with pytest.raises(NotEnoughLabels, match="all 2 are right"):
        auroc([0.1, 0.2], [1, 1])


def test_brier_and_log_loss_by_hand():
    assert brier([1.0, 0.5, 0.2], [1, 0, 1]) == pytest.approx((0 + 0.25 + 0.64) / 3)
    assert log_loss([0.5, 0.25], [1, 0]) == pytest.approx((math.log(2) - math.log(0.75)) / 2)
    assert log_loss([0.0], [1]) == pytest.approx(36.04, abs=0.01)


@given(scored)
def test_losses_equal_scikit_learn(rows):
    confidence, correct = _split(rows)
    assert brier(confidence, correct) == pytest.approx(brier_score_loss(correct, confidence))
    assert log_loss(confidence, correct) == pytest.approx(sklearn_log_loss(correct, confidence, labels=[0, 1]))


def test_brier_against_the_base_rate_by_hand():
    here = brier_minus_base_rate([0.9, 0.1], [1, 0])
    assert here.value == pytest.approx(0.01 - 0.25)
    elsewhere = brier_minus_base_rate([0.9, 0.1], [1, 0], base_rate=0.8)
    assert elsewhere.value == pytest.approx(0.01 - (0.04 + 0.64) / 2)
    with pytest.raises(BadInput, match="base_rate"):
        brier_minus_base_rate([0.9, 0.1], [1, 0], base_rate=1.5)


def test_smece_tells_calibrated_from_not():
    confidence, correct = _calibrated(4000)
    assert smece(confidence, correct) < 0.03
    assert smece(np.sqrt(confidence), correct) > 0.1
    assert smece([0.9] * 100, [0] * 100) == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("width", [0.02, 0.1, 0.4])
def test_smece_of_resamples_is_relplots(width):
    import relplot

    confidence, correct = _calibrated(500)
    confidence = 0.1 + 0.8 * confidence
    ours = smece_statistic(confidence, correct, width)(np.ones((1, 500)))[0]
    assert ours == pytest.approx(relplot.smECE_sigma(confidence, correct, width), rel=0.02)


def test_debiased_error_by_hand():
    # Two bins: p .2 with labels 0 0 1, p .8 with labels 1 1 0. Each (2/15)² − (2/9)/2.
    confidence, correct = [0.2] * 3 + [0.8] * 3, [0, 0, 1, 1, 1, 0]
    assert debiased_squared_ece(confidence, correct, bins=2) == pytest.approx((2 / 15) ** 2 - 1 / 9)


def test_debiased_error_is_about_zero_when_calibrated():
    errors = [debiased_squared_ece(*_calibrated(500, seed)) for seed in range(40)]
    assert abs(np.mean(errors)) < 0.001
    assert min(errors) < 0 < max(errors)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=80), st.integers(1, 20))
def test_bins_keep_ties_together_and_nobody_alone(values, bins):
    confidence = np.array(values) / 9
    codes = equal_mass_bins(confidence, bins)
    assert np.bincount(codes).min() >= 2
    assert codes.max() < bins
    for value in np.unique(confidence):
        assert np.unique(codes[confidence == value]).size == 1
    assert (np.diff(codes[np.argsort(confidence)]) >= 0).all()


def test_risk_coverage_by_hand():
    confidence, correct = [0.9, 0.8, 0.7, 0.6], [1, 1, 0, 1]
    curve = risk_coverage_curve(confidence, correct)
    assert curve.coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert curve.risk.tolist() == pytest.approx([0, 0, 1 / 3, 1 / 4])
    assert curve.threshold.tolist() == confidence
    assert aurc(confidence, correct) == pytest.approx((1 / 3 + 1 / 4) / 4)
    assert selective_accuracy(confidence, correct, 0.5) == 1.0
    assert selective_accuracy(confidence, correct, 0.51) == pytest.approx(2 / 3)
    assert coverage_at_risk(confidence, correct, 0.0) == 0.5
    assert coverage_at_risk(confidence, correct, 0.25) == 1.0


def test_ties_are_one_threshold():
    confidence, correct = [0.9, 0.5, 0.5, 0.5], [0, 1, 1, 1]
    assert risk_coverage_curve(confidence, correct).coverage.tolist() == [0.25, 1.0]
    assert answered_at_coverage(confidence, 0.5).sum() == 4
    assert coverage_at_risk(confidence, correct, 0.1) == 0.0
    assert aurc([0.5] * 4, [1, 1, 0, 1]) == 0.25


@given(scored, st.permutations(range(5)))
def test_risk_coverage_ignores_order_and_scale(rows, order):
    confidence, correct = _split(rows)
    value = aurc(confidence, correct)
    assert 0.0 <= value <= 1.0
    places = np.concatenate([np.flatnonzero(np.arange(len(correct)) % 5 == part) for part in order])
    assert aurc(confidence[places] ** 3, correct[places]) == pytest.approx(value)
    assert coverage_at_risk(confidence, correct, 1.0) == 1.0


@pytest.mark.parametrize("coverage", [0.0, 1.1, math.nan])
def test_a_coverage_that_cannot_be_is_refused(coverage):
    with pytest.raises(ConfigurationError):
        selective_accuracy([0.1, 0.2], [0, 1], coverage)


def test_proportion_by_hand():
    assert proportion("p", []).value is None
    none = proportion("p", [0] * 10)
    assert (none.value, none.low) == (0.0, 0.0)
    # Beta(1, 11) has the quantile function 1 − (1 − q)^(1/11).
    assert none.high == pytest.approx(1 - 0.025 ** (1 / 11))
    assert proportion("p", [1] * 10).low == pytest.approx(0.025 ** (1 / 11))


def test_repeated_rows_do_not_narrow_a_proportion():
    hits = np.random.default_rng(0).integers(0, 2, 50)
    once = proportion("p", hits)
    tenfold = proportion("p", np.repeat(hits, 10), groups=np.repeat(np.arange(50), 10))
    assert tenfold.value == once.value
    assert tenfold.high - tenfold.low == pytest.approx(once.high - once.low, rel=0.05)
    naive = proportion("p", np.repeat(hits, 10))
    assert naive.high - naive.low < 0.5 * (tenfold.high - tenfold.low)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_bootstrap_covers_the_mean(method):
    hit = 0
    for seed in range(100):
        values = np.random.default_rng(seed).exponential(size=60)
        interval = bootstrap(mean_statistic(values), 60, seed=seed, resamples=400, method=method)
        hit += interval.low <= 1.0 <= interval.high
    assert 86 <= hit <= 99


def test_bca_equals_scipys():
    from scipy.stats import bootstrap as scipy_bootstrap

    values = np.random.default_rng(3).exponential(size=40)
    theirs = scipy_bootstrap((values,), np.mean, n_resamples=20_000, method="BCa", rng=0).confidence_interval
    ours = bootstrap(mean_statistic(values), 40, resamples=20_000, method="bca")
    assert ours.low == pytest.approx(theirs.low, abs=0.01)
    assert ours.high == pytest.approx(theirs.high, abs=0.015)


def test_bootstrap_draws_groups_whole():
    values = np.repeat(np.random.default_rng(0).normal(size=30), 8)
    grouped = bootstrap(mean_statistic(values), 240, groups=np.repeat([f"g{i}" for i in range(30)], 8))
    alone = bootstrap(mean_statistic(values), 240)
    assert grouped.high - grouped.low > 2 * (alone.high - alone.low)


def test_bootstrap_is_seeded_and_says_when_it_cannot():
    values = np.arange(20.0)
    assert bootstrap(mean_statistic(values), 20, seed=1) == bootstrap(mean_statistic(values), 20, seed=1)
    assert bootstrap(mean_statistic(values), 20, seed=1) != bootstrap(mean_statistic(values), 20, seed=2)
    assert "one group" in bootstrap(mean_statistic(values), 20, groups=[0] * 20).reason
    assert "agree" in bootstrap(mean_statistic(np.ones(20)), 20).reason
    scores, labels = np.arange(20.0), np.eye(20)[10]
    rare = bootstrap(auroc_statistic(scores, labels), 20)
    assert rare.low is None
    assert 300 < rare.undefined < 420  # (19/20)^20 = .358 of 1000
    with pytest.raises(ConfigurationError):
        bootstrap(mean_statistic(values), 20, resamples=10)
    with pytest.raises(BadInput, match="groups"):
        bootstrap(mean_statistic(values), 20, groups=[1, 2])
    with pytest.raises(BadInput, match=r"groups\[0\]"):
        bootstrap(mean_statistic(values), 20, groups=[None] + [1] * 19)


def test_paired_difference():
    confidence, correct = _calibrated(400)
    noisy = np.clip(confidence + np.random.default_rng(5).normal(0, 0.4, 400), 0, 1)
    better = paired_difference(confidence, noisy, correct)
    assert better.name == "auroc_difference"
    assert better.value == pytest.approx(roc_auc_score(correct, confidence) - roc_auc_score(correct, noisy))
    assert 0 < better.low < better.value < better.high
    worse = paired_difference(noisy, confidence, correct)
    assert worse.value == pytest.approx(-better.value)
    assert worse.low == pytest.approx(-better.high)
    assert paired_difference(confidence, noisy, correct, metric="brier").high < 0
    same = paired_difference(confidence, confidence, correct)
    assert (same.value, same.low) == (0.0, None)
    assert paired_difference([0.1, 0.2], [0.3, 0.1], [1, 1]).value is None
    with pytest.raises(BadInput, match="outside"):
        paired_difference([2.0, 1.0], [0.1, 0.2], [0, 1], metric="brier")
    with pytest.raises(ConfigurationError, match="accuracy"):
        paired_difference([0.1], [0.1], [1], metric="accuracy")


def test_evaluate_gives_every_metric_with_an_interval():
    confidence, correct = _calibrated(300)
    found = evaluate(confidence, correct, base_rate=0.4)
    assert set(found) == {
        "accuracy", "auroc", "brier", "brier_base_rate", "brier_minus_base_rate", "log_loss", "smece",
        "ece_squared_debiased", "aurc", "selective_accuracy_at_50_coverage", "selective_accuracy_at_80_coverage",
        "coverage_at_risk_05", "coverage_at_risk_10", "coverage_at_risk_20", *METRICS,
    }  # fmt: skip
    for name, item in found.items():
        assert item.name == name
        assert item.low <= item.value <= item.high, name
        assert item.reason is None
        assert item.n == {"selective_accuracy_at_50_coverage": 150, "selective_accuracy_at_80_coverage": 240}.get(
            name, 300
        )
    assert found["auroc"].value == pytest.approx(roc_auc_score(correct, confidence))
    assert found["brier"].value == pytest.approx(brier_score_loss(correct, confidence))
    assert found["brier_base_rate"].value == pytest.approx(np.mean((0.4 - correct) ** 2))
    assert found["smece"].value == smece(confidence, correct)
    assert found["smece"].low == 0.0  # calibrated: an error of this size may be none
    assert evaluate(confidence, correct, base_rate=0.4) == found
    assert set(found["auroc"].as_row()) == {"value", "low", "high", "n"}


def test_evaluate_sees_miscalibration():
    confidence, correct = _calibrated(1500)
    assert evaluate(np.sqrt(confidence), correct)["smece"].low > 0.05


@pytest.mark.parametrize("label", [0, 1])
def test_one_class_gives_reasons_not_a_crash(label):
    found = evaluate([0.2, 0.4, 0.9], [label] * 3)
    assert found["auroc"].value is None
    assert "AUROC needs both" in found["auroc"].reason
    assert found["accuracy"].value == label
    assert found["brier"].low < found["brier"].high


def test_one_row_and_perfect_separation():
    single = evaluate([0.9], [1])
    assert single["brier"].value == pytest.approx(0.01)
    assert "one group" in single["brier"].reason
    perfect = evaluate([0.9, 0.8, 0.2, 0.1], [1, 1, 0, 0])["auroc"]
    assert (perfect.value, perfect.high) == (1.0, 1.0)
    assert perfect.low == pytest.approx(0.025 ** (1 / 3))  # two rows of each class


@settings(max_examples=15, deadline=None)
@given(scored)
def test_evaluate_never_contradicts_itself(rows):
    confidence, correct = _split(rows)
    for item in evaluate(confidence, correct, groups=[i // 2 for i in range(len(correct))], resamples=100).values():
        assert item.value is not None or item.reason
        if item.low is not None:
            assert item.low <= item.value <= item.high


def test_an_estimate_must_be_whole():
    with pytest.raises(ValueError, match="upside down"):
        Estimate(name="m", value=1, low=2, high=1, n=3)
    with pytest.raises(ValueError, match="reason"):
        Estimate(name="m", value=None, n=3)
    with pytest.raises(ValueError, match="one end"):
        Estimate(name="m", value=1, low=0, n=3)
    with pytest.raises(ValueError):
        Estimate(name="m", value=math.nan, low=0, high=1, n=3)
    row = Estimate(name="m", value=None, n=3, reason="no rows").as_row()
    assert row == {"value": None, "low": None, "high": None, "n": 3, "reason": "no rows"}
