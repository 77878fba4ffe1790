"""The four-tier score: normalised by hand, its weights learned, its tiers alive."""

from __future__ import annotations

import math

import numpy as np
import pytest

from demur.core.decision import Route
from demur.core.errors import BadInput, ConfigurationError, NotEnoughLabels, Refused
from demur.probes.baselines import FourTierScore, RouteTiers

COLUMNS = {"semantic": "cos", "convergence": "ratio", "learned": "logit"}


def rows(n=600, seed=4):
    """Cosine and logit go with being right, the ratio goes against it."""
    draw = np.random.default_rng(seed)
    cos = np.tanh(0.5 * draw.normal(size=n))
    ratio = np.exp(draw.normal(size=n))
    logit = draw.normal(size=n)
    log_odds = 2.0 * cos - 0.8 * np.log(ratio) + 1.0 * logit
    return {"cos": cos, "ratio": ratio, "logit": logit}, draw.random(n) < 1.0 / (1.0 + np.exp(-log_odds))


def test_score_and_routes_by_hand():
    tiers = FourTierScore(**COLUMNS, weights={"semantic": 2.0, "convergence": 1.0, "learned": 1.0})
    # (1 + .5)/2 = .75, 3/4 = .75, sigmoid(0) = .5 → .5·.75 + .25·.75 + .25·.5 = .6875
    given = {
        "cos": [0.5, 1.0, -1.0, 0.2, math.nan],
        "ratio": [3.0, 1e9, 0.0, 0.0, 1.0],
        "logit": [0.0, 50.0, -50.0, 0.0, 0.0],
    }
    score = tiers.score(given)
    assert score[:4] == pytest.approx([0.6875, 1.0, 0.0, 0.5 * 0.6 + 0.25 * 0.5], abs=1e-8)
    assert tiers.routes(given) == [Route.RETRIEVE, Route.ANSWER, Route.DEFER, Route.ESCALATE, None]


def test_lower_edges_belong_to_their_tier():
    tiers = FourTierScore(semantic="cos", weights={"semantic": 1.0})
    # (1 + s)/2 is .75, .5, .25 exactly
    edges = FourTierScore(semantic="cos", weights={"semantic": 1.0}, tiers=RouteTiers(0.75, 0.5, 0.25))
    assert edges.routes({"cos": [0.5, 0.0, -0.5, -0.5000001]}) == [
        Route.ANSWER,
        Route.RETRIEVE,
        Route.ESCALATE,
        Route.DEFER,
    ]
    assert tiers.tiers.edges == (0.35, 0.55, 0.75)


def test_weights_are_learned_and_none_is_negative():
    given, correct = rows()
    fitted = FourTierScore(**COLUMNS).fit(given, correct)
    assert sum(fitted.weights_.values()) == pytest.approx(1.0)
    assert fitted.weights_["convergence"] == 0.0
    assert fitted.weights_["semantic"] > 0.2 and fitted.weights_["learned"] > 0.2


def test_where_no_weight_is_at_its_bound_the_fit_is_scikit_learns():
    from sklearn.linear_model import LogisticRegression

    given, correct = rows()
    fitted = FourTierScore(semantic="cos", learned="logit").fit(given, correct)
    features = np.column_stack([(1 + given["cos"]) / 2, 1 / (1 + np.exp(-given["logit"]))])
    same = LogisticRegression(C=100.0, tol=1e-10, max_iter=5000).fit(features, correct)
    assert fitted.predict(given) == pytest.approx(same.predict_proba(features)[:, 1], abs=1e-4)
    assert list(fitted.weights_.values()) == pytest.approx(same.coef_[0] / same.coef_.sum(), abs=1e-3)


def test_the_logistic_on_top_is_calibrated_on_average_and_keeps_the_order():
    given, correct = rows()
    fitted = FourTierScore(**COLUMNS, weights={"semantic": 1, "convergence": 0, "learned": 1}).fit(given, correct)
    probability = fitted.predict(given)
    assert probability.mean() == pytest.approx(correct.mean(), abs=1e-4)
    assert (np.argsort(probability, kind="stable") == np.argsort(fitted.score(given), kind="stable")).all()
    assert fitted.weights_ == {"semantic": 0.5, "convergence": 0.0, "learned": 0.5}


