from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.core.errors import BadInput, ConfigurationError
from demur.probes.calibration.base import logit, sigmoid
from demur.probes.calibration.beta import Beta
from demur.probes.calibration.cross_venn_abers import CrossVennAbers
from demur.probes.calibration.dirichlet import Dirichlet
from demur.probes.calibration.histogram import Histogram
from demur.probes.calibration.identity import Identity
from demur.probes.calibration.isotonic import Isotonic
from demur.probes.calibration.parametrised_temperature import ParametrisedTemperature
from demur.probes.calibration.platt import Platt
from demur.probes.calibration.platt_prior import PlattPrior
from demur.probes.calibration.prior import PriorCalibrator
from demur.probes.calibration.registry import CALIBRATORS, calibrator_from_dict, make_calibrator
from demur.probes.calibration.scaling_binning import ScalingBinning
from demur.probes.calibration.select import clustered_standard_error, select_calibrator
from demur.probes.calibration.temperature import Temperature
from demur.probes.calibration.venn_abers import VennAbers

NAMES = sorted(CALIBRATORS)


def drawn(n: int, slope: float = 1.0, intercept: float = 0.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    scores = draw.normal(size=n) * 2.0
    return scores, (draw.random(n) < sigmoid(slope * scores + intercept)).astype(float)


def test_identity() -> None:
    assert Identity().predict([0.0, math.log(3.0)]) == pytest.approx([0.5, 0.75])


def test_temperature_by_hand() -> None:
    # Scores of +-2 that are right three times in four: sigmoid(2/T) = 3/4, so T = 2/ln 3.
    calibrator = Temperature().fit([2.0] * 4 + [-2.0] * 4, [1, 1, 1, 0, 0, 0, 0, 1])
    assert calibrator.temperature_ == pytest.approx(2.0 / math.log(3.0), rel=1e-5)


def test_platt_by_hand() -> None:
    # Separated rows: the smoothed targets 11/12 and 1/12 are met exactly, so slope = ln 11.
    calibrator = Platt().fit([1.0] * 10 + [-1.0] * 10, [1] * 10 + [0] * 10)
    assert calibrator.slope_ == pytest.approx(math.log(11.0), rel=1e-4)
    assert calibrator.intercept_ == pytest.approx(0.0, abs=1e-4)


def test_platt_and_beta_agree_with_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression

    scores, correct = drawn(4000, 0.5, 0.7)
    # Smoothing moves 2000-row targets by 1/2000; the fits may differ by about that.
    plain = LogisticRegression(C=1e9, tol=1e-10, max_iter=1000).fit(scores[:, None], correct)
    assert Platt().fit(scores, correct).predict(scores) == pytest.approx(
        plain.predict_proba(scores[:, None])[:, 1], abs=2e-3
    )
    features = np.column_stack([np.log(sigmoid(scores)), -np.log(sigmoid(-scores))])
    plain = LogisticRegression(C=1e9, tol=1e-10, max_iter=1000).fit(features, correct)
    assert (plain.coef_ > 0).all()
    assert Beta().fit(scores, correct).predict(scores) == pytest.approx(plain.predict_proba(features)[:, 1], abs=3e-3)


def test_platt_does_not_care_about_the_scale_of_scores() -> None:
    scores, correct = drawn(500, 0.5)
    expected = Platt().fit(scores, correct).predict(scores)
    for scale in (1e-6, 1e6):
        assert Platt().fit(scores * scale, correct).predict(scores * scale) == pytest.approx(expected, abs=1e-4)


def test_platt_prior_holds_the_line_and_gives_way_to_rows() -> None:
    # One row: almost the prior, slope 1 around the mean score.
    few = PlattPrior().fit([0.3, -0.3], [1, 0])
    assert few.slope_ == pytest.approx(1.0, abs=0.1)
    assert few.predict([0.0]) == pytest.approx([0.5], abs=1e-6)
    scores, correct = drawn(5000, 0.4, 0.5)
    many = PlattPrior().fit(scores, correct)
    assert many.slope_ == pytest.approx(0.4, abs=0.05)


def test_isotonic_by_hand() -> None:
    # Grades 0 1 0 1 pool to 0, 1/2, 1/2, 1; four rows keep within [1/6, 5/6]; between knots it is a line.
    calibrator = Isotonic().fit([1.0, 2.0, 3.0, 4.0], [0, 1, 0, 1])
    assert calibrator.predict([0.0, 1.0, 2.5, 4.0, 9.0]) == pytest.approx([1 / 6, 1 / 6, 0.5, 5 / 6, 5 / 6])
    assert calibrator.predict([1.5]) == pytest.approx([(1 / 6 + 0.5) / 2])


def test_prior_says_that_it_knows_nothing() -> None:
    confidence = PriorCalibrator(0.3).confidence(("a",))
    assert confidence.is_prior
    assert (confidence.value, confidence.interval.low, confidence.interval.high) == (0.3, 0.0, 1.0)
    assert confidence.calibrator == "prior"
    assert PriorCalibrator().predict([1.0, 9.0]).tolist() == [0.5, 0.5]
    for bad in (0.0, 1.0, math.nan):
        with pytest.raises(ConfigurationError):
            PriorCalibrator(bad)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_probabilities_rise_within_0_and_1_and_survive_json(name: str, data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 30))
    scores = data.draw(st.lists(st.floats(-50, 50), min_size=n, max_size=n))
    correct = data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    calibrator = make_calibrator(name).fit(scores, correct)
    grid = np.linspace(-1e3, 1e3, 101)
    got = calibrator.predict(grid)
    assert ((got >= 0.0) & (got <= 1.0)).all()
    assert (np.diff(got) >= -1e-12).all()
    again = calibrator_from_dict(json.loads(json.dumps(calibrator.to_dict())))
    assert (again.predict(grid) == got).all()


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_repetitions(name: str) -> None:
    scores, correct = drawn(60)
    times = np.random.default_rng(1).integers(1, 4, 60)
    weighted = make_calibrator(name).fit(scores, correct, times).predict(scores)
    repeated = make_calibrator(name).fit(np.repeat(scores, times), np.repeat(correct, times)).predict(scores)
    # Smoothing and priors see 60 rows instead of 120, and so do rules for the number of bins.
    tolerance = {"temperature": 1e-4, "dirichlet": 0.1, "histogram": 0.25, "scaling_binning": 0.2, "venn_abers": 0.15}
    tolerance["cross_venn_abers"] = 0.2
    assert weighted == pytest.approx(repeated, abs=tolerance.get(name, 0.05))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("scores", "correct", "weights"),
    [
        ([1.0, math.nan], [0, 1], None),
        ([1.0, math.inf], [0, 1], None),
        ([1.0, 2.0], [0, 1, 1], None),
        ([1.0, 2.0], [0, math.nan], None),
        ([1.0, 2.0], [0, 0.5], None),
        ([1.0, 2.0], [0, 1], [1.0, -1.0]),
        ([1.0, 2.0], [0, 1], [0.0, 0.0]),
        ([], [], None),
    ],
)
def test_unusable_rows_are_bad_input(name: str, scores: list, correct: list, weights: list | None) -> None:
    with pytest.raises(BadInput):
        make_calibrator(name).fit(scores, correct, weights)


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"name": "os.system"},
        {"name": "platt", "slope": "1", "intercept": 0.0},
        {"name": "platt", "slope": math.nan, "intercept": 0.0},
        {"name": "platt", "slope": -1.0, "intercept": 0.0},
        {"name": "temperature", "temperature": 0.0},
        {"name": "beta", "a": 1.0, "b": 1.0},
        {"name": "isotonic", "knots": [1.0, 0.0], "values": [0.1, 0.2]},
        {"name": "isotonic", "knots": [0.0, 1.0], "values": [0.3, 0.2]},
        {"name": "isotonic", "knots": "x", "values": [0.3]},
        {"name": "isotonic", "knots": [0.0], "values": [1.5]},
    ],
)
def test_stored_nonsense_is_bad_input(stored: dict) -> None:
    with pytest.raises(BadInput):
        calibrator_from_dict(stored)


