"""Forest, boosting and stacking as estimators."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from demur.core.errors import BadInput, ConfigurationError
from demur.core.signal import Direction
from demur.probes.ensemble_fusion import BoostedFusion, EnsembleFusion, ForestFusion
from demur.probes.fusion import LogisticFusion
from demur.probes.fusion_settings import BoostedSettings, ForestSettings, FusionSettings
from demur.probes.gaussian import SignalGaussian
from demur.probes.stacked_fusion import StackedFusion, stack_weights

NAMES = ("token.sum_logprob", "token.mean_entropy", "own", "hidden.answer_mean.L1", "hidden.answer_mean.L2")
BOOSTED = BoostedSettings(rounds=25, rate=0.2, leaves=6, leaf=10, l2=1.0, bins=32, share=1.0, monotone=True)
SMALL = FusionSettings(forest=ForestSettings(25, 10, 3, 5), boosted=BOOSTED, cross_fit_trees=10, fold_trees=25)


def problem(
    n: int = 400, seed: int = 0, missing: float = 0.0, kind: str = "both"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, grades and folds. kind: what carries the truth, a straight line, a product of two signals, or both."""
    draw = np.random.default_rng(seed)
    z = draw.normal(size=(n, 5)) + 0.5 * draw.normal(size=(n, 1))
    straight, bent = 1.3 * z[:, 0] - 0.8 * z[:, 1] + 0.7 * z[:, 3], 1.6 * z[:, 2] * np.sign(z[:, 4])
    log_odds = {"straight": straight, "bent": bent, "both": straight + bent}[kind]
    correct = (draw.random(n) < 1 / (1 + np.exp(-log_odds))).astype(float)
    z[draw.random(z.shape) < missing] = np.nan
    return z * 4 - 2, correct, np.arange(n) % 4


def estimators() -> list[EnsembleFusion]:
    return [
        ForestFusion(NAMES, trees=25, depth=10, max_features=3, leaf=5),
        BoostedFusion(NAMES, settings=BOOSTED),
        StackedFusion(NAMES, settings=SMALL),
    ]


def test_the_forests_defaults_are_those_of_mice() -> None:
    params = ForestFusion(NAMES).get_params()
    assert {name: params[name] for name in ("trees", "depth", "max_features")} == {
        "trees": 1000,
        "depth": 20,
        "max_features": 10,
    }


def test_forest_fusion_orders_as_scikit_learns_forest() -> None:
    values, correct, _ = problem()
    fusion = ForestFusion(NAMES, trees=20, depth=6, max_features=10, leaf=2, seed=3).fit(values, correct)
    z = SignalGaussian().fit(values, np.ones(400), NAMES).standardise(values)
    model = RandomForestClassifier(20, max_depth=6, max_features=5, min_samples_leaf=2, random_state=3)
    expected = model.fit(z.astype(np.float32), correct).predict_proba(z.astype(np.float32))[:, 1]
    got = 1 / (1 + np.exp(-fusion.predict(values).log_odds[:, 0]))
    assert got == pytest.approx((400 * expected + 0.5) / 401, abs=1e-12)


@pytest.mark.parametrize("place", range(3))
def test_parameters_are_those_of_scikit_learn(place: int) -> None:
    fusion = estimators()[place]
    again = clone(fusion)
    assert again is not fusion
    assert again.get_params() == fusion.get_params()
    assert again.set_params(seed=7).get_params()["seed"] == 7
    with pytest.raises(ConfigurationError, match="no parameter 'tree'"):
        fusion.set_params(tree=3)
    assert LogisticFusion(NAMES, C=0.3).get_params() == {"names": NAMES, "C": 0.3}


@pytest.mark.parametrize("place", range(3))
def test_contributions_add_up_whatever_is_missing(place: int) -> None:
    values, correct, folds = problem(missing=0.15)
    fusion = estimators()[place].fit(values, correct, folds)
    rows = np.vstack([values[:80], np.full((1, 5), np.nan)])
    fused = fusion.predict(rows)
    assert fused.contributions.sum(axis=1) == pytest.approx(fused.log_odds[:, 0] - fused.average, abs=1e-9)
    assert (fused.contributions[~fused.observed] == 0.0).all()
    assert fused.average[-1] == pytest.approx(fused.log_odds[-1, 0])
    plain = LogisticFusion(NAMES, C=fusion.logistic_.C_).fit(values, correct).predict(rows)
    assert (fused.share == plain.share).all()
    unexplained = fusion.predict(rows, explain=False)
    assert (unexplained.log_odds == fused.log_odds).all()
    assert np.isnan(unexplained.contributions).all()


