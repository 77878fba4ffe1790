"""Timeline: what was known at a moment, fitted on nothing later."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur import BadInput
from demur.memory.recall import Recall
from demur.memory.recall_key import Experience, RecallKey
from demur.memory.recall_timeline import Timeline, checkpoint


def bank_of(count, seed=0):
    draw = np.random.default_rng(seed)
    vectors = draw.normal(size=(count, 6))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    right = (vectors[:, 0] + 0.5 * draw.normal(size=count) > 0).astype(float)
    return Experience(
        vectors.astype(np.float32), draw.uniform(0.2, 0.8, count), draw.integers(3, 40, count).astype(float), right
    )


@pytest.fixture
def fits(monkeypatch):
    """The sizes of the banks that keys are fitted on, as it happens."""
    sizes = []
    plain = RecallKey.fit

    def fit(self, bank):
        sizes.append(len(bank))
        return plain(self, bank)

    monkeypatch.setattr(RecallKey, "fit", fit)
    return sizes


def test_checkpoints_grow_by_a_quarter():
    found = [checkpoint(count) for count in range(1, 20)]
    assert found == [1, 2, 3, 4, 5, 5, 7, 7, 9, 9, 9, 12, 12, 12, 15, 15, 15, 15, 19]
    with pytest.raises(BadInput, match="checkpoint of 0"):
        checkpoint(0)


@given(st.integers(1, 100_000))
def test_a_checkpoint_is_never_further_back_than_a_quarter(count):
    assert checkpoint(count) <= count < 1.25 * checkpoint(count) + 1
    assert checkpoint(checkpoint(count)) == checkpoint(count)


@given(st.integers(1, 160), st.integers(0, 1000), st.sampled_from([3, 20]))
@settings(max_examples=30, deadline=None)
def test_the_first_few_say_what_they_would_say_alone(first, seed, neighbours):
    bank, query = bank_of(160, seed), bank_of(1, seed + 1)
    whole, alone = Timeline(neighbours=neighbours), Timeline(neighbours=neighbours)
    whole.put(bank, np.arange(160.0))
    alone.put(bank.take(slice(0, first)), np.arange(float(first)))
    assert whole.estimate(query, first=first) == alone.estimate(query)


def test_it_is_recall_fitted_at_the_checkpoint_and_told_of_the_rest():
    bank, query = bank_of(100), bank_of(1, 5)
    timeline = Timeline(neighbours=20)
    timeline.put(bank, np.arange(100.0))
    by_hand = Recall(neighbours=20).fit(bank.take(slice(0, 94)))
    by_hand.add(bank.take(slice(94, 100)))
    assert timeline.estimate(query) == by_hand.estimate(query)


def test_moments_are_inclusive_and_an_unknown_one_is_never_before():
    timeline = Timeline()
    timeline.put(bank_of(4), np.array([1.0, 2.0, 2.0, np.inf]))
    assert [timeline.known(moment) for moment in (0.5, 1.0, 2.0, 1e12, None)] == [0, 1, 3, 3, 4]


def test_a_growing_bank_is_fitted_once_a_checkpoint(fits):
    bank, timeline = bank_of(100), Timeline(neighbours=5)
    for count in range(1, 101):
        timeline.put(bank.take(slice(0, count)), np.arange(float(count)), same=count - 1)
        timeline.estimate(bank, 0)
    assert fits == [5, 7, 9, 12, 15, 19, 24, 30, 38, 48, 60, 75, 94]


def test_what_changed_is_fitted_again_and_what_did_not_is_kept(fits):
    bank, timeline = bank_of(100), Timeline(neighbours=5)
    timeline.put(bank, np.arange(100.0))
    early, late = timeline.estimate(bank, 0, first=50), timeline.estimate(bank, 0)
    changed = Experience(
        bank.questions, bank.confidence, bank.answer_lengths,
        np.where(np.arange(100) == 70, 1.0 - bank.correct, bank.correct),
    )  # fmt: skip
    timeline.put(changed, np.arange(100.0), same=70)
    assert timeline.estimate(bank, 0, first=50) == early
    assert fits == [48, 94]
    assert timeline.estimate(bank, 0).base_rate != late.base_rate
    assert fits == [48, 94, 94]


def test_a_bank_that_makes_no_sense_is_refused():
    timeline = Timeline()
    with pytest.raises(BadInput, match="graded_at of shape"):
        timeline.put(bank_of(3), np.zeros(2))
    with pytest.raises(BadInput, match="ascend"):
        timeline.put(bank_of(3), np.array([0.0, 2.0, 1.0]))
    with pytest.raises(BadInput, match="at least 1"):
        timeline.estimate(bank_of(1))