def choose(scores: np.ndarray, correct: np.ndarray) -> str:
    ids, candidates = np.arange(len(scores)), ["isotonic", "beta", "platt", "temperature", "identity"]
    return select_calibrator(scores, correct, ids, ids % 5, candidates).calibrator.name


def test_the_simplest_that_is_good_enough_wins() -> None:
    scores, correct = drawn(1500)
    assert choose(scores, correct) == "identity"
    scores, correct = drawn(1500, slope=0.2, seed=1)
    assert choose(scores, correct) == "temperature"
    scores, correct = drawn(1500, slope=0.2, intercept=1.5)
    assert choose(scores, correct) == "platt"


def test_a_step_needs_isotonic() -> None:
    draw = np.random.default_rng(0)
    scores = draw.uniform(-3, 3, 3000)
    chance = np.where(np.abs(scores) < 2, 0.5, np.where(scores > 0, 0.95, 0.05))
    assert choose(scores, (draw.random(3000) < chance).astype(float)) == "isotonic"


def test_out_of_fold_probabilities_do_not_see_their_own_fold() -> None:
    scores, correct = drawn(200)
    folds = np.arange(200) % 5
    first = select_calibrator(scores, correct, np.arange(200), folds, ["platt"]).out_of_fold
    flipped = correct.copy()
    flipped[folds == 0] = 1.0 - flipped[folds == 0]
    second = select_calibrator(scores, flipped, np.arange(200), folds, ["platt"]).out_of_fold
    assert (first[folds == 0] == second[folds == 0]).all()
    assert (first[folds == 1] != second[folds == 1]).any()


