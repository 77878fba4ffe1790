from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.core.errors import BadInput
from demur.probes.fusion import STRENGTHS, LogisticFusion
from demur.probes.gaussian import SignalGaussian


def correlated(n: int = 3000, rho: float = 0.8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    z = draw.multivariate_normal(np.zeros(3), [[1, rho, 0], [rho, 1, 0], [0, 0, 1]], size=n)
    chance = 1 / (1 + np.exp(-(1.5 * z[:, 0] + 0.7 * z[:, 2] - 0.3)))
    return z, (draw.random(n) < chance).astype(float)


def fit(values: np.ndarray, correct: np.ndarray, C: float = 1.0) -> LogisticFusion:
    return LogisticFusion([f"s{i}" for i in range(values.shape[1])], C=C).fit(values, correct)


def by_hand(covariance: np.ndarray, coefficients: np.ndarray, intercept: float) -> LogisticFusion:
    fusion = LogisticFusion([f"s{i}" for i in range(len(coefficients))])
    gaussian = SignalGaussian()
    gaussian.columns_ = np.arange(len(coefficients))
    gaussian.centre_, gaussian.scale_ = np.zeros(len(coefficients)), np.ones(len(coefficients))
    gaussian.covariance_, gaussian.notes_ = covariance, {}
    fusion.gaussian_, fusion.names_ = gaussian, fusion.names
    fusion.coefficients_, fusion.intercept_, fusion.C_ = coefficients, intercept, 1.0
    return fusion


def test_missing_signal_worked_by_hand() -> None:
    # z2 given z1 = 1 has mean 1/2 and variance 3/4; w = (1, 2), b = 1/2.
    fusion = by_hand(np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([1.0, 2.0]), 0.5)
    got = fusion.predict(np.array([[1.0, np.nan], [1.0, 1.0], [np.nan, np.nan]]))
    variance = 4.0 * 0.75
    shrink = 1.0 / math.sqrt(1.0 + math.pi / 8.0 * variance)
    assert got.log_odds[0, 0] == pytest.approx((0.5 + 1.0 + 2.0 * 0.5) * shrink)
    assert got.log_odds[1, 0] == pytest.approx(3.5)
    total = 1.0 + 4.0 + 2.0 * 2.0 * 0.5
    assert got.share.tolist() == pytest.approx([1.0 - variance / total, 1.0, 0.0])
    assert got.log_odds[2, 0] == pytest.approx(0.5 / math.sqrt(1.0 + math.pi / 8.0 * total))
    assert got.contributions[0].tolist() == pytest.approx([2.0 * shrink, 0.0])


def test_marginalising_is_the_mean_over_what_the_signal_may_be() -> None:
    fusion = by_hand(np.array([[1.0, 0.6], [0.6, 1.0]]), np.array([1.0, 1.5]), -0.4)
    draws = 0.6 * 0.8 + math.sqrt(1 - 0.36) * np.random.default_rng(0).normal(size=200_000)
    expected = np.mean(1 / (1 + np.exp(-(-0.4 + 0.8 + 1.5 * draws))))
    got = fusion.predict(np.array([[0.8, np.nan]])).log_odds[0, 0]
    assert 1 / (1 + math.exp(-got)) == pytest.approx(expected, abs=0.01)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(st.just(math.nan), st.floats(-1e6, 1e6)), min_size=3, max_size=3))
def test_contributions_add_up_and_share_is_a_share(row: list[float]) -> None:
    covariance = np.array([[1.0, 0.5, -0.2], [0.5, 1.0, 0.1], [-0.2, 0.1, 1.0]])
    got = by_hand(covariance, np.array([1.0, -2.0, 0.5]), 0.7).predict(np.array([row]))
    assert np.isfinite(got.log_odds).all()
    assert got.contributions.sum() == pytest.approx(got.log_odds[0, 0] - got.average[0], abs=1e-9)
    assert 0.0 <= got.share[0] <= 1.0


def test_missing_in_training_and_prediction_leaves_it_calibrated() -> None:
    z, correct = correlated(6000)
    z[np.random.default_rng(1).random(z.shape) < 0.3] = np.nan
    fusion = fit(z[:3000], correct[:3000])
    fused = fusion.predict(z[3000:])
    probability, held_out = 1 / (1 + np.exp(-fused.log_odds[:, 0])), correct[3000:]
    assert np.mean((probability - held_out) ** 2) < 0.95 * held_out.mean() * (1 - held_out.mean())
    for part in np.array_split(np.argsort(probability), 5):
        error = 3 * math.sqrt(0.25 / part.size)
        assert abs(probability[part].mean() - held_out[part].mean()) < error


