import math

import pytest

from demur.core.call import Call, CallKind, SideEffects
from demur.core.errors import ConfigurationError
from demur.policies.tool_policy import ToolPolicy, graver_effects, tool_policy_of


def use(name: str, effects: SideEffects = SideEffects.NONE) -> Call:
    return Call(kind=CallKind.TOOL, tool_name=name, side_effects=effects)


@pytest.mark.parametrize(
    "settings",
    [
        {"side_effects": "reversable"},
        {"side_effects": None},
        {"loss": 0.0},
        {"loss": -1.0},
        {"loss": math.nan},
        {"loss": "2"},
        {"idempotent": "yes"},
        {"always_review": "no"},
        {"always_review": None},
    ],
)
def test_a_setting_that_cannot_work_is_refused(settings):
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        ToolPolicy(**settings)


def test_a_typo_raises_instead_of_approving():
    with pytest.raises(TypeError):
        ToolPolicy(alway_review=True)  # type: ignore[call-arg]


@pytest.mark.parametrize("answer", [None, 0, "", [], "False", 1])
def test_anything_but_a_bool_means_review(answer):
    assert "instead of True or False" in (ToolPolicy(always_review=lambda call: answer).review_demanded(use("t")) or "")


def test_a_crashing_rule_means_review():
    def broken(call: Call) -> bool:
        raise KeyError("amount")

    assert ToolPolicy(always_review=broken).review_demanded(use("t")) == "its review rule raised KeyError"


def test_only_false_lets_it_through():
    assert ToolPolicy(always_review=lambda call: False).review_demanded(use("t")) is None
    assert ToolPolicy(always_review=False).review_demanded(use("t")) is None
    assert ToolPolicy(always_review=lambda call: True).review_demanded(use("t")) is not None
    assert ToolPolicy(always_review=True).review_demanded(use("t")) is not None


def test_the_star_stands_for_tools_without_a_policy_of_their_own():
    tools = {"refund": ToolPolicy(loss=5.0), "*": ToolPolicy(side_effects=SideEffects.IRREVERSIBLE)}
    assert tool_policy_of(use("refund"), tools).loss == 5.0
    assert tool_policy_of(use("other"), tools).side_effects is SideEffects.IRREVERSIBLE
    assert tool_policy_of(Call.ask("q"), tools) == ToolPolicy()


@pytest.mark.parametrize("said", list(SideEffects))
@pytest.mark.parametrize("declared", list(SideEffects))
def test_the_graver_of_what_is_said_and_what_is_declared_counts(said, declared):
    gravity = list(SideEffects)
    found = graver_effects(use("t", said), {"t": ToolPolicy(side_effects=declared)})
    assert gravity.index(found) == max(gravity.index(said), gravity.index(declared))