def test_a_group_over_two_folds_is_refused() -> None:
    scores, correct = drawn(20)
    with pytest.raises(BadInput, match="split over folds"):
        select_calibrator(scores, correct, np.zeros(20, dtype=int), np.arange(20) % 5, ["platt"])


def test_clustered_standard_error_by_hand() -> None:
    # Independent rows: sd/sqrt(n) of 0, 2, 4, 6 is sqrt(20/3)/2.
    values, ones = np.array([0.0, 2.0, 4.0, 6.0]), np.ones(4)
    assert clustered_standard_error(values, ones, np.arange(4)) == pytest.approx(math.sqrt(20 / 3) / 2)
    # Copies add nothing.
    doubled = clustered_standard_error(np.repeat(values, 2), np.ones(8), np.repeat(np.arange(4), 2))
    assert doubled == pytest.approx(math.sqrt(20 / 3) / 2)


def test_logit_and_sigmoid_undo_each_other_far_out() -> None:
    assert logit(sigmoid([-20.0, 0.0, 15.0])) == pytest.approx([-20.0, 0.0, 15.0], rel=1e-4)
    assert sigmoid([-1e4, 1e4]).tolist() == [0.0, 1.0]


def test_histogram_by_hand() -> None:
    # 40 rows make 2 bins of 20. Shares 4/20 and 15/20; the rate of all, (19 + ½)/(40 + 1), draws with 2 pseudo-rows.
    scores = [-1.0] * 20 + [1.0] * 20
    calibrator = Histogram().fit(scores, [1] * 4 + [0] * 16 + [1] * 15 + [0] * 5)
    rate = 19.5 / 41
    assert calibrator.predict([-9.0, -1.0, 1.0, 9.0]) == pytest.approx(
        [(4 + 2 * rate) / 22, (4 + 2 * rate) / 22, (15 + 2 * rate) / 22, (15 + 2 * rate) / 22]
    )
    # Out of order they are pooled, not turned round.
    upside_down = Histogram().fit(scores, [1] * 15 + [0] * 5 + [1] * 4 + [0] * 16)
    assert np.ptp(upside_down.predict([-1.0, 1.0])) == 0.0


def test_scaling_binning_says_the_mean_of_the_curve_in_each_bin() -> None:
    scores, correct = drawn(90, seed=3)
    calibrator = ScalingBinning().fit(scores, correct)
    said = Platt().fit(scores, correct).predict(scores)
    got = calibrator.predict(scores)
    assert np.unique(got).size == 90 // 20
    for value in np.unique(got):
        assert said[got == value].mean() == pytest.approx(value)


def test_venn_abers_by_hand() -> None:
    # Rows (-1, wrong), (0, right), (1, right). A call at 0: wrong, isotonic has 0, ½, 1 (the cell holds right + wrong);
    # right, it has 0, 1, 1. So p0 = ½, p1 = 1, p = 1 / (1 - ½ + 1) = 2/3.
    calibrator = VennAbers().fit([-1.0, 0.0, 1.0], [0, 1, 1])
    low, high = calibrator.interval([0.0])
    assert (low[0], high[0]) == pytest.approx((0.5, 1.0))
    assert calibrator.predict([0.0]) == pytest.approx([2 / 3])
    # A call at -1: wrong, 0; right, the cell holds one of two: ½.
    low, high = calibrator.interval([-5.0])
    assert (low[0], high[0]) == pytest.approx((0.0, 0.5))
    assert calibrator.predict([-5.0]) == pytest.approx([0.5 / 1.5])


def test_venn_abers_equals_isotonic_regression_with_the_call_added() -> None:
    from sklearn.isotonic import IsotonicRegression

    scores, correct = drawn(80, seed=4)
    calibrator = VennAbers().fit(scores, correct)
    for place in (3, 40, 71):
        at = scores[place]
        for label, curve in zip((0.0, 1.0), calibrator.interval([at]), strict=True):
            model = IsotonicRegression(out_of_bounds="clip").fit(np.append(scores, at), np.append(correct, label))
            assert curve[0] == pytest.approx(model.predict([at])[0])


def test_venn_abers_is_wide_where_rows_are_few() -> None:
    widths = []
    for n in (30, 300, 3000):
        low, high = VennAbers().fit(*drawn(n, seed=5)).interval([0.0])
        widths.append(high[0] - low[0])
    assert widths[0] > widths[1] > widths[2] > 0.0