def test_covariance_is_found_again_through_holes() -> None:
    z, _ = correlated()
    z[np.random.default_rng(1).random(z.shape) < 0.2] = np.nan
    gaussian = SignalGaussian().fit(z, np.ones(len(z)), "abc")
    assert gaussian.covariance_[0, 1] == pytest.approx(0.8, abs=0.08)
    assert gaussian.covariance_[0, 2] == pytest.approx(0.0, abs=0.06)
    assert np.linalg.eigvalsh(gaussian.covariance_)[0] > 0.0


def test_covariance_without_holes_is_scikit_learns() -> None:
    from sklearn.covariance import LedoitWolf

    z, _ = correlated(200)
    gaussian = SignalGaussian().fit(z, np.ones(200), "abc")
    expected = LedoitWolf(assume_centered=True).fit(gaussian.standardise(z)).covariance_
    assert gaussian.covariance_ == pytest.approx(expected, abs=2e-3)


def test_sign_and_scale_do_not_matter() -> None:
    z, correct = correlated(800)
    plain = fit(z, correct).predict(z).log_odds
    turned = z * np.array([-1e-9, 1e9, 3.0]) + np.array([5.0, -2.0, 1.0])
    assert fit(turned, correct).predict(turned).log_odds == pytest.approx(plain, abs=1e-3)


def test_one_wild_value_neither_decides_nor_spoils_the_fit() -> None:
    z, correct = correlated(800)
    clean = fit(z, correct)
    spoiled = z.copy()
    spoiled[0, 0] = 1e12
    fusion = fit(spoiled, correct)
    assert fusion.coefficients_ == pytest.approx(clean.coefficients_, abs=0.1)
    wild = fusion.predict(np.array([[1e12, 0.0, 0.0]])).log_odds[0, 0]
    cut = fusion.intercept_ + 5.0 * fusion.coefficients_[0]
    assert wild == pytest.approx(cut, abs=0.5)


def test_constant_and_absent_signals_are_dropped_with_a_note() -> None:
    z, correct = correlated(200)
    values = np.column_stack([z, np.full(200, 0.1 + 0.2), np.full(200, np.nan)])
    fusion = fit(values, correct)
    assert fusion.names_ == ("s0", "s1", "s2")
    assert "constant at 0.3" in fusion.gaussian_.notes_["s3"]
    assert "available in 0 rows" in fusion.gaussian_.notes_["s4"]
    with pytest.raises(BadInput, match="no usable signal"):
        fit(np.ones((200, 1)), correct)


def test_strength_is_chosen_by_held_out_loss() -> None:
    draw = np.random.default_rng(0)
    noise, coin = draw.normal(size=(300, 20)), (draw.random(300) < 0.5).astype(float)
    names, folds = [f"s{i}" for i in range(20)], np.arange(300) % 5
    weak = LogisticFusion(names).fit(noise, coin, folds)
    z, correct = correlated(2000)
    strong = LogisticFusion(names[:3]).fit(z, correct, np.arange(2000) % 5)
    assert weak.C_ == min(STRENGTHS) < strong.C_


def test_degenerate_fits_are_bad_input() -> None:
    z, correct = correlated(50)
    for values, grades in ((z, np.ones(50)), (z[:, :2], correct), (z[:40], correct)):
        with pytest.raises(BadInput):
            LogisticFusion(["a", "b", "c"], C=1.0).fit(values, grades)
    with pytest.raises(BadInput, match="give C"):
        LogisticFusion(["a", "b", "c"]).fit(z, correct)


def test_weights_move_the_base_rate() -> None:
    z, correct = correlated(2000)
    weights = np.where(correct == 1.0, 3.0, 1.0)
    plain, heavy = fit(z, correct), LogisticFusion(["a", "b", "c"], C=1.0).fit(z, correct, None, weights)
    # Weighting also moves the centre: compare at the same raw point.
    origin = np.zeros((1, 3))
    moved = heavy.predict(origin).log_odds[0, 0] - plain.predict(origin).log_odds[0, 0]
    assert moved == pytest.approx(math.log(3.0), abs=0.15)
