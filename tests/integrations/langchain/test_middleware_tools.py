"""Tool calls through the gate: decided, waited for, resumed once, edited, refused, replayed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from demur import DemurMiddleware, Settings
from demur.testing import FrozenConfidence, FrozenRouter, Reviewer, ScriptedChatModel

call_tool = ScriptedChatModel.call_tool
APPROVE = {"decisions": [{"type": "approve"}]}


class Shop:
    """An agent with tools on one thread."""

    def __init__(
        self,
        turns: list[Any],
        confidence: Any = None,
        *,
        settings: Settings | None = None,
        around: Callable[[Any], list[Any]] = lambda ours: [ours],
        side: str = "sync",
        router: FrozenRouter | None = None,
        **options: Any,
    ) -> None:
        self.done: list[tuple[str, Any]] = []
        self.side = side
        frozen = confidence or FrozenConfidence(0.999, {"refund": 0.5})
        self.router = router or FrozenRouter(confidence=frozen, settings=settings)
        self.reviewer = Reviewer(self.router)
        self.model = ScriptedChatModel(turns=turns)
        options.setdefault("tools", {"refund": "irreversible", "wire": "irreversible", "note": "reversible"})
        self.agent: Any = create_agent(
            self.model,
            self._tools(),
            middleware=around(DemurMiddleware(self.router, **options)),
            checkpointer=InMemorySaver(),
        )
        self.config: Any = {"configurable": {"thread_id": "t"}}

    def _tools(self) -> list[Any]:
        def used(name: str, value: Any) -> str:
            self.done.append((name, value))
            return f"{name} {value}"

        @tool
        def refund(order: str, amount: float) -> str:
            """Pay back."""
            return used("refund", amount)

        @tool
        def wire(amount: float) -> str:
            """Send money."""
            return used("wire", amount)

        @tool
        def note(text: str) -> str:
            """Write a note."""
            return used("note", text)

        @tool
        def lookup(order: str) -> str:
            """Look up."""
            return used("lookup", order)

        @tool
        def broken(order: str) -> str:
            """Fail."""
            used("broken", order)
            if order == "exit":
                raise SystemExit("the process ends")
            raise RuntimeError("the till is jammed")

        @tool
        def hand_over(call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
            """Change the state."""
            used("hand_over", 1)
            return Command(update={"messages": [ToolMessage("handed over", tool_call_id=call_id)]})

        return [refund, wire, note, lookup, broken, hand_over]

    def go(self, given: Any, config: Any = None) -> dict[str, Any]:
        given = {"messages": [("user", given)]} if isinstance(given, str) else given
        config = config or self.config
        if self.side == "sync":
            return self.agent.invoke(given, config)
        return asyncio.run(self.agent.ainvoke(given, config))

    def resume(self, kind: str, **more: Any) -> dict[str, Any]:
        return self.go(Command(resume={"decisions": [{"type": kind, **more}]}))

    def told(self) -> list[tuple[str, str]]:
        """What the model was told of its tool calls."""
        messages = self.agent.get_state(self.config).values["messages"]
        return [(m.status, str(m.content)) for m in messages if isinstance(m, ToolMessage)]


def refund(amount: float = 20.0, id: str = "call_refund") -> AIMessage:
    return call_tool("refund", {"order": "A", "amount": amount}, id=id)


@pytest.fixture(params=["sync", "async"])
def side(request: pytest.FixtureRequest) -> str:
    return request.param


def test_a_sure_call_runs_and_an_unsure_one_waits(side: str) -> None:
    shop = Shop([call_tool("lookup", {"order": "A"}), refund(), "Paid."], side=side)
    (paused,) = shop.go("refund A")["__interrupt__"]
    assert shop.done == [("lookup", "A")]
    assert paused.value["action_requests"][0]["name"] == "refund"
    assert paused.value["demur"]["confidence"] == 0.5
    (item,) = shop.reviewer.waiting()
    assert paused.value["demur"]["review_id"] == item.id
    out = shop.go(Command(resume=APPROVE))
    assert (shop.done[1:], out["messages"][-1].content) == ([("refund", 20.0)], "Paid.")
    message = next(m for m in out["messages"] if isinstance(m, ToolMessage) and m.name == "refund")
    assert message.response_metadata["demur"]["review_id"] == item.id
    assert shop.router.queue.get(item.id).resolution.reviewer == "langgraph"


def test_sync_and_async_leave_the_same_behind() -> None:
    left = []
    for side in ("sync", "async"):
        turns = [call_tool("lookup", {"order": "A"}), refund(), call_tool("note", {"text": "x"}), "Paid."]
        shop = Shop(turns, FrozenConfidence(0.999, {"refund": 0.5, "note": 0.1}), side=side)
        shop.go("refund A")
        shop.resume("approve")
        out = shop.resume("reject", message="no notes")
        runs = [
            (r.call.tool_name, r.state, r.result.route, r.rounds[-1].confidence.value) for r in shop.router.log.list()
        ]
        left.append((shop.done, [(m.type, str(m.content)) for m in out["messages"]], runs))
    assert left[0] == left[1]


def test_arguments_edited_by_a_reviewer_run_as_edited(side: str) -> None:
    shop = Shop([refund(), "Paid."], side=side)
    shop.go("refund A")
    edited = {"name": "refund", "args": {"order": "A", "amount": 5.0}}
    out = shop.resume("edit", edited_action=edited)
    assert (shop.done, out["messages"][-1].content) == ([("refund", 5.0)], "Paid.")


def test_an_edit_into_another_tool_is_gated_by_that_tool(side: str) -> None:
    shop = Shop([refund(), "Wired."], side=side)
    shop.go("refund A")
    out = shop.resume("edit", edited_action={"name": "wire", "args": {"amount": 7.0}})
    (paused,) = out["__interrupt__"]
    assert (paused.value["action_requests"][0]["name"], shop.done) == ("wire", [])
    out = shop.resume("approve")
    assert (shop.done, out["messages"][-1].content) == ([("wire", 7.0)], "Wired.")


def test_a_rejected_call_that_comes_again_is_cut(side: str) -> None:
    shop = Shop([refund(), refund(id="call_again"), refund(21.0, id="call_other"), "No."], side=side)
    shop.go("refund A")
    out = shop.resume("reject", message="too late")
    assert out["__interrupt__"][0].value["action_requests"][0]["args"]["amount"] == 21.0
    first, again = shop.told()
    assert (first[0], again[0]) == ("error", "error")
    assert "too late" in first[1] and "rejected this very call" in again[1]
    assert (shop.done, len(shop.router.queue.list())) == ([], 2)


def test_a_reviewer_answers_instead_of_the_tool() -> None:
    shop = Shop([refund(), "OK."])
    shop.go("refund A")
    shop.resume("respond", message="it was paid last week")
    assert shop.told() == [("success", "it was paid last week")]
    assert shop.done == []


@pytest.mark.parametrize("resume", [APPROVE, {"decisions": []}, True, None])
def test_the_queue_may_be_faster_than_the_graph(resume: Any, side: str) -> None:
    shop = Shop([refund(), "No."], side=side)
    shop.go("refund A")
    shop.reviewer.reject(note="fraud")
    out = shop.go(None if resume is None else Command(resume=resume))
    assert (shop.done, out["messages"][-1].content) == ([], "No.")
    assert "fraud" in shop.told()[0][1]


def test_a_call_in_a_reviewers_hands_is_theirs() -> None:
    shop = Shop([refund(), "Paid."])
    shop.go("refund A")
    (item,) = shop.reviewer.waiting()
    claimed = shop.router.queue.claim("ada", item_id=item.id)
    assert claimed is not None
    with pytest.raises(ValueError, match="ada is looking"):
        shop.go(Command(resume=APPROVE))
    shop.router.queue.release(item.id, "ada")
    shop.go(Command(resume=APPROVE))
    assert shop.done == [("refund", 20.0)]


def test_going_back_in_time_pays_once(side: str) -> None:
    shop = Shop([refund(), "Paid.", "Paid.", refund(), "Paid."], FrozenConfidence(0.999), side=side)
    shop.go("refund A")
    history = list(shop.agent.get_state_history(shop.config))
    before_tools = next(each for each in history if each.next == ("tools",))
    before_model = next(each for each in history if each.next == ("model",) and len(each.values["messages"]) == 1)
    for point in (before_tools, before_model):
        out = shop.go(None, point.config)
        assert [m.content for m in out["messages"] if isinstance(m, ToolMessage)] == ["refund 20.0"]
    assert shop.done == [("refund", 20.0)]


def test_an_id_that_a_model_uses_again_is_another_call() -> None:
    shop = Shop([refund(), "Paid.", refund(), "Paid again."], FrozenConfidence(0.999))
    shop.go("refund A")
    shop.go("and once more")
    assert shop.done == [("refund", 20.0)] * 2


def test_calls_under_one_id_and_the_same_call_twice_in_one_turn() -> None:
    two = AIMessage(content="", tool_calls=[*refund(1.0).tool_calls, *refund(2.0).tool_calls])
    shop = Shop([two, "Paid."], FrozenConfidence(0.999))
    shop.go("refund both")
    assert sorted(shop.done) == [("refund", 1.0), ("refund", 2.0)]
    same = AIMessage(content="", tool_calls=[*refund(1.0, "a").tool_calls, *refund(1.0, "b").tool_calls])
    shop = Shop([same, "Paid."], FrozenConfidence(0.999))
    shop.go("refund")
    assert shop.done == [("refund", 1.0)]
    assert "carried out once" in shop.told()[1][1]
    shop = Shop(
        [AIMessage(content="", tool_calls=[*call_tool("lookup", {"order": "A"}, id="a").tool_calls] * 2), "Hm."]
    )
    shop.go("look twice")
    assert len(shop.done) == 2  # no effect, no harm


def test_ids_do_not_move_the_score() -> None:
    scores = []
    for id in ("call_1", "id-of-another-provider", "x" * 100):
        shop = Shop([refund(id=id), "Paid."], FrozenConfidence(0.999))
        shop.go("refund A")
        (entry,) = shop.agent.get_state(shop.config).values["demur"].values()
        run = next(each for each in shop.router.log.list() if each.call.tool_name)
        assert id not in entry["record"] and id not in run.rounds[0].response.model_dump_json()
        scores.append((entry["confidence"], entry["digest"]))
    assert len(set(scores)) == 1


def test_a_message_instead_of_a_pause_and_a_later_turn_carries_it_out(side: str) -> None:
    turns = [refund(), "It waits.", refund(id="call_later"), "Paid now."]
    shop = Shop(turns, on_defer="message", side=side)
    out = shop.go("refund A")
    assert ("__interrupt__" in out, out["messages"][-1].content) == (False, "It waits.")
    (item,) = shop.reviewer.waiting()
    assert item.id in shop.told()[0][1]
    shop.reviewer.approve()
    out = shop.go("any news?")
    asked = shop.model.asked[2]
    assert asked[0].type == "system" and item.id in asked[0].content and "Call it once more" in asked[0].content
    assert (shop.done, out["messages"][-1].content) == ([("refund", 20.0)], "Paid now.")
    assert len(shop.router.queue.list()) == 1
    assert all(m.type != "system" for m in out["messages"])
    assert shop.model.asked[3][0].type == "human"  # nothing is news any more


def test_a_call_that_waits_is_not_queued_twice() -> None:
    shop = Shop([refund(), "It waits.", refund(id="call_later"), "Still."], on_defer="message")
    shop.go("refund A")
    shop.go("and now?")
    assert (len(shop.router.queue.list()), shop.done) == (1, [])


def test_what_a_tool_raises_goes_on_and_is_not_tried_again() -> None:
    shop = Shop([call_tool("broken", {"order": "A"}), "Hm."], tools={"broken": "irreversible"})
    with pytest.raises(RuntimeError, match="jammed"):
        shop.go("break it")
    out = shop.go(None)
    assert (len(shop.done), out["messages"][-1].content) == (1, "Hm.")
    assert "jammed" in shop.told()[0][1]


def test_a_command_goes_through_and_is_told_of_in_a_replay() -> None:
    shop = Shop([call_tool("hand_over", {}), "Done.", "Done."], tools={"hand_over": "reversible"})
    shop.go("hand over")
    assert shop.told() == [("success", "handed over")]
    point = next(each for each in shop.agent.get_state_history(shop.config) if each.next == ("tools",))
    out = shop.go(None, point.config)
    assert len(shop.done) == 1
    assert "handed over" in next(m.content for m in out["messages"] if isinstance(m, ToolMessage))


def test_without_confidence_the_fallback_acts() -> None:
    turns = [call_tool("lookup", {"order": "A"}), call_tool("note", {"text": "x"}), "Done."]
    shop = Shop(turns, FrozenConfidence(0.999, {"lookup": None, "note": None}))
    (paused,) = shop.go("look")["__interrupt__"]
    assert paused.value["action_requests"][0]["name"] == "note"
    assert shop.told()[0][0] == "error" and "not carried out" in shop.told()[0][1]
    assert shop.done == []


def test_what_the_settings_say_of_a_tool_counts_as_well() -> None:
    settings = Settings(mode="enforce", tools={"note": {"always_review": True}, "lookup": {"loss": 2.0}})
    shop = Shop([call_tool("note", {"text": "x"}), "Done."], settings=settings, tools={"note": {"loss": 3.0}})
    assert shop.go("note")["__interrupt__"]
    policy = shop.router.site(shop.reviewer.waiting()[0].call).policy.tools["note"]
    assert (policy.always_review, policy.loss, policy.side_effects) == (True, 3.0, "none")


def test_shadow_mode_changes_nothing_but_irreversible_tools_wait() -> None:
    turns = [call_tool("note", {"text": "x"}), refund(), "Done."]
    shop = Shop(turns, FrozenConfidence(0.05), settings=Settings(mode="shadow"))
    assert shop.go("go")["__interrupt__"]
    assert shop.done == [("note", "x")]


def test_the_agent_inbox_shape() -> None:
    shop = Shop([refund(), "Paid."], format="agent_inbox")
    (paused,) = shop.go("refund A")["__interrupt__"]
    (asked,) = paused.value
    assert asked["action_request"] == {"action": "refund", "args": {"order": "A", "amount": 20.0}}
    assert asked["config"]["allow_accept"] is True
    with pytest.raises(ValueError, match="one call is asked about"):
        shop.go(Command(resume=[{"type": "accept"}, {"type": "accept"}]))
    with pytest.raises(ValueError, match="is no JSON"):
        shop.go(Command(resume=[{"type": "edit", "args": {"action": "refund", "args": {"amount": "5 EUR"}}}]))
    edited = {"action": "refund", "args": {"order": "A", "amount": "5.5"}}
    shop.go(Command(resume=[{"type": "edit", "args": edited}]))
    assert shop.done == [("refund", 5.5)]


def test_the_stock_gate_that_asks_for_each_call() -> None:
    stock = HumanInTheLoopMiddleware({"refund": True}, interrupt_mode="per_call")
    shop = Shop([refund(), "Paid."], around=lambda ours: [stock, ours])
    (paused,) = shop.go("refund A")["__interrupt__"]
    assert paused.value["type"] == "tool_approval"
    out = shop.go(Command(resume={paused.id: {"type": "approve"}}))
    assert (shop.done, out["messages"][-1].content) == ([("refund", 20.0)], "Paid.")


def test_the_stock_gate_fed_by_our_scores() -> None:
    def unsure(asked: Any) -> bool:
        return asked.state["demur"][asked.tool_call["id"]]["confidence"] < 0.7

    stock = HumanInTheLoopMiddleware({"refund": {"allowed_decisions": ["approve", "reject"], "when": unsure}})
    shop = Shop([refund(), "Paid."], around=lambda ours: [stock, ours])
    assert "action_requests" in shop.go("refund A")["__interrupt__"][0].value
    out = shop.resume("approve")
    assert (shop.done, out["messages"][-1].content) == ([("refund", 20.0)], "Paid.")


def test_an_edit_into_another_tool_at_the_stock_gate_is_gated_here() -> None:
    shop = Shop([refund(), "Done."], around=lambda ours: [HumanInTheLoopMiddleware({"refund": True}), ours])
    shop.go("refund A")
    out = shop.resume("edit", edited_action={"name": "wire", "args": {"amount": 9.0}})
    assert out["__interrupt__"][0].value["action_requests"][0]["name"] == "wire"
    assert shop.done == []


def test_arguments_that_cannot_be_stored_do_not_run() -> None:
    shop = Shop([call_tool("note", {"text": float("nan")}), "Hm."])
    shop.go("note")
    assert shop.done == []
    assert shop.told()[0][0] == "error" and "cannot be stored" in shop.told()[0][1]


def test_an_expired_review_ends_the_wait() -> None:
    from demur.core.clock import ManualClock

    clock = ManualClock()
    settings = Settings(mode="enforce", review={"expires_after": 60})
    router = FrozenRouter(confidence=FrozenConfidence(0.999, {"refund": 0.5}), settings=settings, clock=clock)
    shop = Shop([refund(), "No."], router=router)
    shop.go("refund A")
    clock.advance(61)
    out = shop.go(Command(resume=APPROVE))
    assert (shop.done, out["messages"][-1].content) == ([], "No.")
    assert "nobody decided" in shop.told()[0][1]


def test_a_tool_that_was_broken_off_is_not_run_again() -> None:
    shop = Shop([call_tool("broken", {"order": "exit"}), "Somebody looks."], tools={"broken": "irreversible"})
    with pytest.raises(SystemExit):
        shop.go("break it")
    out = shop.go(None)
    assert (len(shop.done), out["messages"][-1].content) == (1, "Somebody looks.")
    assert "not known whether" in shop.told()[0][1]
    (item,) = shop.reviewer.waiting()
    assert item.kind == "effect_unknown"


def test_an_approval_that_came_while_nobody_was_there_is_carried_out() -> None:
    shop = Shop([refund(), "Paid."])
    shop.go("refund A")
    shop.reviewer.approve()  # the process that paused may be gone by now
    out = shop.go(None)
    assert (shop.done, out["messages"][-1].content) == ([("refund", 20.0)], "Paid.")
    assert shop.go(None).get("__interrupt__") is None
    assert len(shop.done) == 1
