"""Baselines of raw confidence and of MICE: by hand, and equal to scikit-learn where that is what they are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.core.decision import Route
from demur.core.errors import BadInput, ConfigurationError, NotEnoughLabels
from demur.probes.baselines import (
    HalluNoxTiers,
    HistogramRegression,
    KernelRegression,
    MiceForest,
    MiceLogistic,
    RawConfidence,
    RouteTiers,
)
from demur.probes.signal_table import SignalTable

SUM = "token.sum_logprob"


def p(*values):
    return {"p": np.array(values)}


def of_p(kind, **options):
    return kind("p", log=False, **options)


ON_ONE_COLUMN = (RawConfidence, HistogramRegression, KernelRegression, HalluNoxTiers)


def test_raw_is_the_product_of_probabilities():
    table = SignalTable(("other", SUM), np.array([[1.0, math.log(0.5) + math.log(0.25)], [2.0, 0.004], [3.0, np.nan]]))
    found = RawConfidence().fit(table, [1, 0, 1]).predict(table)
    assert found[:2] == pytest.approx([0.125, 1.0]) and np.isnan(found[2])


def test_histogram_by_hand():
    # 4 bins: [0, .25) holds grades 0 0 1, [.25, .5) none, [.5, .75) 1, [.75, 1] 1 0 (1.0 belongs to the last).
    rows = p(0.0, 0.1, 0.24, 0.5, 0.75, 1.0)
    fitted = of_p(HistogramRegression, bins=4).fit(rows, [0, 0, 1, 1, 1, 0])
    assert fitted.predict(p(0.2, 0.3, 0.6, 1.0)) == pytest.approx([1 / 3, 3 / 6, 1.0, 0.5])
    assert fitted.counts_.tolist() == [3, 0, 1, 2]
    assert HistogramRegression().bins == 25


def test_kernel_by_hand():
    fitted = of_p(KernelRegression, bandwidths=[0.1]).fit(p(0.2, 0.4), [0, 1])
    near, far = math.exp(-0.5 * (0.05 / 0.1) ** 2), math.exp(-0.5 * (0.15 / 0.1) ** 2)
    assert fitted.predict(p(0.25)) == pytest.approx([far / (near + far)])
    assert fitted.predict(p(0.3)) == pytest.approx([0.5])


def test_kernel_bandwidth_has_the_lowest_leave_one_out_error():
    draw = np.random.default_rng(5)
    x = draw.random(60)
    y = (draw.random(60) < x).astype(float)
    fitted = of_p(KernelRegression).fit({"p": x}, y)

    def error(width):
        found = []
        for i in range(60):
            kept = np.arange(60) != i
            weights = np.exp(-0.5 * ((x[i] - x[kept]) / width) ** 2)
            found.append((weights @ y[kept] / weights.sum() - y[i]) ** 2)
        return np.mean(found)

    assert fitted.errors_ == pytest.approx([error(width) for width in fitted.bandwidths], rel=1e-9)
    assert fitted.bandwidth_ == min(fitted.bandwidths, key=error)


def test_kernel_far_from_every_row_follows_the_nearest():
    fitted = of_p(KernelRegression, bandwidths=[0.005]).fit(p(0.0, 0.1), [0, 1])
    assert fitted.predict(p(1.0)) == pytest.approx([1.0])


def test_kernel_chooses_on_a_sample_where_there_are_many_rows():
    draw = np.random.default_rng(1)
    x = draw.random(2500)
    y = draw.random(2500) < x
    fitted = of_p(KernelRegression, bandwidths=[0.02, 0.2]).fit({"p": x}, y)
    assert fitted.scores_.size == 2500 and np.isfinite(fitted.errors_).all()
    assert fitted.predict(p(0.1, 0.9)) == pytest.approx([0.1, 0.9], abs=0.15)


@pytest.mark.parametrize("kind", ON_ONE_COLUMN)
def test_surer_raw_confidence_is_never_less_sure_where_labels_agree(kind):
    x = np.linspace(0.0, 1.0, 200)
    found = of_p(kind).fit({"p": x}, x > 0.5).predict({"p": x})
    assert found[-1] > found[0]
    assert (np.diff(found) >= -1e-9).all()


def layers(n=150, missing=False):
    draw = np.random.default_rng(2)
    similarities = draw.random((n, 12))
    raw = draw.random(n)
    y = (draw.random(n) < 1.0 / (1.0 + np.exp(-4.0 * (raw + similarities[:, 3] - 1.0)))).astype(float)
    names = (*(f"sim.L{layer}" for layer in range(12)), SUM)
    values = np.column_stack([similarities, np.log(raw)])
    if missing:
        values[7, 4] = np.nan
    return SignalTable(names, values), y, np.column_stack([similarities, raw])


def test_mice_forest_is_scikit_learns_with_the_papers_settings():
    from sklearn.ensemble import RandomForestClassifier

    table, y, features = layers()
    fitted = MiceForest(table.names[:-1], trees=30).fit(table, y)
    same = RandomForestClassifier(30, max_depth=20, max_features=10, random_state=0).fit(features, y)
    assert fitted.predict(table) == pytest.approx(same.predict_proba(features)[:, 1])
    assert fitted.importances_.shape == (13,)
    assert (MiceForest(["a"]).trees, MiceForest(["a"]).depth, MiceForest(["a"]).max_features) == (1000, 20, 10)


def test_mice_forest_with_fewer_columns_than_the_paper():
    table, y, _ = layers()
    assert MiceForest(["sim.L3"], trees=10).fit(table, y).forest_.max_features == 2


def test_mice_logistic_is_scikit_learns_with_half_strength():
    from sklearn.linear_model import LogisticRegression

    table, y, features = layers()
    fitted = MiceLogistic(table.names[:-1]).fit(table, y)
    same = LogisticRegression(C=0.5, tol=1e-10, max_iter=5000).fit(features, y)
    assert fitted.predict(table) == pytest.approx(same.predict_proba(features)[:, 1], abs=1e-5)
    assert fitted.coefficients_[-1] > 0.0


@pytest.mark.parametrize("make", [lambda names: MiceForest(names, trees=10), MiceLogistic])
def test_mice_leaves_out_rows_with_a_missing_layer(make):
    table, y, _ = layers(missing=True)
    found = make(table.names[:-1]).fit(table, y).predict(table)
    assert np.isnan(found[7]) and np.isfinite(np.delete(found, 7)).all()


def test_hallunox_routes_and_tier_middles():
    tiers = of_p(HalluNoxTiers)
    rows = p(0.65, 0.6499, 0.6, 0.4, 0.3999, np.nan)
    assert tiers.routes(rows) == [Route.ANSWER, Route.RETRIEVE, Route.RETRIEVE, Route.ESCALATE, Route.DEFER, None]
    assert tiers.predict(rows)[:5] == pytest.approx([0.825, 0.625, 0.625, 0.5, 0.2])


def test_dead_tiers_are_named():
    tiers = RouteTiers(answer=0.9, retrieve=0.55, escalate=0.35)
    assert tiers.dead(0.0, 1.0) == []
    assert tiers.dead(0.3, 0.9) == []
    (top,) = tiers.dead(0.3, 0.9, open_end=True)
    assert "answer begins at 0.9" in top
    assert [each.split()[0] for each in tiers.dead(0.4, 0.5)] == ["defer", "retrieve", "answer"]


@pytest.mark.parametrize(
    "edges", [(0.5, 0.6, 0.7), (0.7, 0.7, 0.2), (1.1, 0.5, 0.2), (0.7, 0.5, 0.0), (0.7, math.nan, 0.1)]
)
def test_tiers_that_do_not_ascend_are_refused(edges):
    with pytest.raises(ConfigurationError, match="cut-offs"):
        RouteTiers(*edges)


@pytest.mark.parametrize(
    "make",
    [
        lambda: HistogramRegression(bins=0),
        lambda: KernelRegression(bandwidths=[]),
        lambda: KernelRegression(bandwidths=[0.1, 0.0]),
        lambda: KernelRegression(bandwidths=[math.inf]),
        lambda: MiceForest([]),
        lambda: MiceForest("sim.L1"),
        lambda: MiceForest(["a", "a"]),
        lambda: MiceForest(["a"], trees=0),
        lambda: MiceLogistic(["a"], C=0.0),
    ],
)
def test_settings_that_cannot_work_are_refused(make):
    with pytest.raises(ConfigurationError):
        make()


@pytest.mark.parametrize("kind", ON_ONE_COLUMN)
def test_what_is_no_probability_is_refused(kind):
    with pytest.raises(BadInput, match="no probability"):
        of_p(kind).fit(p(0.5, 1.5), [0, 1])
    with pytest.raises(BadInput, match="no log-probability"):
        kind().fit({SUM: [-1.0, 0.5]}, [0, 1])


@pytest.mark.parametrize("kind", ON_ONE_COLUMN)
def test_rows_that_cannot_be_read_are_refused(kind):
    with pytest.raises(BadInput, match="no such column"):
        of_p(kind).fit({"q": [0.5]}, [1])
    with pytest.raises(BadInput, match="none of 2 rows"):
        of_p(kind).fit(p(np.nan, np.nan), [0, 1])
    with pytest.raises(BadInput, match="grade"):
        of_p(kind).fit(p(0.5, 0.4), [0, 2])
    with pytest.raises(BadInput, match="infinite in row 1"):
        of_p(kind).fit(p(0.5, -math.inf), [0, 1])


@pytest.mark.parametrize(
    "unfitted", [of_p(HistogramRegression), of_p(KernelRegression), MiceForest(["s"], "p", log=False)]
)
def test_predicting_before_fitting_is_refused(unfitted):
    with pytest.raises(BadInput, match="not fitted"):
        unfitted.predict({"p": [0.5], "s": [0.5]})


@pytest.mark.parametrize("kind", [MiceForest, MiceLogistic])
def test_one_class_is_not_enough(kind):
    with pytest.raises(NotEnoughLabels, match="all 2 are right"):
        kind(["s"], "p", log=False).fit({"p": [0.5, 0.6], "s": [0.1, 0.2]}, [1, 1])


@settings(max_examples=80, deadline=None)
@given(
    x=st.lists(st.one_of(st.floats(0.0, 1.0), st.just(math.nan)), min_size=1, max_size=20),
    data=st.data(),
)
def test_predictions_are_probabilities_exactly_where_nothing_is_missing(x, data):
    there = ~np.isnan(x)
    y = data.draw(st.lists(st.integers(0, 1), min_size=len(x), max_size=len(x)))
    for kind in ON_ONE_COLUMN:
        baseline = of_p(kind)
        if not there.any():
            with pytest.raises(BadInput):
                baseline.fit(p(*x), y)
            continue
        found = baseline.fit(p(*x), y).predict(p(*x))
        assert (np.isfinite(found) == there).all()
        assert ((found[there] >= -1e-12) & (found[there] <= 1.0 + 1e-12)).all()
