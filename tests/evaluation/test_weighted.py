"""Accuracy from labels that were not drawn alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur import BadInput, Refused
from demur.evaluation.metrics.proportion import proportion
from demur.evaluation.metrics.weighted import effective_rows, sampling_weights, weighted_proportion


def graded(seed, count=4000, rate=0.05):
    """Calls with a known truth: unsure ones are deferred and graded by a human, of the others `rate` are drawn."""
    draw = np.random.default_rng(seed)
    confidence = draw.beta(2.5, 1.2, count)
    right = draw.random(count) < confidence
    propensity = np.where(confidence < 0.5, 1.0, rate)
    seen = draw.random(count) < propensity
    return right, propensity, seen


@pytest.mark.parametrize("rate", [0.02, 0.05])
def test_labels_of_deferred_calls_mislead_and_weights_set_it_right(rate):
    right, propensity, seen = graded(0, rate=rate)
    naive = proportion("naive", right[seen])
    weighted = weighted_proportion("weighted", right[seen], propensity[seen])
    truth = right.mean()
    assert naive.high < truth - 0.1
    assert weighted.low <= truth <= weighted.high
    assert weighted.high - weighted.low < 0.2


@pytest.mark.parametrize(("count", "rate"), [(4000, 0.05), (4000, 0.02), (1000, 0.02)])
@pytest.mark.parametrize("known_totals", [False, True], ids=["plain", "totals"])
def test_the_interval_covers_as_it_says(count, rate, known_totals):
    covered = 0
    for seed in range(200):
        right, propensity, seen = graded(seed + 1, count, rate)
        more = {}
        if known_totals:
            groups = np.where(propensity < 1.0, "drawn", "deferred")
            more = {"groups": groups[seen], "totals": {name: int((groups == name).sum()) for name in set(groups)}}
        found = weighted_proportion("weighted", right[seen], propensity[seen], **more)
        covered += found.low <= right.mean() <= found.high
    assert 180 <= covered <= 199


def test_known_totals_stand_in_for_what_was_drawn_and_is_not_graded_yet():
    """Of 800 deferred calls a human has seen 100; 200 others were drawn at 50 % and all seen."""
    hits = [1] * 20 + [0] * 80 + [1] * 100
    chances = [1.0] * 100 + [0.5] * 100
    groups = ["deferred"] * 100 + ["answered"] * 100
    plain = weighted_proportion("w", hits, chances)
    assert plain.value == pytest.approx((20 + 200) / 300)
    found = weighted_proportion("w", hits, chances, groups=groups, totals={"deferred": 800, "answered": 200})
    assert found.value == pytest.approx(0.2 * 0.8 + 1.0 * 0.2)
    assert found.low < 0.36 < found.high
    with pytest.raises(Refused, match="speaks for the 7 others"):
        weighted_proportion("w", hits, chances, groups=groups, totals={"deferred": 8, "answered": 2, "others": 7})
    with pytest.raises(Refused, match="speaks for the 3 others"):
        weighted_proportion("w", [], [], groups=[], totals={"others": 3})
    with pytest.raises(BadInput, match="no total is given for group 'answered'"):
        weighted_proportion("w", hits, chances, groups=groups, totals={"deferred": 8})
    with pytest.raises(BadInput, match="came with 2 groups"):
        weighted_proportion("w", hits, chances, groups=["a", "b"], totals={"a": 1, "b": 1})


def test_effective_rows_by_hand():
    assert effective_rows([2.0, 2.0, 2.0]) == pytest.approx(3.0)
    assert effective_rows([1.0, 1.0, 8.0]) == pytest.approx(100 / 66)
    assert effective_rows([]) == 0.0


@given(
    rows=st.lists(st.tuples(st.booleans(), st.floats(1e-3, 1.0)), min_size=1, max_size=60),
    scale=st.floats(0.01, 1.0),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_estimate_is_in_its_interval_and_knows_no_scale(rows, scale):
    hits, chances = [hit for hit, _ in rows], np.array([chance for _, chance in rows])
    found = weighted_proportion("w", hits, chances)
    assert 0.0 <= found.low <= found.value <= found.high <= 1.0
    again = weighted_proportion("w", hits, chances * scale)
    assert (again.value, again.low, again.high) == pytest.approx((found.value, found.low, found.high), abs=1e-6)
    assert effective_rows(sampling_weights("w", chances)) <= len(rows) + 1e-9


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
