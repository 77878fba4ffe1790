"""Trees as arrays: equal to scikit-learn, explained exactly, and refused when they are not trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from demur.core.errors import BadInput
from demur.probes.fusion_members import BoostedMember, ForestMember, bin_edges, grow_boosted, grow_forest
from demur.probes.fusion_settings import BOOSTED_TREES, ForestSettings
from demur.probes.tree_ensemble import TreeEnsemble, from_boosting, from_forest, rounded_down


def problem(n: int = 300, width: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    z = np.clip(draw.normal(size=(n, width)), -5, 5)
    # Ties and repeated values, as rounded signals have.
    z[:, 1] = np.round(z[:, 1], 1)
    chance = 1 / (1 + np.exp(-(z[:, 0] - 0.8 * z[:, 1] + z[:, 2] * z[:, 3])))
    return z, (draw.random(n) < chance).astype(float), draw.uniform(0.2, 3.0, n)


@pytest.mark.parametrize("options", [{"max_depth": 3}, {"min_samples_leaf": 5, "max_depth": 20}, {}])
def test_a_forest_is_the_one_of_scikit_learn(options: dict) -> None:
    z, y, w = problem()
    model = RandomForestClassifier(30, max_features=3, random_state=1, **options).fit(z, y, sample_weight=w)
    trees = from_forest(model, z.shape[1])
    new = problem(2500, seed=9)[0]
    assert len(trees) == 30
    assert np.abs(trees.sums(new) / 30 - model.predict_proba(new)[:, 1]).max() < 1e-12


@pytest.mark.parametrize("weighted", [False, True])
def test_boosting_is_the_one_of_scikit_learn(weighted: bool) -> None:
    z, y, w = problem(600)
    z, new = z.astype(np.float32), problem(2500, seed=9)[0].astype(np.float32)
    model = HistGradientBoostingClassifier(max_iter=25, max_leaf_nodes=7, max_bins=40, early_stopping=False)
    model.fit(z, y, sample_weight=w if weighted else None)
    trees, start = from_boosting(model, z.shape[1])
    assert np.abs(start + trees.sums(new) - model.decision_function(new)).max() < 1e-12


def test_thresholds_between_bins_are_those_of_the_signal() -> None:
    z, y, w = problem(500)
    settings_ = replace(BOOSTED_TREES, rounds=20, bins=16, share=1.0, monotone=False)
    member = grow_boosted(z, y, w, settings_, np.zeros(6, dtype=np.int64), 0)
    single = z.astype(np.float32)
    edges = [bin_edges(column, 16) for column in single.T]
    assert all(len(cut) <= 15 for cut in edges)

    def codes(rows: np.ndarray) -> np.ndarray:
        return np.column_stack([np.searchsorted(cut, column) for cut, column in zip(edges, rows.T, strict=True)])

    model = HistGradientBoostingClassifier(
        max_iter=20,
        learning_rate=settings_.rate,
        max_leaf_nodes=settings_.leaves,
        min_samples_leaf=settings_.leaf,
        l2_regularization=settings_.l2,
        early_stopping=False,
        random_state=0,
    ).fit(codes(single), y, sample_weight=w)
    new = problem(2000, seed=3)[0].astype(np.float32)
    # At an edge, just above and just below it, too.
    new = np.concatenate(
        [new, np.tile(edges[0][:, None], 6), np.nextafter(np.tile(edges[0][:, None], 6), np.float32(9))]
    )
    assert np.abs(member.log_odds(new) - model.decision_function(codes(new))).max() < 1e-12


@settings(max_examples=60, deadline=None)
@given(st.floats(-6, 6), st.integers(-3, 3))
def test_rounding_a_threshold_down_changes_no_comparison(threshold: float, steps: int) -> None:
    near = np.float32(threshold)
    for _ in range(abs(steps)):
        near = np.nextafter(near, np.float32(np.copysign(10, steps)))
    assert (near <= np.float64(threshold)) == (near <= rounded_down(np.array([threshold]))[0])


def by_hand() -> TreeEnsemble:
    """x0 <= 1 ? 0.2 : (x1 <= 0.5 ? 0.4 : 1.0), and a lone leaf of 0.5."""
    return TreeEnsemble(
        roots=np.array([0, 5], np.int32),
        feature=np.array([0, -1, 1, -1, -1, -1], np.int16),
        threshold=np.array([1.0, 0, 0.5, 0, 0, 0], np.float32),
        right=np.array([2, 0, 4, 0, 0, 0], np.int32),
        value=np.array([0.5, 0.2, 0.8, 0.4, 1.0, 0.5]),
        width=2,
    )


def test_worked_by_hand() -> None:
    trees = by_hand()
    rows = np.array([[1.0, 9.0], [1.1, 0.5], [1.1, 0.6]])
    assert trees.sums(rows).tolist() == pytest.approx([0.7, 0.9, 1.5])
    base, parts = trees.paths(rows)
    assert base == 1.0
    assert parts.tolist() == [pytest.approx(row) for row in ([-0.3, 0.0], [0.3, -0.4], [0.3, 0.2])]
    assert (trees.depth, len(trees)) == (2, 2)


def test_paths_add_up_to_the_sums() -> None:
    z, y, w = problem()
    forest = grow_forest(z, y, w, ForestSettings(20, 20, 3, 2), 0)
    boosted = grow_boosted(z, y, w, replace(BOOSTED_TREES, rounds=20), np.zeros(6, dtype=np.int64), 0)
    new = problem(1500, seed=4)[0]
    for member in (forest, boosted):
        base, parts = member.explained(new)
        assert base + parts.sum(axis=1) == pytest.approx(member.log_odds(new), abs=1e-9)
        # Only what a member reads moves it.
        unread = np.setdiff1d(np.arange(6), member.trees.feature)
        assert (parts[:, unread] == 0.0).all()


def test_pure_leaves_do_not_make_certain() -> None:
    z, _, w = problem()
    forest = grow_forest(z, (z[:, 0] > 0).astype(float), w, ForestSettings(10, 20, 6, 1), 0)
    said = forest.log_odds(np.array([[4.0] * 6, [-4.0] * 6]))
    assert np.abs(said).max() <= np.log(2 * 300 + 1) + 1e-9
    assert np.abs(forest.probability(np.array([[4.0] * 6])) - 1.0).max() < 1e-12


def test_rows_of_no_weight_count_for_nothing() -> None:
    z, y, w = problem()
    w[:150] = 0.0
    twisted = y.copy()
    twisted[:150] = 1 - twisted[:150]
    for grow in (
        lambda grades: grow_forest(z, grades, w, ForestSettings(5, 5, 3, 5), 0),
        lambda grades: grow_boosted(z, grades, w, replace(BOOSTED_TREES, rounds=5), np.zeros(6, dtype=np.int64), 0),
    ):
        assert (grow(y).log_odds(z) == grow(twisted).log_odds(z)).all()


def test_a_single_row_and_none() -> None:
    trees = by_hand()
    assert trees.sums(np.empty((0, 2))).shape == (0,)
    assert trees.paths(np.empty((0, 2)))[1].shape == (0, 2)
    many = np.random.default_rng(0).normal(size=(3000, 2))
    assert trees.sums(many)[2999] == trees.sums(many[2999:])[0]


def at(name: str, place: int, value: float) -> Callable[[dict], None]:
    def change(parts: dict) -> None:
        parts[name][place] = value

    return change


def to(name: str, array: np.ndarray) -> Callable[[dict], None]:
    return lambda parts: parts.update({name: array})


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (at("right", 0, 0), "does not come after"),
        (at("right", 0, 1), "does not come after"),
        (at("right", 2, 2), "does not come after"),
        (at("right", 2, -1), "does not come after"),
        (at("right", 2, 5), "does not come after"),
        (at("right", 2, 10**6), "does not come after"),
        (at("right", 0, 3), "exactly one"),
        (at("right", 0, 4), "exactly one"),
        (at("feature", 2, -1), "exactly one"),
        (at("feature", 1, 0), "does not come after"),
        (at("feature", 0, 2), "outside the 2"),
        (at("feature", 0, -2), "outside the 2"),
        (at("feature", 5, 0), "does not come after"),
        (at("threshold", 0, np.nan), "not finite"),
        (at("threshold", 0, np.inf), "not finite"),
        (at("value", 1, np.nan), "not finite"),
        (at("value", 0, np.inf), "not finite"),
        (at("roots", 0, 1), "ascend from 0"),
        (at("roots", 1, 0), "ascend from 0"),
        (at("roots", 1, -1), "ascend from 0"),
        (at("roots", 1, 6), "ascend from 0"),
        (at("roots", 1, 4), "does not come after"),
        (to("roots", np.array([], np.int32)), "is needed"),
        (to("value", np.zeros(5)), "is needed"),
        (to("value", np.zeros((6, 1))), "is needed"),
        (to("threshold", np.zeros(6)), "is needed"),
        (to("right", np.zeros(6, np.int64)), "is needed"),
        (to("feature", np.full((6, 6), -1, np.int16)), "is needed"),
    ],
)
def test_what_is_not_a_set_of_trees_is_refused(spoil: Callable[[dict], None], why: str) -> None:
    trees = by_hand()
    parts = {name: array.copy() for name, array in trees.to_arrays().items()}
    TreeEnsemble(**parts, width=2)
    spoil(parts)
    with pytest.raises(BadInput, match=why):
        TreeEnsemble(**parts, width=2)


def chain(levels: int) -> TreeEnsemble:
    """Every right child is inner, every left one a leaf."""
    nodes = 2 * levels + 1
    inner = np.arange(nodes) % 2 == 0
    inner[-1] = False
    return TreeEnsemble(
        roots=np.array([0], np.int32),
        feature=np.where(inner, 0, -1).astype(np.int16),
        threshold=np.zeros(nodes, np.float32),
        right=np.where(inner, np.arange(nodes) + 2, 0).astype(np.int32),
        value=np.zeros(nodes),
        width=1,
    )


def test_no_endless_depth() -> None:
    assert chain(64).depth == 64
    with pytest.raises(BadInput, match="64 levels"):
        chain(65)


def test_members_refuse_what_they_cannot_mean() -> None:
    trees = by_hand()
    with pytest.raises(BadInput, match=r"\[0, 1\]"):
        ForestMember(replace(trees, value=trees.value * 2), 10)
    with pytest.raises(BadInput, match="at least one row"):
        ForestMember(trees, 0)
    with pytest.raises(BadInput, match="not finite"):
        BoostedMember(trees, float("nan"))
