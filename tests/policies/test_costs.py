import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.core.errors import ConfigurationError
from demur.policies.costs import Costs


@pytest.mark.parametrize("name", ["wrong", "abstain", "right", "review", "review_wait", "generate", "retrieve"])
@pytest.mark.parametrize("value", [-0.01, math.nan, math.inf, -math.inf, "1", True])
def test_a_price_that_is_no_price_is_refused_by_name(name, value):
    with pytest.raises(ConfigurationError, match=rf"costs\.{name}="):
        Costs(**{"wrong": 1.0, "abstain": 0.3, name: value})


@pytest.mark.parametrize("value", [-1.0, math.nan, None, "free"])
def test_a_larger_models_price_is_checked_too(value):
    with pytest.raises(ConfigurationError, match=r"costs\.escalate\.big"):
        Costs(wrong=1.0, abstain=0.3, escalate={"big": value})


@pytest.mark.parametrize("accuracy", [0.0, 1.0, 1.5, -0.1, math.nan, None])
def test_humans_are_never_taken_to_be_perfect(accuracy):
    with pytest.raises(ConfigurationError, match="human_accuracy"):
        Costs(wrong=1.0, abstain=0.3, human_accuracy=accuracy)


def test_the_default_for_humans_is_marked_as_an_assumption():
    costs = Costs(wrong=1.0, abstain=0.3)
    assert (costs.human_accuracy, costs.human_accuracy_source) == (0.95, "given")


def test_abstaining_must_be_cheaper_than_being_wrong():
    with pytest.raises(ConfigurationError, match=r"abstain=1\.0 must be below costs\.wrong=1\.0"):
        Costs(wrong=1.0, abstain=1.0)


def test_answering_must_be_able_to_pay():
    with pytest.raises(ConfigurationError, match="nothing is ever gained"):
        Costs(wrong=1.0, abstain=0.0)
    assert Costs(wrong=1.0, abstain=0.0, right=0.5).right == 0.5


def test_a_typo_in_a_price_raises():
    with pytest.raises(TypeError):
        Costs(wrong=1.0, abstain=0.3, reveiw=0.1)  # type: ignore[call-arg]


def test_costs_cannot_be_changed_from_outside():
    prices = {"big": 0.1}
    costs = Costs(wrong=1.0, abstain=0.3, escalate=prices)
    prices["big"] = 99.0
    assert costs.escalate["big"] == 0.1
    with pytest.raises(TypeError):
        costs.escalate["big"] = 5.0  # type: ignore[index]


def test_money_is_short_and_names_its_unit():
    assert Costs(wrong=1.0, abstain=0.3).money(0.123456) == "0.123"
    assert Costs(wrong=1.0, abstain=0.3, unit="EUR").money(12.0) == "12 EUR"
    with pytest.raises(ConfigurationError, match="unit"):
        Costs(wrong=1.0, abstain=0.3, unit="\x1b[31m")


@given(wrong=st.floats(0.1, 1e4), share=st.floats(0.01, 0.99), right=st.floats(0.0, 1e4), loss=st.floats(1.0, 100.0))
def test_the_utility_view_has_the_same_values(wrong, share, right, loss):
    costs = Costs(wrong=wrong, abstain=wrong * share, right=right)
    assert costs.utility.of_answering(0.25) == pytest.approx(0.25 * right - 0.75 * wrong)
    assert costs.utility.of_withholding(0.25) == pytest.approx(-wrong * share)
    assert costs.with_loss(loss).utility.threshold >= costs.utility.threshold