def test_what_a_filled_in_signal_moved_is_credited_to_what_it_was_filled_in_from() -> None:
    draw = np.random.default_rng(0)
    first = draw.normal(size=600)
    values = np.column_stack([first, first + 0.01 * draw.normal(size=600), draw.normal(size=600)])
    correct = (draw.random(600) < 1 / (1 + np.exp(-3 * values[:, 1]))).astype(float)
    fusion = BoostedFusion(("a", "b", "c"), settings=BOOSTED).fit(values, correct)
    fused = fusion.predict(np.array([[2.0, np.nan, 0.1]]))
    assert fused.contributions[0, 0] > 1.0
    assert abs(fused.contributions[0, 2]) < 0.3 * fused.contributions[0, 0]


@pytest.mark.parametrize("place", range(3))
def test_the_same_seed_gives_the_same_fusion(place: int) -> None:
    values, correct, folds = problem(200)
    first, second = (estimators()[place].fit(values, correct, folds).predict(values).log_odds for _ in range(2))
    assert (first == second).all()
    other = clone(estimators()[place]).set_params(seed=1)
    if isinstance(other, BoostedFusion):
        other.set_params(settings=BoostedSettings(25, 0.2, 6, 10, 1.0, 32, 0.5, True))
    assert (other.fit(values, correct, folds).predict(values).log_odds != first).any()


def monotone_steps(fusion: EnsembleFusion, column: int) -> np.ndarray:
    """Changes of the log-odds as one signal rises, for many settings of the others (all observed)."""
    base = problem(60, seed=11)[0]
    grid = np.linspace(-25, 25, 101)
    rows = np.repeat(base, grid.size, axis=0)
    rows[:, column] = np.tile(grid, len(base))
    return np.diff(fusion.predict(rows, explain=False).log_odds[:, 0].reshape(len(base), grid.size), axis=1)


def test_boosting_never_goes_against_a_stated_direction() -> None:
    values, correct, _ = problem(500, kind="both")
    wild = np.random.default_rng(5).random(500) < 0.35
    correct = np.where(wild, 1 - correct, correct)
    fusion = BoostedFusion(NAMES, settings=BOOSTED).fit(values, correct)
    assert (monotone_steps(fusion, 0) >= 0.0).all()
    assert (monotone_steps(fusion, 1) <= 0.0).all()
    assert (monotone_steps(fusion, 3) >= 0.0).all()
    assert (monotone_steps(fusion, 0) > 0.0).any()
    own = monotone_steps(fusion, 2)
    assert (own > 0.0).any() and (own < 0.0).any()
    told = BoostedFusion(NAMES, directions={"own": Direction.LOWER_IS_SURER}, settings=BOOSTED).fit(values, correct)
    assert (monotone_steps(told, 2) <= 0.0).all()
    assert (monotone_steps(told, 0) >= 0.0).all()
    free = BoostedSettings(25, 0.2, 6, 10, 1.0, 32, 1.0, monotone=False)
    assert (monotone_steps(BoostedFusion(NAMES, settings=free).fit(values, correct), 0) < 0.0).any()


@pytest.mark.parametrize("kind", ["straight", "bent", "both"])
def test_the_stack_is_no_worse_than_its_best_member(kind: str) -> None:
    values, correct, folds = problem(600, kind=kind, missing=0.05)
    fusion = StackedFusion(NAMES, settings=SMALL).fit(values, correct, folds)
    new, truth, _ = problem(3000, seed=77, kind=kind, missing=0.05)
    fused = fusion.predict(new, explain=False).log_odds[:, 0]
    members = fusion.voices(new)
    assert fusion.voices_ == ("logistic", "forest", "boosted", "vectors")
    assert roc_auc_score(truth, fused) > max(roc_auc_score(truth, said) for said in members.T) - 0.01
    assert log_loss(truth, 1 / (1 + np.exp(-fused))) < 0.01 + min(
        log_loss(truth, 1 / (1 + np.exp(-said))) for said in members.T
    )


def test_the_stack_is_the_weighted_sum_of_its_members_and_hears_those_that_know() -> None:
    values, correct, folds = problem(600, kind="bent")
    fusion = StackedFusion(NAMES, settings=SMALL).fit(values, correct, folds)
    assert fusion.predict(values).log_odds[:, 0] == pytest.approx(
        fusion.voices(values) @ fusion.weights_ + fusion.bias_, abs=1e-12
    )
    assert (fusion.weights_ >= 0.0).all()
    # How far each moves the sum: a weight alone says little where a penalty made a member's log-odds small.
    moved = dict(zip(fusion.voices_, fusion.weights_ * fusion.crossfitted_.std(axis=0), strict=True))
    assert moved["forest"] + moved["boosted"] > 10 * (moved["logistic"] + moved["vectors"])