@pytest.mark.parametrize(
    ("signal", "less", "more"), [("semantic", -0.9, 0.9), ("convergence", 0.1, 9.0), ("learned", -3, 3)]
)
def test_every_signal_is_surer_when_higher(signal, less, more):
    alone = FourTierScore(**{signal: COLUMNS[signal]}, weights={signal: 1.0})
    low, high = alone.score({COLUMNS[signal]: [less, more]})
    assert low < high


def test_report_gives_each_signals_auroc():
    given, correct = rows()
    report = FourTierScore(**COLUMNS).fit(given, correct).report(given, correct)
    assert list(report) == ["semantic_auroc", "convergence_auroc", "learned_auroc", "score_auroc"]
    from sklearn.metrics import roc_auc_score

    assert report["semantic_auroc"].value == pytest.approx(roc_auc_score(correct, given["cos"]))
    assert report["convergence_auroc"].value < 0.5 < report["score_auroc"].low
    with pytest.raises(BadInput, match="not fitted"):
        FourTierScore(**COLUMNS).report(given, correct)


def test_a_sigmoid_of_a_cosine_never_reaches_the_paper_s_first_cut_off():
    with pytest.raises(ConfigurationError, match=r"answer begins at 0\.75, and no score exceeds 0\.731"):
        FourTierScore(semantic="cos", cosine="sigmoid")
    FourTierScore(semantic="cos", cosine="sigmoid", tiers=RouteTiers(0.73, 0.55, 0.35))
    with pytest.raises(ConfigurationError, match=r"defer ends below 0\.2"):
        FourTierScore(semantic="cos", cosine="sigmoid", tiers=RouteTiers(0.7, 0.55, 0.2))


def test_a_dead_tier_under_given_weights_is_refused_at_construction_and_under_learned_ones_at_fit():
    both = {"semantic": "cos", "learned": "logit", "cosine": "sigmoid"}
    with pytest.raises(ConfigurationError, match="dead tier"):
        FourTierScore(**both, weights={"semantic": 0.95, "learned": 0.05})
    FourTierScore(**both, weights={"semantic": 0.9, "learned": 0.1})
    given, _ = rows()
    right = given["cos"] > 0.0
    with pytest.raises(Refused, match=r"dead tier.*learned weights"):
        FourTierScore(**both).fit({**given, "logit": np.zeros(600)}, right)


def test_signals_that_all_point_the_wrong_way_have_no_weights():
    given, correct = rows()
    with pytest.raises(Refused, match="does not go with being right"):
        FourTierScore(convergence="ratio").fit(given, correct)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "columns"),
        ({**COLUMNS, "cosine": "tanh"}, "cosine='tanh'"),
        ({**COLUMNS, "C": 0.0}, "C=0.0"),
        ({**COLUMNS, "weights": {"semantic": 1.0}}, "weights="),
        ({**COLUMNS, "weights": {"semantic": -1.0, "convergence": 2.0, "learned": 0.0}}, "weights="),
        ({**COLUMNS, "weights": {"semantic": 0.0, "convergence": 0.0, "learned": 0.0}}, "weights="),
        ({**COLUMNS, "weights": {"semantic": math.nan, "convergence": 1.0, "learned": 0.0}}, "weights="),
        ({"semantic": "x", "learned": "x"}, "distinct"),
    ],
)
def test_settings_that_cannot_work_are_refused(options, says):
    with pytest.raises(ConfigurationError, match=says):
        FourTierScore(**options)


def test_values_that_are_not_what_they_should_be_are_refused():
    tiers = FourTierScore(**COLUMNS)
    good = {"cos": [0.1, 0.2], "ratio": [1.0, 2.0], "logit": [0.0, 1.0]}
    for column, bad, says in (("cos", [0.1, 1.5], "cosine lies in"), ("ratio", [-0.1, 1.0], "not negative")):
        with pytest.raises(BadInput, match=says):
            tiers.fit({**good, column: bad}, [0, 1])
    with pytest.raises(NotEnoughLabels):
        tiers.fit(good, [1, 1])
    with pytest.raises(BadInput, match="not fitted"):
        tiers.predict(good)
