from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.core.errors import BadInput, NotEnoughLabels
from demur.probes.calibration.base import sigmoid
from demur.probes.mislabelled import suspected_mislabels


def test_by_hand() -> None:
    # Right rows: .9, .8, .1, mean .6. Wrong rows: .2, .3, .95, mean of 1 - p: (.8 + .7 + .05) / 3 = .517.
    # Row 2 (graded right, p .1) is wrong with .9 >= .517 and right with .1 < .6. Row 5 (graded wrong, .95 >= .6).
    found = suspected_mislabels([0.9, 0.8, 0.1, 0.2, 0.3, 0.95], [1, 1, 1, 0, 0, 0])
    assert [(each.row, each.correct, each.self_confidence) for each in found] == [
        (5, False, pytest.approx(0.05)),
        (2, True, pytest.approx(0.1)),
    ]
    assert [each.threshold for each in found] == pytest.approx([0.6, 1.55 / 3])
    assert [each.row for each in suspected_mislabels([0.9, 0.8, 0.1, 0.2, 0.3, 0.95], [1, 1, 1, 0, 0, 0], most=1)] == [
        5
    ]


def test_a_group_with_enough_rows_has_thresholds_of_its_own() -> None:
    # A hard tool: right rows at .6 and wrong ones at .4; an easy one at .95 and .05. One wrong row of each at .7:
    # of the hard one it reaches the mean of its right rows (.6), but not that of all, (25 · .6 + 25 · .95) / 50 = .775.
    p = [0.6] * 25 + [0.4] * 25 + [0.95] * 25 + [0.05] * 25 + [0.7, 0.7]
    y = ([1] * 25 + [0] * 25) * 2 + [0, 0]
    groups = ["hard"] * 50 + ["easy"] * 50 + ["hard", "easy"]
    assert [(each.row, each.threshold) for each in suspected_mislabels(p, y, groups)] == [(100, pytest.approx(0.6))]
    assert suspected_mislabels(p, y) == suspected_mislabels(p, y, [None] * 102) == []
    # Too few rows of a class: the thresholds of all.
    few = ["hard"] * 19 + [None] * 6 + groups[25:]
    assert suspected_mislabels(p, y, few) == []
    with pytest.raises(BadInput, match="102 rows came with 1 groups"):
        suspected_mislabels(p, y, ["hard"])


def test_flipped_grades_are_found() -> None:
    draw = np.random.default_rng(0)
    p = sigmoid(draw.normal(size=2000) * 3.0)
    truth = draw.random(2000) < p
    flipped = np.zeros(2000, dtype=bool)
    flipped[draw.choice(2000, 100, replace=False)] = True
    grades = truth ^ flipped
    found = [each.row for each in suspected_mislabels(p, grades)]
    base = flipped.mean()
    assert flipped[found].mean() > 3 * base
    assert flipped[found].sum() > 50
    # The most doubtful are likelier wrong than the rest.
    assert flipped[found[:40]].mean() > flipped[found].mean()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=2, max_size=60))
def test_only_grades_that_the_confidence_speaks_against(rows: list[tuple[float, bool]]) -> None:
    p, y = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    if y.all() or not y.any():
        with pytest.raises(NotEnoughLabels):
            suspected_mislabels(p, y)
        return
    found = suspected_mislabels(p, y)
    assert len({each.row for each in found}) == len(found)
    assert [each.self_confidence for each in found] == sorted(each.self_confidence for each in found)
    for each in found:
        mean = p[y].mean() if not each.correct else (1 - p[~y]).mean()
        assert (each.probability if not each.correct else 1 - each.probability) >= mean - 1e-12


def test_rows_without_a_probability_are_left_out_and_bad_input_refused() -> None:
    found = suspected_mislabels([np.nan, 0.9, 0.1, 0.05], [0, 1, 0, 1])
    assert [each.row for each in found] == [3]
    with pytest.raises(BadInput):
        suspected_mislabels([1.5, 0.2], [1, 0])
    with pytest.raises(BadInput):
        suspected_mislabels([0.5], [1, 0])