def test_cross_fitted_log_odds_know_nothing_of_the_rows_own_fold() -> None:
    values, correct, folds = problem(240)
    first = StackedFusion(NAMES, settings=SMALL, C=0.1).fit(values, correct, folds)
    swapped = correct.copy()
    swapped[folds == 2] = 1 - swapped[folds == 2]
    second = StackedFusion(NAMES, settings=SMALL, C=0.1).fit(values, swapped, folds)
    trees = [place for place, name in enumerate(first.voices_) if name in ("logistic", "forest", "boosted")]
    inside = folds == 2
    assert (first.crossfitted_[inside][:, trees] == second.crossfitted_[inside][:, trees]).all()
    assert (first.crossfitted_[~inside][:, trees] != second.crossfitted_[~inside][:, trees]).any(axis=0).all()


def test_stack_weights_are_those_of_a_logistic_regression_where_labels_are_many() -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(20_000, 2)) * 2
    y = (draw.random(20_000) < 1 / (1 + np.exp(-(0.7 * x[:, 0] + 0.4 * x[:, 1] - 0.5)))).astype(float)
    weights, bias = stack_weights(x, y, np.ones(20_000), pull=1e-6)
    model = LogisticRegression(C=np.inf, tol=1e-9).fit(x, y)
    assert weights == pytest.approx(model.coef_[0], abs=1e-4)
    assert bias == pytest.approx(float(model.intercept_[0]), abs=1e-4)


def test_stack_weights_are_the_plain_average_where_labels_are_few_and_never_negative() -> None:
    draw = np.random.default_rng(1)
    x = draw.normal(size=(12, 3))
    y = np.arange(12) % 2.0
    weights, _ = stack_weights(x, y, np.ones(12), pull=1e6)
    assert weights == pytest.approx([1 / 3] * 3, abs=1e-4)
    many = draw.normal(size=(3000, 2))
    against = (many[:, 0] < 0).astype(float)
    weights, _ = stack_weights(many, against, np.ones(3000), pull=1.0)
    assert weights[0] == 0.0
    assert (weights >= 0.0).all()


def test_members_are_chosen_and_vectors_need_company() -> None:
    values, correct, folds = problem(200)
    two = FusionSettings(SMALL.forest, BOOSTED, members=("forest", "vectors"), cross_fit_trees=5)
    assert StackedFusion(NAMES, settings=two).fit(values, correct, folds).voices_ == ("forest", "vectors")
    alone = FusionSettings(SMALL.forest, BOOSTED, members=("logistic", "vectors"), cross_fit_trees=5)
    assert StackedFusion(NAMES[:3], settings=alone).fit(values[:, :3], correct, folds).voices_ == ("logistic",)
    only = FusionSettings(SMALL.forest, BOOSTED, members=("vectors",), cross_fit_trees=5)
    assert StackedFusion(NAMES[:3], settings=only).fit(values[:, :3], correct, folds).voices_ == ("logistic",)


def test_bad_input_and_settings_are_typed_errors() -> None:
    values, correct, folds = problem(100)
    with pytest.raises(BadInput, match="2 folds"):
        StackedFusion(NAMES, settings=SMALL).fit(values, correct)
    with pytest.raises(BadInput, match="2 folds"):
        StackedFusion(NAMES, settings=SMALL).fit(values, correct, np.zeros(100, dtype=int))
    for fusion in estimators():
        with pytest.raises(BadInput, match="one class"):
            fusion.fit(values, np.ones(100), folds)
        with pytest.raises(BadInput, match="shape"):
            fusion.fit(values[:, :2], correct, folds)
    with pytest.raises(ConfigurationError, match="trees=0"):
        ForestFusion(NAMES, trees=0).fit(values, correct)
    with pytest.raises(ConfigurationError, match="members"):
        FusionSettings(members=("logistic", "oracle"))
    with pytest.raises(ConfigurationError, match="members"):
        FusionSettings(members=())
    with pytest.raises(ConfigurationError, match="pull"):
        FusionSettings(pull=0.0)
    with pytest.raises(ConfigurationError, match="cross_fit_trees"):
        FusionSettings(cross_fit_trees=0)
    for change in ({"bins": 256}, {"rounds": 0}, {"share": 0.0}, {"rate": 2.0}, {"l2": -1.0}, {"l2": float("nan")}):
        fields = {"rounds": 5, "rate": 0.1, "leaves": 4, "leaf": 5, "l2": 1.0, "bins": 16, "share": 1.0}
        with pytest.raises(ConfigurationError):
            BoostedSettings(**{**fields, "monotone": True, **change})
