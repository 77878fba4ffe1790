import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from demur.core.errors import ConfigurationError
from demur.policies.label_needs import answered_rows_needed, reached, tiers_ahead


@pytest.mark.parametrize(("alpha", "delta", "rows"), [(0.05, 0.1, 45), (0.1, 0.05, 29), (0.5, 0.25, 2), (0.5, 0.5, 1)])
def test_golden_values_without_errors(alpha, delta, rows):
    assert answered_rows_needed(alpha, delta) == rows


@given(alpha=st.floats(0.01, 0.6), delta=st.floats(0.01, 0.5))
def test_without_errors_it_is_the_closed_form(alpha, delta):
    assert answered_rows_needed(alpha, delta) in {
        math.ceil(math.log(delta) / math.log(1 - alpha) - 1e-9),
        math.ceil(math.log(delta) / math.log(1 - alpha)),
    }


@given(alpha=st.floats(0.02, 0.5), delta=st.floats(0.02, 0.5), errors=st.integers(0, 8))
def test_it_is_the_smallest_number_that_scipys_exact_test_accepts(alpha, delta, errors):
    rows = answered_rows_needed(alpha, delta, errors)
    assert binomtest(errors, rows, alpha, alternative="less").pvalue <= delta * (1 + 1e-9)
    if rows - 1 > errors:
        assert binomtest(errors, rows - 1, alpha, alternative="less").pvalue > delta * (1 - 1e-9)


@pytest.mark.parametrize(("alpha", "delta"), [(0.0, 0.1), (1.0, 0.1), (0.05, 0.0), (0.05, 1.0), (math.nan, 0.1)])
def test_levels_that_mean_nothing_are_refused(alpha, delta):
    with pytest.raises(ConfigurationError, match="strictly between"):
        answered_rows_needed(alpha, delta)


def test_negative_errors_are_refused():
    with pytest.raises(ConfigurationError, match="errors=-1"):
        answered_rows_needed(0.05, 0.1, -1)


@pytest.mark.parametrize(
    ("right", "wrong", "tier"),
    [(500, 9, None), (10, 500, 10), (24, 24, 10), (25, 99, 25), (100, 199, 100), (200, 200, 200)],
)
def test_the_rarer_class_decides(right, wrong, tier):
    found = reached(right, wrong)
    assert (found.rarer if found else None) == tier


def test_what_is_missing_is_named():
    needs = tiers_ahead(right=300, wrong=12)
    assert [(need.tier.rarer, need.missing, need.of) for need in needs] == [
        (25, 13, "wrong"),
        (100, 88, "wrong"),
        (200, 188, "wrong"),
    ]
    assert tiers_ahead(200, 1000) == ()
    assert tiers_ahead(0, 0)[0].of == "either"
