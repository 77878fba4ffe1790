"""Recall: key, kernel, shrinkage, cold start, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from demur import BadInput
from demur.memory.recall import KAPPA, Recall, RecallEstimate, kernel
from demur.memory.recall_key import Experience, RecallKey


def bank_of(count, seed=0, dimensions=8, rate=0.4):
    """Questions of two kinds; one kind is mostly answered right."""
    draw = np.random.default_rng(seed)
    kind = draw.random(count) < 0.5
    vectors = draw.normal(size=(count, dimensions)) * 0.3
    vectors[:, 0] += np.where(kind, 1.0, -1.0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    right = draw.random(count) < np.where(kind, 2 * rate, 0.0)
    return Experience(
        vectors.astype(np.float32), draw.uniform(0.2, 0.8, count), draw.integers(3, 40, count).astype(float),
        right.astype(float),
    )  # fmt: skip


def test_the_kernel_by_hand():
    found = kernel(0.5, np.array([0.5, 0.58, 0.3, np.nan]))
    assert found == pytest.approx([1.0, np.exp(-0.5), np.exp(-(0.2**2) / (2 * 0.0064)), 1.0])
    assert kernel(float("nan"), np.array([0.1, 0.9])) == pytest.approx([1.0, 1.0])


def test_shrinkage_by_hand():
    """Sixty episodes at one confidence, all alike: p = (right + κ b) / (50 + κ)."""
    bank = Experience(
        np.eye(4, dtype=np.float32)[np.zeros(60, dtype=int)], np.full(60, 0.5), np.full(60, 7.0),
        np.array([1.0] * 24 + [0.0] * 36),
    )  # fmt: skip
    found = Recall(kappa=4.0).fit(bank).estimate(bank, 0)
    assert found.neighbours == tuple(range(50))  # equally near: the older ones
    assert (found.mass, found.right, found.base_rate) == pytest.approx((50.0, 24.0, 0.4))
    assert found.probability == pytest.approx((24 + 4 * 0.4) / 54)
    a, b = 24 + 1.6, 26 + 2.4
    assert found.interval() == pytest.approx(tuple(beta.ppf([0.05, 0.95], a, b)))


def test_nobody_who_may_speak_is_no_half():
    bank = bank_of(60)
    with pytest.raises(BadInput, match="no episode may speak"):
        Recall().fit(bank).estimate(bank, 0, allowed=np.zeros(60, dtype=bool))


@given(st.integers(0, 1000), st.integers(50, 200))
@settings(max_examples=20, deadline=None)
def test_it_agrees_with_the_formula_over_a_full_sort(seed, count):
    bank = bank_of(count, seed)
    allowed = np.random.default_rng(seed).random(count) < 0.9
    found = Recall(kappa=2.0, neighbours=20).fit(bank)
    keys = found.key_.transform(bank)
    ranked = sorted(np.flatnonzero(allowed), key=lambda row: -float(keys[row] @ keys[0]))[:20]
    weights = np.exp(-((bank.confidence[ranked] - bank.confidence[0]) ** 2) / (2 * 0.08**2))
    base = bank.correct[allowed].mean()
    expected = (weights @ bank.correct[ranked] + 2.0 * base) / (weights.sum() + 2.0)
    assert found.estimate(bank, 0, allowed=allowed).probability == pytest.approx(expected)


@given(st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_the_order_of_the_bank_does_not_matter(seed):
    bank, order = bank_of(150, seed), np.random.default_rng(seed).permutation(150)
    query = bank_of(1, seed + 1)
    one, other = (Recall(kappa=4.0).fit(each).estimate(query) for each in (bank, bank.take(order)))
    assert one.probability == pytest.approx(other.probability, abs=1e-9)
    assert sorted(one.neighbours) == sorted(order[list(other.neighbours)])


def test_what_was_forgotten_does_not_speak():
    bank = bank_of(200)
    recall = Recall(kappa=4.0).fit(bank)
    recall.keep(120)
    assert recall.estimate(bank, 5) == Recall(kappa=4.0).fit(bank).estimate(bank, 5, allowed=np.arange(200) < 120)


def test_far_confidences_leave_the_base_rate():
    bank = bank_of(200)
    query = Experience(bank.questions[:1], np.array([5.0]), np.array([9.0]), np.zeros(1))
    found = Recall(kappa=4.0).fit(bank).estimate(query)
    assert found.mass < 1e-9
    assert found.probability == pytest.approx(bank.correct.mean())
    low, high = found.interval()
    assert low < 0.1 and high > 0.7  # κ pseudo-episodes alone say little


@pytest.mark.parametrize("count", [1, 9, 49])
def test_a_cold_start_says_the_base_rate(count):
    bank = bank_of(count)
    found = Recall().fit(bank).estimate(bank, 0)
    assert (found.probability, found.mass, found.neighbours) == (pytest.approx(bank.correct.mean()), 0.0, ())


def test_right_neighbours_push_up_and_wrong_ones_down():
    bank = bank_of(400)
    recall = Recall().fit(bank)
    good, bad = (
        Experience(np.eye(8, dtype=np.float32)[:1] * sign, np.array([0.5]), np.array([9.0]), np.zeros(1))
        for sign in (1.0, -1.0)
    )
    assert recall.estimate(good).probability > 0.6 > bank.correct.mean() > 0.1 > recall.estimate(bad).probability


@pytest.mark.parametrize("grade", [0.0, 1.0])
def test_a_bank_of_one_class(grade):
    bank = bank_of(80)
    bank = Experience(bank.questions, bank.confidence, bank.answer_lengths, np.full(80, grade))
    found = Recall().fit(bank).estimate(bank, 3)
    assert found.probability == pytest.approx(grade)
    low, high = found.interval()
    assert 0.0 <= low <= found.probability <= high <= 1.0


def test_kappa_is_chosen_on_the_bank():
    structured = Recall().fit(bank_of(500)).kappa_
    draw = np.random.default_rng(1)
    noise = bank_of(500)
    noise = Experience(noise.questions, noise.confidence, noise.answer_lengths, (draw.random(500) < 0.4).astype(float))
    assert structured < Recall().fit(noise).kappa_
    assert Recall().fit(bank_of(40)).kappa_ == KAPPA


def test_the_key_is_fitted_on_the_bank_alone_and_repeats_itself():
    bank, other = bank_of(100), bank_of(5, seed=9)
    key, again = RecallKey().fit(bank), RecallKey().fit(bank)
    assert np.array_equal(key.transform(other), again.transform(other))
    assert key.transform(other)[:1] == pytest.approx(key.transform(other.take(np.array([0]))))
    assert np.linalg.norm(key.transform(bank), axis=1) == pytest.approx(1.0)
    assert np.abs(key.weight_).max() == pytest.approx(1.0)


def test_what_never_differs_says_nothing():
    bank = bank_of(60)
    bank = Experience(bank.questions, np.full(60, 0.5), np.full(60, 7.0), bank.correct)
    key = RecallKey().fit(bank)
    moved = Experience(bank.questions[:1], np.array([0.9]), np.array([900.0]), np.zeros(1))
    assert key.transform(moved) == pytest.approx(key.transform(bank.take(np.array([0]))))


def test_what_told_right_from_wrong_counts_most():
    key = RecallKey(components=4).fit(bank_of(400))
    assert int(np.argmax(key.weight_)) == 0  # the axis along which the two kinds lie


def test_bad_banks_are_refused():
    with pytest.raises(BadInput, match="at least one"):
        RecallKey().fit(bank_of(3).take(np.array([], dtype=int)))
    with pytest.raises(BadInput, match="shape"):
        Experience(np.eye(3, dtype=np.float32), np.ones(2), np.ones(3), np.ones(3))


@given(st.integers(0, 10_000), st.integers(1, 150), st.floats(0.0, 1.0))
@settings(max_examples=25, deadline=None)
def test_it_stays_a_probability_whatever_the_bank(seed, count, confidence):
    bank = bank_of(count, seed)
    query = Experience(bank.questions[-1:], np.array([confidence]), np.array([5.0]), np.zeros(1))
    found = Recall().fit(bank).estimate(query)
    low, high = found.interval()
    assert 0.0 <= low <= found.probability <= high <= 1.0
    assert 0.0 <= found.right <= found.mass <= 50.0


def test_episodes_added_later_count_as_those_fitted():
    whole, part = bank_of(300), np.arange(200)
    recall = Recall().fit(whole.take(part))
    recall.add(whole.take(np.arange(200, 300)))
    assert recall.size == 300
    late = recall.estimate(whole, 299)
    assert 299 in late.neighbours
    assert isinstance(late, RecallEstimate)
