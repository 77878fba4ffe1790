import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.core.errors import ConfigurationError
from demur.core.utility import Utility

WORTH = st.floats(-1e3, 1e3)


@st.composite
def utilities(draw: st.DrawFn) -> Utility:
    fn, fp = draw(WORTH), draw(WORTH)
    return Utility(tp=fn + draw(st.floats(0.01, 1e3)), fp=fp, fn=fn, tn=fp + draw(st.floats(0.01, 1e3)))


@pytest.mark.parametrize(
    ("utility", "threshold"),
    [
        (Utility(), 0.5),
        (Utility(fp=-9.0), 0.9),
        (Utility(tp=1.0, fp=-2.0, fn=-0.5, tn=1.0), 3.0 / 4.5),
        (Utility.from_threshold(0.9), 0.9),
        (Utility.from_penalty(4.0), 0.8),
    ],
)
def test_golden_thresholds(utility, threshold):
    assert utility.threshold == pytest.approx(threshold)


@pytest.mark.parametrize(("tau", "false_positive"), [(0.1, -1 / 9), (0.5, -1.0), (0.9, -9.0)])
def test_mice_prices_of_a_wrong_tool_call(tau, false_positive):
    assert Utility.from_threshold(tau).fp == pytest.approx(false_positive)


@given(utility=utilities(), p=st.floats(0.0, 1.0))
def test_answering_is_better_exactly_from_the_threshold_on(utility, p):
    gain = utility.of_answering(p) - utility.of_withholding(p)
    scale = (utility.tp - utility.fn) + (utility.tn - utility.fp)
    assert gain == pytest.approx((p - utility.threshold) * scale, abs=1e-9)
    assert 0.0 < utility.threshold < 1.0


@given(t=st.floats(0.001, 0.999))
def test_the_families_agree(t):
    assert Utility.from_threshold(t).threshold == pytest.approx(t)
    assert Utility.from_penalty(t / (1.0 - t)).threshold == pytest.approx(t)


@given(utility=utilities())
def test_what_is_realised_averages_to_what_was_expected(utility):
    for answered, expected in ((True, utility.of_answering), (False, utility.of_withholding)):
        assert utility.realised(answered, True) == pytest.approx(expected(1.0))
        assert utility.realised(answered, False) == pytest.approx(expected(0.0))


@pytest.mark.parametrize("name", ["tp", "fp", "fn", "tn"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_worth_that_is_no_number_is_refused(name, value):
    with pytest.raises(ConfigurationError, match=name):
        Utility(**{name: value})


@pytest.mark.parametrize("worth", [{"tp": 0.0}, {"tp": -1.0}, {"fp": 0.0}, {"fp": 1.0}, {"fn": 1.0}, {"tn": -1.0}])
def test_worths_for_which_confidence_cannot_matter_are_refused(worth):
    with pytest.raises(ConfigurationError, match="confidence cannot matter"):
        Utility(**worth)


@pytest.mark.parametrize("threshold", [0.0, 1.0, -0.1, 1.1, math.nan])
def test_a_threshold_outside_the_open_interval_is_refused(threshold):
    with pytest.raises(ConfigurationError, match="strictly between"):
        Utility.from_threshold(threshold)


@pytest.mark.parametrize("penalty", [0.0, -1.0, math.nan, math.inf])
def test_a_penalty_that_penalises_nothing_is_refused(penalty):
    with pytest.raises(ConfigurationError, match="penalty"):
        Utility.from_penalty(penalty)
