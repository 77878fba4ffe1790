from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.core.decision import Route
from demur.core.errors import BadInput, NotEnoughLabels
from demur.core.success_chance import SuccessChance
from demur.probes.success_chance import fit_success_chance


def test_a_stated_chance_is_a_constant() -> None:
    chance = SuccessChance.stated(Route.ESCALATE, 0.8, target="big")
    assert [chance.at(p) for p in (0.0, 0.3, 1.0)] == [0.8, 0.8, 0.8]
    assert (chance.labels, chance.given, chance.low, chance.high) == (0, True, 0.8, 0.8)
    assert SuccessChance.stated(Route.DEFER, 1.0).at(0.2) == 1.0


def test_the_line_by_hand() -> None:
    chance = SuccessChance(route=Route.RETRIEVE, intercept=math.log(2.0), slope=1.0, low=0.1, high=0.9, labels=50)
    assert chance.at(0.5) == pytest.approx(2 / 3)
    assert chance.at(0.75) == pytest.approx(6 / 7)


@given(st.floats(0, 1), st.floats(-600, 600), st.floats(-50, 50))
def test_it_is_always_a_probability(p: float, intercept: float, slope: float) -> None:
    chance = SuccessChance(route=Route.RETRIEVE, intercept=intercept, slope=slope, low=0.0, high=1.0, labels=50)
    assert 0.0 <= chance.at(p) <= 1.0


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_not_a_probability(p: float) -> None:
    with pytest.raises(ValueError, match="must lie in"):
        SuccessChance.stated(Route.RETRIEVE, 0.5).at(p)


def test_inconsistent_records_are_refused() -> None:
    with pytest.raises(ValueError, match="upside down"):
        SuccessChance(route=Route.RETRIEVE, low=0.9, high=0.1, labels=5)
    with pytest.raises(ValueError, match="needs labels"):
        SuccessChance(route=Route.RETRIEVE, low=0.1, high=0.9, labels=0)
    with pytest.raises(ValueError, match="labels=0"):
        SuccessChance(route=Route.RETRIEVE, constant=0.5, low=0.5, high=0.5, labels=5, given=True)


def test_finds_the_line() -> None:
    draw = np.random.default_rng(0)
    p = draw.uniform(0.02, 0.98, 4000)
    truth = 1 / (1 + np.exp(-(0.6 + 0.5 * np.log(p / (1 - p)))))
    chance = fit_success_chance(p, draw.random(4000) < truth, route=Route.ESCALATE, target="big")
    assert (chance.intercept, chance.slope) == pytest.approx((0.6, 0.5), abs=0.12)
    assert chance.low < truth.mean() < chance.high
    assert (chance.labels, chance.target, chance.given) == (4000, "big", False)


def test_few_rows_are_drawn_to_the_constant() -> None:
    p = np.linspace(0.05, 0.95, 24)
    chance = fit_success_chance(p, p > 0.5, route=Route.RETRIEVE)
    # Separable rows would have an infinite slope; the prior's standard deviation is 1.
    assert 0.5 < chance.slope < 5.0
    assert chance.at(0.5) == pytest.approx(0.5, abs=0.02)


def test_rare_class_gives_a_constant_with_a_beta_interval() -> None:
    from scipy.stats import beta

    later = np.arange(40) >= 4
    chance = fit_success_chance(np.linspace(0.1, 0.9, 40), later, route=Route.RETRIEVE)
    assert chance.constant == pytest.approx(37 / 42)
    assert (chance.low, chance.high) == pytest.approx(tuple(beta.ppf([0.05, 0.95], 37, 5)))
    assert chance.at(0.1) == chance.at(0.9)
    assert fit_success_chance(np.full(30, 0.5), np.ones(30), route=Route.RETRIEVE).high < 1.0


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(NotEnoughLabels, match=r"escalate:big.*1 more") as caught:
        fit_success_chance(np.full(19, 0.5), np.ones(19), route=Route.ESCALATE, target="big")
    assert (caught.value.have, caught.value.need) == (19, 20)


def test_unusable_rows_are_bad_input() -> None:
    for p, later in (
        (np.full(30, np.nan), np.ones(30)),
        (np.full(30, 1.5), np.ones(30)),
        (np.full(30, 0.5), np.ones(29)),
        (np.full(30, 0.5), np.full(30, np.nan)),
    ):
        with pytest.raises(BadInput):
            fit_success_chance(p, later, route=Route.RETRIEVE)


def test_weights_shift_the_constant_and_widen_its_interval() -> None:
    later = np.arange(40) >= 5
    even = fit_success_chance(np.full(40, 0.5), later, route=Route.RETRIEVE)
    uneven = fit_success_chance(np.full(40, 0.5), later, route=Route.RETRIEVE, weights=np.where(later, 1.0, 8.0))
    assert even.constant is not None and uneven.constant is not None
    assert uneven.constant < even.constant
    assert uneven.high - uneven.low > even.high - even.low
