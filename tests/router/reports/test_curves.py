"""What is drawn agrees with what is measured, and with values worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from demur.evaluation.metrics.auroc import auroc
from demur.evaluation.metrics.risk_coverage import risk_coverage_curve
from demur.router.reports.baselines import PAPER, compare, cross_fitted, tiers
from demur.router.reports.curves import histogram, reliability, roc, utility_over_thresholds
from demur.router.reports.judged import SUM_LOGPROB, judged
from demur.router.reports.single_signals import alone

World = Callable[..., Any]

scored = st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), min_size=2, max_size=40)


def arrays(rows: list[tuple[float, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([score for score, _ in rows]), np.array([float(right) for _, right in rows])


@settings(max_examples=100, deadline=None)
@given(scored)
def test_the_area_under_the_roc_curve_is_auroc(rows: list[tuple[float, bool]]) -> None:
    scores, correct = arrays(rows)
    curve = roc(scores, correct)
    if correct.min() == correct.max():
        assert curve is None
        return
    assert curve is not None
    assert curve.area == pytest.approx(auroc(scores, correct))
    assert (np.diff(curve.wrong_kept) >= 0).all() and (np.diff(curve.right_kept) >= 0).all()
    assert (curve.wrong_kept[-1], curve.right_kept[-1]) == (1.0, 1.0)


def test_the_roc_curve_of_four_rows_by_hand() -> None:
    curve = roc(np.array([0.9, 0.8, 0.8, 0.1]), np.array([1.0, 1.0, 0.0, 0.0]))
    assert curve is not None
    # .9: one right kept; .8: both right and one wrong at once, a tie; .1: everything.
    assert curve.right_kept.tolist() == [0.0, 0.5, 1.0, 1.0]
    assert curve.wrong_kept.tolist() == [0.0, 0.0, 0.5, 1.0]
    assert curve.area == pytest.approx(0.875)


def test_utility_by_hand() -> None:
    confidence, correct = np.array([0.9, 0.75, 0.5, 0.2]), np.array([1.0, 0.0, 1.0, 0.0])
    # Above τ .4: three, of which two are right; a wrong one costs 2/3. Above .7: one right, one wrong at −7/3.
    # Above .75: the right one alone, for .75 is not above itself. Above .95: nothing.
    found = utility_over_thresholds(confidence, correct, np.array([0.4, 0.7, 0.75, 0.95]))
    assert found == pytest.approx([(2 - 2 / 3) / 4, (1 - 7 / 3) / 4, 1 / 4, 0.0])


@settings(max_examples=50, deadline=None)
@given(scored)
def test_a_histogram_counts_every_row_once(rows: list[tuple[float, bool]]) -> None:
    confidence, correct = arrays(rows)
    bins = histogram(confidence, correct)
    assert int(bins.right.sum()) == int(correct.sum())
    assert int(bins.right.sum() + bins.wrong.sum()) == len(rows)


def test_the_last_bin_holds_one() -> None:
    bins = histogram(np.array([0.0, 0.05, 1.0]), np.array([0.0, 1.0, 1.0]))
    assert bins.wrong.tolist()[0] == 1 and bins.right.tolist()[:2] == [0, 1] and bins.right.tolist()[-1] == 1


def test_the_smooth_curve_follows_the_truth_and_its_band_holds_it() -> None:
    draw = np.random.default_rng(1)
    confidence = draw.uniform(0.05, 0.95, 3000)
    truth = confidence**2
    correct = (draw.uniform(size=3000) < truth).astype(float)
    curve = reliability(confidence, correct, np.arange(3000), resamples=200)
    middle = (curve.confidence > 0.15) & (curve.confidence < 0.85)
    truth = curve.confidence**2
    assert curve.observed[middle] == pytest.approx(truth[middle], abs=0.06)
    assert ((curve.low - 0.02 <= truth) & (truth <= curve.high + 0.02))[middle].mean() > 0.9
    assert (curve.low <= curve.observed).all() and (curve.observed <= curve.high).all()
    again = reliability(confidence, correct, np.arange(3000), resamples=200)
    assert np.array_equal(curve.low, again.low)


def test_a_calibrated_confidence_is_drawn_on_the_diagonal_to_its_ends() -> None:
    confidence = np.repeat(np.linspace(0.0, 1.0, 51), 50)
    correct = (np.tile(np.arange(50), 51) < np.round(confidence * 50)).astype(float)  # exactly as promised
    curve = reliability(confidence, correct, np.arange(confidence.size), resamples=200)
    assert curve.observed == pytest.approx(curve.confidence, abs=1e-3)
    assert (curve.confidence[0], curve.confidence[-1]) == (0.0, 1.0)


def test_nothing_is_drawn_where_nothing_speaks() -> None:
    confidence = np.concatenate([np.linspace(0.0, 0.1, 50), np.linspace(0.8, 0.9, 50)])
    correct = (np.arange(100) % 3 == 0).astype(float)
    curve = reliability(confidence, correct, np.arange(100), resamples=100)
    low, high = curve.parts()
    assert curve.confidence[low].max() < 0.5 < curve.confidence[high].min()
    assert curve.confidence[low].size + curve.confidence[high].size == curve.confidence.size


def test_rows_of_one_group_widen_the_band_and_one_group_has_none() -> None:
    draw = np.random.default_rng(2)
    confidence = np.repeat(draw.uniform(size=60), 5)
    correct = np.repeat((draw.uniform(size=60) < 0.5).astype(float), 5)
    together = reliability(confidence, correct, np.repeat(np.arange(60), 5), resamples=200)
    apart = reliability(confidence, correct, np.arange(300), resamples=200)
    assert (together.high - together.low).mean() > 1.5 * (apart.high - apart.low).mean()
    assert np.isnan(reliability(confidence, correct, np.zeros(300, dtype=int)).low).all()


def test_one_signal_alone_is_turned_so_that_higher_is_surer() -> None:
    draw = np.random.default_rng(3)
    correct = (draw.uniform(size=200) < 0.5).astype(float)
    good = correct + draw.normal(size=200)
    some = np.where(np.arange(200) < 20, np.nan, -good)
    signals = {"bad": draw.normal(size=200), "good": good, "turned": some, "none": np.full(200, np.nan)}
    found = {one.name: one for one in alone(signals, correct, np.arange(200))}
    assert set(found) == {"bad", "good", "turned"}
    assert not found["good"].lower_is_surer and found["turned"].lower_is_surer
    assert found["turned"].n == 180
    assert found["good"].auroc == pytest.approx(roc_auc_score(correct, good))
    assert found["turned"].auroc == pytest.approx(roc_auc_score(correct[20:], good[20:]))
    for one in found.values():
        assert one.low is not None and one.high is not None and one.low <= one.auroc <= one.high
    assert found["bad"].low is not None and found["bad"].low < 0.5


def test_perfect_separation_of_few_rows_is_not_certain() -> None:
    correct = np.array([1.0] * 4 + [0.0] * 8)
    (one,) = alone({"perfect": correct * 2.0}, correct, np.arange(12))
    assert one.auroc == 1.0 and one.high == 1.0
    # Beta(1, 1) after 4 of 4: the lower end is .025^(1/5).
    assert one.low == pytest.approx(0.025 ** (1 / 5))
    assert alone({"constant": np.ones(12)}, np.ones(12), np.arange(12)) == []


def test_the_figures_of_the_comparison_are_those_of_the_evaluation(world: World) -> None:
    one = world()
    data = judged(one.found, one.rows, one.artefact)
    found = compare(data)
    methods = {method.name: method for method in found.methods}
    assert list(methods) == ["Demur", "base rate", "raw", "raw, per token", "histogram", "kernel regression"]
    fused = methods["Demur"]
    for name, value in (("auroc", fused.auroc.value), ("smece", fused.smece), ("aurc", fused.aurc)):
        assert value == pytest.approx(data.metrics[name]["value"])
    assert (fused.brier.value, fused.brier.low) == (data.metrics["brier"]["value"], data.metrics["brier"]["low"])
    assert methods["base rate"].brier.value == pytest.approx(data.metrics["brier_base_rate"]["value"])
    assert methods["raw, per token"].auroc.value == pytest.approx(data.metrics["mean_logprob_auroc"]["value"])
    raw = data.raw
    assert raw is not None
    assert methods["raw"].confidence == pytest.approx(np.exp(data.signals[SUM_LOGPROB]))
    assert fused.utility == pytest.approx(
        utility_over_thresholds(data.confidence, data.correct, np.array([0.1, 0.5, 0.9]))
    )
    curve = risk_coverage_curve(data.confidence, data.correct)
    assert curve.risk[-1] == pytest.approx(1.0 - data.metrics["accuracy"]["value"])


def test_a_baseline_never_sees_the_row_it_predicts() -> None:
    """With labels that have nothing to do with the score, a fit that saw its own rows would look better than chance."""
    from demur.probes.baselines.histogram_regression import HistogramRegression
    from demur.probes.folds import grouped_folds

    draw = np.random.default_rng(4)
    total = -draw.exponential(size=400)
    correct = (draw.uniform(size=400) < 0.5).astype(float)
    groups = np.repeat(np.arange(200), 2)
    correct = np.repeat(correct[::2], 2)
    found = cross_fitted(HistogramRegression(), np.repeat(total[::2], 2), correct, grouped_folds(groups, correct))
    assert auroc(found, correct) < 0.6
    seen = HistogramRegression().fit({SUM_LOGPROB: np.repeat(total[::2], 2)}, correct)
    assert auroc(seen.predict({SUM_LOGPROB: np.repeat(total[::2], 2)}), correct) > 0.6


def test_tiers_by_hand() -> None:
    confidence = np.array([0.75, 0.9, 0.55, 0.5499, 0.35, 0.1, 0.2])
    correct = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0])
    found = tiers(confidence, correct, np.arange(7), PAPER)
    assert [(one.route.value, one.rows, one.right) for one in found] == [
        ("answer", 2, 1),
        ("retrieve", 1, 1),
        ("escalate", 2, 1),
        ("defer", 2, 1),
    ]
    assert tiers(np.array([0.9]), np.array([1.0]), np.array([0]), PAPER)[3].accuracy.value is None


def test_without_log_probabilities_there_is_only_the_base_rate_to_compare_with(world: World) -> None:
    one = world(60, logprobs=False)
    found = compare(judged(one.found, one.rows, one.artefact))
    assert [method.name for method in found.methods] == ["Demur", "base rate"]
    assert "no raw confidence" in found.missing[0]


def test_rows_without_log_probabilities_are_left_out_of_the_comparison_on_both_sides(world: World) -> None:
    one = world(60)
    data = judged(one.found, one.rows, one.artefact)
    total = data.signals[SUM_LOGPROB].copy()
    total[:10] = np.nan
    total[10] = 0.02  # bfloat16 can put a log-probability above 0
    patched = type(data)(**{**vars(data), "signals": {**data.signals, SUM_LOGPROB: total}})
    found = compare(patched)
    assert int(found.rows.sum()) == 50
    assert {method.confidence.size for method in found.methods} == {50}
    assert any("10 rows without log-probabilities" in line for line in found.missing)
    assert max(method.confidence.max() for method in found.methods) <= 1.0
