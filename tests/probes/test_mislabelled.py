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
    assert [each.row for each in suspected_mislabels([0.9, 0.8, 0.1, 0.2, 0.3, 0.95], [1, 1, 1, 0, 0, 0], most=1)] == [
        5
    ]


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
