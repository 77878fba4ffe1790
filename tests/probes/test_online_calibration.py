"""Calibration that follows the outcomes."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur import BadInput, ConfigurationError
from demur.probes.calibration.hedging import Hedging
from demur.probes.calibration.online import EDGE, OnlineCalibration

PAIRS = st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans(), st.floats(0.5, 1e4)), max_size=60)


def stream(seed, count, slope=1.0, shift=0.0):
    """What a head said, what was true, and what came of it."""
    draw = np.random.default_rng(seed)
    log_odds = draw.normal(-0.5, 1.4, count)
    truth = 1.0 / (1.0 + np.exp(-(slope * log_odds + shift)))
    return 1.0 / (1.0 + np.exp(-log_odds)), truth, draw.random(count) < truth


def test_the_first_newton_step_by_hand():
    online = OnlineCalibration(beta=0.1, start="zero", step="newton", tracking="none", prior_outcomes=None)
    assert online.predict(0.9) == pytest.approx(0.5)
    online.update(0.5, True)  # x = (0, 1), q = .5, g = (0, −.5)
    # A⁻¹ = .01 I; after: .01 / (1 + .01 · .25) in the second place. θ₂ = .5 · that / .1
    assert online.inverse[1, 1] == pytest.approx(0.01 / 1.0025)
    assert online.theta == pytest.approx([0.0, 0.5 * (0.01 / 1.0025) / 0.1])


def test_a_prior_is_worth_as_many_outcomes_as_it_says():
    """One wrong outcome at p = .5 moves the intercept by a Newton step from 40 typical outcomes."""
    online = OnlineCalibration(step="newton", tracking="none", prior_outcomes=40.0)
    online.update(0.5, False)  # x = (0, 1), g = (0, .5), A₂₂ = .15 · 40 = 6, then 6.25
    assert online.theta == pytest.approx([1.0, -0.5 / 6.25])


@given(
    st.floats(0.0, 1.0),
    st.booleans(),
    st.floats(0.01, 20.0),
    st.lists(st.tuples(st.floats(0.01, 0.99), st.booleans()), max_size=5),
)
@settings(max_examples=40, deadline=None)
def test_the_laplace_step_is_the_minimum_that_it_claims_to_be(p, right, weight, before):
    """By an independent minimiser: weight · log loss + ½(θ' − θ)ᵀA(θ' − θ)."""
    from scipy.optimize import minimize

    online = OnlineCalibration(tracking="none")
    for each in before:
        online.update(*each)
    theta, inverse = online.theta.copy(), online.inverse.copy()
    q = min(max(p, EDGE), 1.0 - EDGE)
    x, y = np.array([math.log(q / (1.0 - q)), 1.0]), float(right)
    online._laplace(x, y, weight)

    def objective(at):
        return (
            weight * np.logaddexp(0.0, (1.0 - 2.0 * y) * (at @ x))
            + (at - theta) @ np.linalg.inv(inverse) @ (at - theta) / 2.0
        )

    found = minimize(objective, theta, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000})
    assert objective(online.theta) <= found.fun + 1e-8
    assert online.theta == pytest.approx(found.x, abs=1e-3)
    said = 1.0 / (1.0 + math.exp(-float(online.theta @ x)))
    information = np.linalg.inv(inverse) + weight * said * (1.0 - said) * np.outer(x, x)
    assert online.inverse == pytest.approx(np.linalg.inv(information), rel=1e-6)


@pytest.mark.parametrize(("step", "at_most"), [("laplace", 0.5), ("newton", 1.0)])
def test_a_head_that_is_very_sure_and_very_wrong_is_brought_down_fast(step, at_most):
    """Counting squared gradients, sixty outcomes hardly move it."""
    online = OnlineCalibration(step=step, tracking="none")
    for number in range(60):
        online.update(0.99, number % 10 < 3)
    assert (at_most == 1.0) == (online.predict(0.99) > 0.8)
    assert online.predict(0.99) < at_most


def test_one_outcome_never_overshoots_whatever_its_weight():
    for weight in (1.0, 20.0, 1e6):
        online = OnlineCalibration(tracking="none", prior_outcomes=1e-3)
        online.update(0.9999, False, weight=weight)
        assert EDGE <= online.predict(0.9999) < 0.9999
        assert np.isfinite(online.theta).all()


@pytest.mark.parametrize("tracking", ["offset", "mean", "hedging"])
def test_what_is_never_given_out_costs_nothing_in_the_first_outcomes(tracking):
    """Why "offset" is the default: what an honest head loses by it in its first 50 outcomes, in Brier score."""
    lost = []
    for seed in range(30):
        said, _, right = stream(seed, 50)
        online = OnlineCalibration(tracking=tracking)
        for p, y in zip(said, right, strict=True):
            lost.append((online.predict(float(p)) - y) ** 2 - (p - y) ** 2)
            online.update(float(p), bool(y))
    assert (np.mean(lost) < 0.003) == (tracking != "mean")
    assert (np.mean(lost) > 0.02) == (tracking == "mean")


def test_hedging_by_hand():
    """Ten cells in the bin [.5, .6): .505, .515, ..., the record of each decides whether it may be said again."""
    game = Hedging(10)
    assert game.predict(5, 0) == pytest.approx(0.545)  # the safe one nearest to the middle, the left of two
    game.update(5, 0, 1.0, 1.0)  # its record is 1 now: no longer safe
    assert game.predict(5, 1) == pytest.approx(0.555)
    assert game.predict(4, 1) == pytest.approx(0.445)
    game.plays[5] = [[1.0, 1.0]] * 5 + [[1.0, 0.0]] * 5  # left of the middle all right, right of it all wrong
    # Above by 1 − .55, below by .55: .545 with chance .55 / (.45 + .55).
    drawn = [game.predict(5, seen) for seen in range(2000)]
    assert set(np.round(drawn, 3)) == {0.545, 0.555}
    assert np.mean(np.isclose(drawn, 0.545)) == pytest.approx(0.55, abs=0.04)
    assert drawn == [game.predict(5, seen) for seen in range(2000)]


@pytest.mark.parametrize("tracking", ["offset", "mean", "hedging"])
def test_hedging_and_tracking_end_up_calibrated_where_no_line_can(tracking):
    """What the head says is right in the middle only: no line in log-odds mends that."""
    from relplot import smECE

    draw = np.random.default_rng(8)
    said = draw.uniform(0.05, 0.95, 4000)
    right = draw.random(4000) < np.where(said < 0.4, 0.5, np.where(said > 0.7, 0.3, said))
    error = {}
    for each in (tracking, "none"):
        online, given_out = OnlineCalibration(tracking=each), []
        for p, y in zip(said, right, strict=True):
            given_out.append(online.predict(float(p)))
            online.update(float(p), bool(y))
        error[each] = smECE(f=np.array(given_out)[2000:], y=right[2000:].astype(float))
    assert error[tracking] < error["none"]
    assert error[tracking] < 0.06


def test_it_is_nearly_as_good_as_the_best_fixed_line():
    """Regret in log loss against the line fitted afterwards on all outcomes (what the paper bounds by O(log T))."""
    from demur.probes.calibration.platt import Platt

    for seed, (slope, shift) in enumerate([(1.0, 0.0), (0.5, -1.0), (1.5, 1.0)]):
        said, _, right = stream(seed, 2000, slope, shift)
        online, loss = OnlineCalibration(tracking="none"), 0.0
        for p, y in zip(said, right, strict=True):
            q = online.predict(float(p))
            loss -= math.log(q if y else 1.0 - q)
            online.update(float(p), bool(y))
        best = Platt().fit(np.log(said / (1.0 - said)), right.astype(float))
        q = best.predict(np.log(said / (1.0 - said)))
        assert loss + np.log(np.where(right, q, 1.0 - q)).sum() < 40.0  # of about 1,000


def test_a_base_rate_that_falls_to_one_half_of_what_it_was_is_corrected():
    from relplot import smECE

    said, _, right = stream(9, 700, shift=-1.4)
    assert right.mean() < 0.5 * said.mean() + 0.02
    online, given_out = OnlineCalibration(), []
    for p, y in zip(said, right, strict=True):
        given_out.append(online.predict(float(p)))
        online.update(float(p), bool(y))
    after = slice(200, None)
    left_alone = smECE(f=said[after], y=right[after].astype(float))
    followed = smECE(f=np.array(given_out)[after], y=right[after].astype(float))
    assert followed < 0.35 * left_alone


@given(st.lists(st.tuples(st.floats(0.05, 0.95), st.booleans()), max_size=80), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
@settings(max_examples=60, deadline=None)
def test_the_line_alone_keeps_the_order_while_it_rises(pairs, one, other):
    online = OnlineCalibration(tracking="none")
    for p, right in pairs:
        online.update(p, right)
    if online.theta[0] > 0.0:
        low, high = sorted((one, other))
        assert online.predict(low) <= online.predict(high)


def test_as_published_nothing_is_changed():
    online = OnlineCalibration.as_published()
    assert (online.beta, online.start, online.step, online.tracking) == (0.1, "zero", "newton", "mean")
    assert online.inverse == pytest.approx(np.eye(2) * 0.01)


def test_the_paper_s_tracking_by_hand():
    online = OnlineCalibration(tracking="mean", prior_outcomes=1e9)  # a line that hardly moves
    assert online.predict(0.62) == pytest.approx(0.65)  # one pseudo-outcome at the middle of its bin
    online.update(0.62, True)
    assert online.predict(0.62) == pytest.approx((0.65 + 1.0) / 2.0, abs=1e-4)
    assert online.predict(0.42) == pytest.approx(0.45)


def test_offsets_by_hand():
    online = OnlineCalibration(tracking="offset", shrinkage=3.0, prior_outcomes=1e9)
    assert online.predict(0.65) == pytest.approx(0.65)
    online.update(0.65, False)
    assert online.predict(0.65) == pytest.approx(0.65 - 0.65 / 4.0, abs=1e-4)
    assert online.predict(0.70) == pytest.approx(0.70 - 0.5 * 0.65 / 4.0, abs=1e-4)  # half-way to the next bin
    assert online.predict(0.80) == pytest.approx(0.80, abs=1e-4)


@pytest.mark.parametrize(("slope", "shift"), [(1.0, -1.5), (0.4, 0.5), (2.0, 1.0)])
def test_a_shift_is_learned(slope, shift):
    said, truth, right = stream(3, 1200, slope, shift)
    online, given_out = OnlineCalibration(), []
    for p, y in zip(said, right, strict=True):
        given_out.append(online.predict(float(p)))
        online.update(float(p), bool(y))
    late = slice(600, None)
    error = np.abs(np.array(given_out)[late] - truth[late]).mean()
    assert error < 0.4 * np.abs(said[late] - truth[late]).mean()
    assert online.mean_observed == pytest.approx(right.mean())
    assert abs(online.mean_predicted - online.mean_observed) < 0.05


def test_an_honest_head_is_left_nearly_alone():
    said, _, right = stream(4, 1000)
    online, changed = OnlineCalibration(), []
    for p, y in zip(said, right, strict=True):
        changed.append(abs(online.predict(float(p)) - p))
        online.update(float(p), bool(y))
    assert np.mean(changed) < 0.06


def test_a_drift_in_the_middle_is_followed():
    """Smoothed calibration error of the last outcomes is far below that of the head left alone."""
    from relplot import smECE

    before, _, right_before = stream(5, 500)
    after, _, right_after = stream(6, 1500, shift=-2.0)
    online, given_out = OnlineCalibration(), []
    for p, y in zip(np.r_[before, after], np.r_[right_before, right_after], strict=True):
        given_out.append(online.predict(float(p)))
        online.update(float(p), bool(y))
    last = slice(-700, None)
    static = smECE(f=after[last], y=right_after[last].astype(float))
    followed = smECE(f=np.array(given_out)[last], y=right_after[last].astype(float))
    assert static > 0.2
    assert followed < 0.06


@given(
    PAIRS,
    st.floats(0.0, 1.0),
    st.sampled_from(["offset", "mean", "hedging", "none"]),
    st.sampled_from(["identity", "zero"]),
)
@settings(max_examples=60, deadline=None)
def test_whatever_comes_it_stays_a_probability_and_survives_json(pairs, probe, tracking, start):
    online = OnlineCalibration(tracking=tracking, start=start)
    for p, right, weight in pairs:
        online.update(p, right, weight=weight)
    value = online.predict(probe)
    low, high = online.interval(probe, max(probe - 0.1, 0.0), min(probe + 0.1, 1.0))
    assert EDGE <= value <= 1.0 - EDGE
    assert 0.0 <= low <= value <= high <= 1.0
    again = OnlineCalibration.from_dict(json.loads(json.dumps(online.to_dict())))
    assert again.to_dict() == online.to_dict()
    assert again.predict(probe) == value
    again.update(0.3, True)
    online.update(0.3, True)
    assert again.to_dict() == online.to_dict()


def test_the_line_is_drawn_back_when_it_runs_away():
    online = OnlineCalibration(beta=1e-3, step="newton", tracking="none", prior_outcomes=None)
    for _ in range(300):
        online.update(0.999, False)
        online.update(0.001, True)
    assert np.linalg.norm(online.theta) <= 100.0 + 1e-6
    assert online.predict(0.999) < online.predict(0.001)


def test_rare_labels_count_for_more_and_are_cut_off():
    """Of answered calls 5 % are graded: weighted, their outcomes are not drowned by those of the deferred ones."""
    plain, weighted = OnlineCalibration(), OnlineCalibration()
    draw = np.random.default_rng(0)
    for _ in range(2000):
        p = float(draw.uniform(0.05, 0.95))
        propensity = 1.0 if p < 0.5 else 0.05
        if draw.random() < propensity:
            right = bool(draw.random() < p)
            plain.update(p, right)
            weighted.update(p, right, weight=1.0 / propensity)
    assert abs(weighted.mean_observed - 0.5) < abs(plain.mean_observed - 0.5)
    one, other = OnlineCalibration(), OnlineCalibration()
    one.update(0.5, True, weight=20.0)
    other.update(0.5, True, weight=1e6)
    assert one.to_dict() == other.to_dict()


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan, math.inf])
def test_what_is_no_probability_is_refused(bad):
    with pytest.raises(BadInput, match="must be a number in"):
        OnlineCalibration().predict(bad)
    with pytest.raises(BadInput, match="must be a number in"):
        OnlineCalibration().update(bad, True)


@pytest.mark.parametrize("weight", [0.0, -1.0, math.nan, math.inf])
def test_what_is_no_weight_is_refused(weight):
    with pytest.raises(BadInput, match="label_propensity"):
        OnlineCalibration().update(0.5, True, weight=weight)


@pytest.mark.parametrize("change", [{"theta": [1.0]}, {"bins": []}, {"inverse": "x"}, {"start": "no"}, {"count": None}])
def test_damaged_state_is_refused(change):
    with pytest.raises(BadInput):
        OnlineCalibration.from_dict({**OnlineCalibration().to_dict(), **change})


@pytest.mark.parametrize(
    "options", [{"beta": 0.0}, {"bins": 0}, {"start": "x"}, {"step": "x"}, {"tracking": "x"}, {"shrinkage": -1.0}]
)
def test_options_that_cannot_work_are_refused(options):
    with pytest.raises(ConfigurationError):
        OnlineCalibration(**options)
