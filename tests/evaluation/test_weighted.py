"""Accuracy from labels that were not drawn alike."""

from __future__ import annotations

import numpy as np
import pytest

from demur import BadInput, Refused
from demur.evaluation.metrics.proportion import proportion
from demur.evaluation.metrics.weighted import weighted_proportion


def graded(seed, count=4000, rate=0.05):
    """Calls with a known truth: unsure ones are deferred and graded by a human, of the others `rate` are drawn."""
    draw = np.random.default_rng(seed)
    confidence = draw.beta(2.5, 1.2, count)
    right = draw.random(count) < confidence
    propensity = np.where(confidence < 0.5, 1.0, rate)
    seen = draw.random(count) < propensity
    return right, propensity, seen


def test_labels_of_deferred_calls_alone_mislead_and_weights_set_it_right():
    right, propensity, seen = graded(0)
    naive = proportion("naive", right[seen])
    weighted = weighted_proportion("weighted", right[seen], propensity[seen])
    truth = right.mean()
    assert naive.high < truth - 0.1
    assert weighted.low <= truth <= weighted.high
    assert weighted.high - weighted.low < 0.2


def test_the_interval_covers_as_it_says():
    covered = 0
    for seed in range(200):
        right, propensity, seen = graded(seed + 1)
        found = weighted_proportion("weighted", right[seen], propensity[seen])
        covered += found.low <= right.mean() <= found.high
    assert 180 <= covered <= 199


def test_by_hand():
    found = weighted_proportion("w", [1, 0, 1], [0.5, 1.0, 0.25])
    assert found.value == pytest.approx((2 + 4) / (2 + 1 + 4))
    even = weighted_proportion("w", [1, 0, 1, 1], [0.3] * 4)
    plain = proportion("w", [1, 0, 1, 1])
    assert (even.value, even.low, even.high) == pytest.approx((plain.value, plain.low, plain.high))


@pytest.mark.parametrize("bad", [0.0, float("nan"), None, -0.1])
def test_what_nobody_could_have_graded_is_refused(bad):
    with pytest.raises(Refused, match="0 or unknown for 1 of 2 rows"):
        weighted_proportion("w", [1, 0], [0.5, bad])


def test_bad_input():
    with pytest.raises(BadInput):
        weighted_proportion("w", [1, 0], [0.5])
    with pytest.raises(BadInput, match="above 1"):
        weighted_proportion("w", [1, 0], [0.5, 1.5])
    assert weighted_proportion("w", [], []).value is None