def test_cross_venn_abers_by_hand() -> None:
    # Two fifths hold a row each: (0, wrong) and (1, right). Adding a call to a cell of one row: the first has p0 = 0,
    # p1 = ½, the second p0 = ½, p1 = 1, whatever the score. G(p1) = sqrt(½ · 1), G(1 - p0) = sqrt(1 · ½): p = ½.
    # The interval: mean of p0 = ¼, mean of p1 = ¾.
    calibrator = CrossVennAbers().fit([0.0, 1.0], [0, 1])
    assert calibrator.predict([-3.0, 0.5, 3.0]) == pytest.approx([0.5] * 3)
    low, high = calibrator.interval([0.5])
    assert (low[0], high[0]) == pytest.approx((0.25, 0.75))


def test_cross_venn_abers_puts_five_predictors_together() -> None:
    scores, correct = drawn(300, seed=8)
    calibrator = CrossVennAbers().fit(scores, correct)
    fold = np.argsort(np.argsort(scores)) % 5
    at = drawn(50, seed=9)[0]
    ends = np.array([VennAbers().fit(scores[fold == k], correct[fold == k]).interval(at) for k in range(5)])
    right, wrong = np.prod(ends[:, 1], axis=0) ** 0.2, np.prod(1.0 - ends[:, 0], axis=0) ** 0.2
    assert calibrator.predict(at) == pytest.approx(right / (right + wrong))
    low, high = calibrator.interval(at)
    assert (low <= calibrator.predict(at)).all() and (calibrator.predict(at) <= high).all()
    one_low, one_high = VennAbers().fit(scores, correct).interval(at)
    assert (high - low).mean() > (one_high - one_low).mean()


def test_cross_venn_abers_deals_out_rows_of_one_score() -> None:
    # Half of the rows have the same score: every fifth must know of them, and of as many that were wrong.
    draw = np.random.default_rng(10)
    scores = np.concatenate([draw.normal(size=200), np.full(200, 4.0)])
    correct = np.concatenate([draw.random(200) < 0.3, np.arange(200) % 10 > 0]).astype(float)
    order = draw.permutation(400)
    calibrator = CrossVennAbers().fit(scores[order], correct[order])
    assert calibrator.predict([4.0])[0] == pytest.approx(0.9, abs=0.02)
    assert calibrator.to_dict() == CrossVennAbers().fit(scores, correct).to_dict()


def test_dirichlet_keeps_what_is_calibrated_and_learns_what_is_not() -> None:
    few = Dirichlet().fit([1.0, -1.0], [1, 0])
    assert few.predict([0.0, 2.0]) == pytest.approx(sigmoid([0.0, 2.0]), abs=0.1)
    scores, correct = drawn(4000, 0.5, 0.7, seed=6)
    assert Dirichlet().fit(scores, correct).predict([0.0]) == pytest.approx(sigmoid([0.7]), abs=0.04)


def test_parametrised_temperature_softens_far_scores_only() -> None:
    # Right as often as the score says up to 1; further out no oftener than at 1.
    draw = np.random.default_rng(7)
    scores = draw.normal(size=8000) * 2.0
    correct = (draw.random(8000) < sigmoid(np.clip(scores, -1.0, 1.0))).astype(float)
    calibrator = ParametrisedTemperature().fit(scores, correct)
    got = calibrator.predict([0.0, 0.6, 4.0])
    assert got[0] == 0.5
    assert got[1] == pytest.approx(sigmoid(0.6), abs=0.03)
    assert got[2] == pytest.approx(sigmoid(1.0), abs=0.05)
    assert abs(Temperature().fit(scores, correct).predict([4.0])[0] - sigmoid(1.0)) > 0.05


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("histogram", {"edges": [1.0, 0.0], "values": [0.1, 0.2, 0.3]}),
        ("histogram", {"edges": [0.0], "values": [0.9, 0.2]}),
        ("scaling_binning", {"edges": [0.0], "values": [0.2]}),
        ("venn_abers", {"edges": [], "low": [0.6], "high": [0.5]}),
        ("venn_abers", {"edges": [], "low": [0.6], "high": [math.nan]}),
        ("cross_venn_abers", {"edges": [], "low": [0.4], "values": [0.3], "high": [0.5]}),
        ("cross_venn_abers", {"edges": [], "low": [0.2], "values": [0.6], "high": [0.5]}),
        ("cross_venn_abers", {"edges": [], "low": [0.2], "high": [0.5]}),
        ("dirichlet", {"a": -1.0, "b": 1.0, "c": 0.0}),
        ("parametrised_temperature", {"knots": [1.0], "slopes": [1.0, -1.0]}),
        ("parametrised_temperature", {"knots": [-1.0], "slopes": [1.0, 1.0]}),
    ],
)
def test_a_stored_calibrator_that_does_not_hold_together_is_refused(name: str, data: dict[str, object]) -> None:
    with pytest.raises(BadInput, match="stored"):
        calibrator_from_dict({"name": name, **data})
