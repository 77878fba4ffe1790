"""What the middleware refuses, and when; the small parts it is made of."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from demur import ConfigurationError, DemurMiddleware, Settings
from demur.integrations.langchain.interrupts import Question
from demur.integrations.langchain.messages import with_unique_ids
from demur.integrations.langchain.options import AgentTool, agent_tools
from demur.integrations.langchain.scores import digest, proposal_of
from demur.integrations.langchain.state import MOST_SCORES, merged
from demur.integrations.langchain.tool_values import from_json
from demur.policies.tool_policy import ToolPolicy, graver_policy
from demur.testing import FrozenRouter, ScriptedChatModel


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"task": ""}, "task"),
        ({"tenant": 3}, "tenant"),
        ({"on_defer": "intterupt"}, "on_defer='intterupt'"),
        ({"format": "inbox"}, "format"),
        ({"conversation": 7}, "conversation"),
        ({"reviewer": ""}, "reviewer"),
        ({"abstain_text": " "}, "abstain_text"),
        ({"logprobs": "yes"}, "logprobs"),
        ({"name": ""}, "name"),
        ({"tools": ["refund"]}, "tools"),
        ({"tools": {"refund": "irreversibel"}}, "irreversibel"),
        ({"tools": {"refund": {"side_effect": "irreversible"}}}, "did you mean 'side_effects'"),
        ({"tools": {"refund": 3}}, "tools"),
        ({"tools": {"refund": {"loss": 0}}}, "loss"),
        ({"tools": {"refund": {"loss": 0.01}}}, "loss"),
        ({"tools": {"refund": {"task": ""}}}, "task"),
        ({"larger": {"big": object()}}, "larger"),
        ({"larger": {"bog": ScriptedChatModel(turns=[])}}, "did you mean 'big'"),
        ({"larger": {"model": ScriptedChatModel(turns=[])}}, "names the agent's own model"),
        ({"prices": {"modle": (1.0, 1.0)}}, "did you mean 'model'"),
        ({"prices": {"model": 1.0}}, "money per token"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_made(options: dict[str, Any], said: str) -> None:
    router = FrozenRouter(settings=Settings(mode="enforce", costs={"escalate": {"big": 0.1}}))
    with pytest.raises(ConfigurationError, match=said.replace("(", r"\(")):
        DemurMiddleware(router, **options)


def test_only_a_router_will_do() -> None:
    with pytest.raises(ConfigurationError, match=r"demur\.Router"):
        DemurMiddleware(object())  # type: ignore[arg-type]


def test_a_tool_that_the_agent_does_not_have_is_named_at_the_first_turn() -> None:
    @tool
    def refund(order: str) -> str:
        """Pay back."""
        return order

    gate = DemurMiddleware(FrozenRouter(confidence=0.999), tools={"refnd": "irreversible"})
    model = ScriptedChatModel(turns=["never asked"])
    agent: Any = create_agent(model, [refund], middleware=[gate], checkpointer=InMemorySaver())
    with pytest.raises(ConfigurationError, match="did you mean 'refund'"):
        agent.invoke({"messages": [("user", "hi")]}, {"configurable": {"thread_id": "t"}})
    assert model.asked == []


def test_tools_may_be_said_in_four_ways() -> None:
    made = agent_tools(
        {
            "a": "irreversible",
            "b": ToolPolicy("reversible", loss=2.0),
            "c": {"always_review": True},
            "d": AgentTool(task="refunds"),
        }
    )
    assert [t.side_effects for t in made.values()] == ["irreversible", "reversible", "none", "none"]
    assert (made["b"].loss, made["c"].always_review, made["d"].task) == (2.0, True, "refunds")


def test_of_two_policies_the_graver_part_counts() -> None:
    asks = ToolPolicy(always_review=lambda call: True)
    both = graver_policy(ToolPolicy("reversible", idempotent=True, loss=3.0), ToolPolicy("irreversible", loss=2.0))
    assert both == ToolPolicy("irreversible", loss=3.0)
    assert graver_policy(asks, ToolPolicy(always_review=True)).always_review is True
    assert graver_policy(asks, ToolPolicy()).always_review is asks.always_review
    never = ToolPolicy(always_review=lambda call: False)
    odd = ToolPolicy(always_review=lambda call: None)
    for one, other, demanded in ((never, asks, True), (never, odd, True), (never, never, False)):
        rule = graver_policy(one, other)
        call: Any = None
        assert (rule.review_demanded(call) is not None) is demanded


@given(st.lists(st.sampled_from(["a", "a~2", "b", "", None]), max_size=6))
def test_ids_end_up_unique(ids: list[str | None]) -> None:
    calls: Any = [{"name": "f", "args": {"n": n}, "id": id, "type": "tool_call"} for n, id in enumerate(ids)]
    made = with_unique_ids(AIMessage(content="", tool_calls=calls, id="m"))
    found = [call["id"] for call in made.tool_calls]
    assert len(set(found)) == len(found) and all(found)
    assert [call["args"] for call in made.tool_calls] == [call["args"] for call in calls]
    assert with_unique_ids(made) is made


@given(st.integers(0, 3), st.integers(0, 700))
def test_scores_are_bounded_and_the_newest_stay(left: int, right: int) -> None:
    together = merged({f"l{n}": n for n in range(left)}, {f"r{n}": n for n in range(right)})
    assert len(together) == min(left + right, MOST_SCORES)
    assert not right or list(together)[-1] == f"r{right - 1}"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda s: st.lists(s) | st.dictionaries(st.text(), s)
    )
)
def test_a_digest_knows_types_and_not_order(value: Any) -> None:
    assert digest("f", {"a": value, "b": 1}) == digest("f", {"b": 1, "a": value})
    assert digest("f", {"a": value}) != digest("g", {"a": value})
    assert digest("f", {"a": [value]}) != digest("f", {"a": value})


@pytest.mark.parametrize(
    "entry", [None, {}, 3, {"digest": digest("f", {}), "record": "{"}, {"digest": digest("f", {})}]
)
def test_a_damaged_score_is_no_score(entry: Any) -> None:
    assert proposal_of(entry, "f", {}) is None


@pytest.mark.parametrize(
    "given", [None, {}, [], "approve", {"decisions": "approve"}, {"decisions": [{"type": "approve", "extra": 1}]}]
)
def test_a_decision_has_one_shape(given: Any) -> None:
    asked = Question("refund", {"n": 1}, "why", ("approve", "reject"), "hitl")
    with pytest.raises(ValueError, match=r"decision|resume"):
        asked.resolution(given, "ada")
    assert asked.resolution({"decisions": [{"type": "approve"}]}, "ada").verdict == "approve"
    with pytest.raises(ValueError, match="not allowed here"):
        asked.resolution({"decisions": [{"type": "respond", "message": "x"}]}, "ada")


def test_stored_values_become_messages() -> None:
    call = {"name": "f", "id": "c"}
    assert from_json(None, call).content.startswith("It was carried out before")
    assert from_json("a person says", call).content == "a person says"
    kept = {"demur_tool_message": {"content": "x", "status": "error", "whole": True}}
    assert (from_json(kept, call).content, from_json(kept, call).status) == ("x", "error")
