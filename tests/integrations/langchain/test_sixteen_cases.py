"""Sixteen ways in which gates inside LangChain agents go wrong, each with the proof that its test can fail.

Every case has a body that holds with the fix, through a real agent, and an `undo` that takes the fix away: then the
same body must fail. `CASES` is read by benchmarks too, so bodies use nothing but a folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import operator
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NotRequired

import numpy as np
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain.agents.middleware.types import AgentState, ModelResponse, PrivateStateAttr, hook_config
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from demur import DemurMiddleware, Settings
from demur.core.call import Call
from demur.core.evidence import Evidence
from demur.core.protocols import Generation
from demur.core.response import Response
from demur.integrations.langchain import handler_model, middleware, model_gate, tool_gate, turn_end
from demur.integrations.langchain.asking import Asking
from demur.integrations.langchain.interrupts import Question
from demur.integrations.langchain.tool_gate import ToolGate
from demur.integrations.langchain.turn_end import TurnEnd
from demur.router import effects
from demur.router.steps import Step
from demur.testing import FrozenConfidence, FrozenRouter, Reviewer, ScriptedChatModel

Patch = pytest.MonkeyPatch

SIDE = {"side": "sync"}
"""Which side of the agent the bodies run: "sync" or "async"."""

APPROVE = {"decisions": [{"type": "approve"}]}
REJECT = {"decisions": [{"type": "reject", "message": "not this one"}]}
ABSTAINING = Settings(mode="enforce", costs={"review": None})  # nobody to ask: an unsure answer is withheld
WITHHELD = "I am not sure enough to answer this."


class City(BaseModel):
    """A structured answer."""

    name: str


class Desk:
    """An agent with a refund and a lookup tool, on one thread, and what the tools did."""

    def __init__(
        self,
        folder: Path,
        turns: list[Any],
        confidence: FrozenConfidence | float = 0.999,
        *,
        around: Callable[[DemurMiddleware], list[Any]] = lambda ours: [ours],
        settings: Settings | None = None,
        saver: bool = True,
        tools: bool = True,
        **options: Any,
    ) -> None:
        self.paid: list[str] = []
        self.looked_up: list[str] = []
        self.router = FrozenRouter(confidence=confidence, settings=settings)
        self.model = ScriptedChatModel(turns=turns)
        gate = DemurMiddleware(self.router, tools={"refund": "irreversible"} if tools else None)
        self.agent: Any = create_agent(
            self.model,
            [self._refund(), self._lookup(), self._ask()] if tools else [],
            middleware=around(gate),
            checkpointer=InMemorySaver() if saver else None,
            **options,
        )
        self.config: Any = {"configurable": {"thread_id": "thread"}, "recursion_limit": 25}

    def _refund(self) -> Any:
        @tool
        def refund(order: str) -> str:
            """Pay an order back."""
            self.paid.append(order)
            return f"paid {order}"

        return refund

    def _lookup(self) -> Any:
        @tool
        def lookup(order: str) -> str:
            """Look an order up."""
            self.looked_up.append(order)
            return f"order {order}"

        return lookup

    def _ask(self) -> Any:
        @tool
        def ask_user(question: str) -> str:
            """Ask the user."""
            return f"they say {interrupt(question)}"

        return ask_user

    def go(self, given: Any) -> dict[str, Any]:
        """One invocation; whatever it raises is a failed assertion."""
        return asserted(lambda: self.go_or_raise(given))

    def go_or_raise(self, given: Any) -> dict[str, Any]:
        given = {"messages": [("user", given)]} if isinstance(given, str) else given
        if SIDE["side"] == "sync":
            return self.agent.invoke(given, self.config)
        return asyncio.run(self.agent.ainvoke(given, self.config))

    def resume(self, answer: Any) -> dict[str, Any]:
        return self.go(Command(resume=answer))

    def streamed(self, question: str) -> list[Any]:
        """The messages and chunks that a user interface would get."""
        given = {"messages": [("user", question)]}

        async def collect() -> list[Any]:
            return [each async for each in self.agent.astream(given, self.config, stream_mode="messages")]

        def streaming() -> list[Any]:
            if SIDE["side"] == "sync":
                return list(self.agent.stream(given, self.config, stream_mode="messages"))
            return asyncio.run(collect())

        return [message for message, _ in asserted(streaming)]

    @property
    def state(self) -> dict[str, Any]:
        return self.agent.get_state(self.config).values


def asserted(act: Callable[[], Any]) -> Any:
    """What `act` gives; whatever it raises is a failed assertion."""
    try:
        return act()
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}") from error


def refund(order: str = "A", id: str = "call_refund") -> dict[str, Any]:
    return {"name": "refund", "args": {"order": order}, "id": id, "type": "tool_call"}


def calls(*given: dict[str, Any]) -> AIMessage:
    return AIMessage(content="", tool_calls=list(given))


def city(name: str = "Paris") -> dict[str, Any]:
    return {"name": "City", "args": {"name": name}, "id": "call_city", "type": "tool_call"}


def unsure_refund(sure: float = 0.999) -> FrozenConfidence:
    return FrozenConfidence(sure, {"refund": 0.5})


def unsure_answers() -> FrozenConfidence:
    return FrozenConfidence(0.05, {"refund": 0.999})


def withheld(out: dict[str, Any]) -> bool:
    return out["messages"][-1].content == WITHHELD


class Jump(AgentMiddleware):
    """Somebody else's middleware that sends every turn straight to its tools."""

    @hook_config(can_jump_to=["tools"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        last = state["messages"][-1]
        answered = isinstance(last, ToolMessage) or bool(getattr(last, "tool_calls", None))
        return {"jump_to": "tools"} if answered else None


class Bystander(AgentMiddleware):
    """Somebody else's middleware that looks at every turn."""

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        return None


def human(name: str = "refund") -> HumanInTheLoopMiddleware[Any, Any, Any]:
    return HumanInTheLoopMiddleware({name: True})


# 1. A rejected tool still runs, because another middleware jumps past the gate.


def the_gate_stands_at_execution(folder: Path) -> None:
    jumped = Desk(folder, [calls(refund()), "Not paid."], unsure_refund(), around=lambda ours: [ours, human(), Jump()])
    out = jumped.go("refund A")
    assert len(out.get("__interrupt__", ())) == 1
    out = jumped.resume(REJECT)
    assert jumped.paid == []
    assert "not this one" in out["messages"][-2].content
    rejected = Desk(folder, [calls(refund()), "Not paid."], around=lambda ours: [ours, Jump(), human()])
    rejected.go("refund A")
    rejected.resume(REJECT)
    assert rejected.paid == []


def no_gate_at_execution(patch: Patch) -> None:
    patch.setattr(DemurMiddleware, "wrap_tool_call", lambda self, request, handler: handler(request))


# 2. The jump of an abstention is lost, and the tool of the abandoned turn runs.


def an_abstention_needs_no_jump(folder: Path) -> None:
    for around in (lambda ours: [ours, Bystander()], lambda ours: [Bystander(), ours]):
        turns = [calls(city(), refund()), "Done."]
        desk = Desk(
            folder, turns, unsure_answers(), around=around, settings=ABSTAINING, response_format=ToolStrategy(City)
        )
        out = desk.go("where, and refund A")
        assert (desk.paid, len(desk.model.asked)) == ([], 1)
        assert withheld(out)


def abstentions_only_jump(patch: Patch) -> None:
    keep_calls(patch)
    patch.setattr(TurnEnd, "plan", nothing)


def keep_calls(patch: Patch) -> None:
    """An abstention that keeps the turn's tool calls."""
    whole = model_gate.plain_answer

    def with_calls(*given: Any, **named: Any) -> AIMessage:
        return whole(*given, **named).model_copy(update={"tool_calls": [refund()]})

    patch.setattr(model_gate, "plain_answer", with_calls)


def nothing(*_: Any, **__: Any) -> Iterator[Any]:
    """A plan without a step."""
    return
    yield


# 3. The score is made again on resume and flips: the tool runs after it was rejected.


def a_score_is_made_once(folder: Path) -> None:
    scored: list[str] = []

    def flips(evidence: Evidence) -> float:
        if evidence.call.tool_name != "refund":
            return 0.999
        scored.append("refund")
        return 0.5 if len(scored) == 1 else 0.999

    desk = Desk(folder, [calls(refund()), "Not paid."], FrozenConfidence(rule=flips))
    desk.go("refund A")
    assert desk.state["demur"]["call_refund"]["confidence"] == 0.5
    desk.resume(REJECT)
    assert (desk.paid, len(scored)) == ([], 1)
    assert len(desk.router.queue.list()) == 1


def scores_are_made_again(patch: Patch) -> None:
    def decide(self: ToolGate, asked: Call, request: Any, carrier: Any) -> Iterator[Any]:
        anew = asked.model_copy(update={"idempotency_key": None, "conversation_id": None})
        options = {"tool": carrier.tool("refund", idempotent=False), "proposal": Generation(Response())}
        router = self.options.router
        return (yield Step(run=lambda: router.run(anew, **options), arun=lambda: router.arun(anew, **options)))

    patch.setattr(ToolGate, "_decide", decide)


# 4. An interrupt inside the model call: the model is asked again on resume.


def resuming_asks_no_model(folder: Path) -> None:
    desk = Desk(folder, ["Paris.", "Rome."], FrozenConfidence(0.6))
    out = desk.go("What is the capital of France?")
    (paused,) = out.get("__interrupt__", ())
    assert paused.value["action_requests"][0]["args"] == {"text": "Paris."}
    assert all("Paris" not in str(message.content) for message in out["messages"])
    out = desk.resume(APPROVE)
    assert (out["messages"][-1].content, len(desk.model.asked)) == ("Paris.", 1)
    assert [item.state for item in desk.router.queue.list()] == ["resolved"]


def interrupts_inside_the_model_call(patch: Patch) -> None:
    whole = DemurMiddleware.wrap_model_call

    def wrap(self: DemurMiddleware, request: Any, handler: Any) -> Any:
        made = whole(self, request, handler)
        if made.command is not None and made.command.update.get("demur_turn"):
            shown = {"action_requests": [{"args": {"text": "Paris."}}]}
            interrupt(shown)
        return made

    patch.setattr(DemurMiddleware, "wrap_model_call", wrap)
    patch.setattr(TurnEnd, "plan", nothing)


# 5. A bare message where a structured response is wanted: the agent loops to the recursion limit.


def structured_agents_end(folder: Path) -> None:
    options: dict[str, Any] = {"response_format": ToolStrategy(City), "tools": False}
    turns = [calls(city())] * 30
    desk = Desk(folder, turns, 0.05, settings=ABSTAINING, **options)
    out = desk.go("What is the capital of France?")
    assert withheld(out) and out.get("structured_response") is None
    assert len(desk.model.asked) == 1
    sure = Desk(folder, turns, 0.999, **options)
    out = sure.go("What is the capital of France?")
    assert out["structured_response"] == City(name="Paris")
    assert len(sure.model.asked) == 1


def only_the_message_is_returned(patch: Patch) -> None:
    whole = model_gate.delivered

    def delivered(*given: Any, **named: Any) -> ModelResponse[Any]:
        made = whole(*given, **named)
        return ModelResponse(result=[each for each in made.result if isinstance(each, AIMessage)])

    patch.setattr(model_gate, "delivered", delivered)


# 6. A gate catches every exception, and with it the interrupt of a tool.


def a_tools_own_interrupt_passes(folder: Path) -> None:
    ask = {"name": "ask_user", "args": {"question": "Which colour?"}, "id": "call_ask", "type": "tool_call"}
    desk = Desk(folder, [calls(ask), "Blue it is."])
    out = desk.go("buy one")
    assert [each.value for each in out.get("__interrupt__", ())] == ["Which colour?"]
    out = desk.resume("blue")
    assert [m.content for m in out["messages"][-2:]] == ["they say blue", "Blue it is."]


def interrupts_are_failures(patch: Patch) -> None:
    patch.setattr(effects, "is_control_flow", lambda error: False)


# 7. A wrong number of decisions poisons the thread for ever.


def wrong_decisions_can_be_given_again(folder: Path) -> None:
    desk = Desk(folder, [calls(refund()), "Paid."], unsure_refund())
    desk.go("refund A")
    approve = {"type": "approve"}
    nowhere = {"type": "edit", "edited_action": {"name": "wire", "args": {"order": "A"}}}
    bad = ([approve, approve], [], [{"type": "maybe"}], [{"type": "edit"}], [nowhere])
    for decisions in bad:
        with contextlib.suppress(Exception):
            desk.go_or_raise(Command(resume={"decisions": decisions}))
            raise BaseExceptionGroup("taken", [ValueError(str(decisions))])
        assert desk.paid == []
    out = desk.resume(APPROVE)
    assert (desk.paid, out["messages"][-1].content) == (["A"], "Paid.")


def decisions_are_not_checked(patch: Patch) -> None:
    patch.setattr(Question, "schema", lambda self, refusal, decided: None)


# 8. Two writers of one key in one step.


def two_gates_may_write(folder: Path) -> None:
    other = FrozenRouter(confidence=0.999)
    second = DemurMiddleware(other, name="second", tools={"refund": "irreversible"})
    desk = Desk(folder, [calls(refund()), "Paid."], around=lambda ours: [ours, second])
    out = desk.go("refund A")
    assert (desk.paid, out["messages"][-1].content) == (["A"], "Paid.")
    assert list(desk.state["demur"]) == ["call_refund"]


def keys_without_reducers(patch: Patch) -> None:
    class Bare(AgentState[Any]):
        demur: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]
        demur_turn: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]
        demur_held: NotRequired[Annotated[Any, PrivateStateAttr]]

    patch.setattr(DemurMiddleware, "state_schema", Bare)


# 9. Values in the state that no checkpointer can store.


def the_state_is_plain(folder: Path) -> None:
    desk = Desk(folder, [calls(refund()), "Paid."], FrozenConfidence(rule=lambda evidence: np.float32(0.999)))
    desk.go("refund A")
    (entry,) = desk.state["demur"].values()
    assert {type(value) for value in entry.values()} <= {float, int, str}
    assert json.loads(json.dumps(entry)) == entry


def numpy_in_the_state(patch: Patch) -> None:
    whole = model_gate.score_entry

    def entry(*given: Any) -> dict[str, Any]:
        return {**whole(*given), "confidence": np.float32(0.999)}

    patch.setattr(model_gate, "score_entry", entry)


# 10. Stamps on chunks: merged, "weak" becomes "weakweak", and differing numbers raise.


def a_message_is_stamped_once(folder: Path) -> None:
    desk = Desk(folder, ["The capital is Paris."], settings=Settings(mode="shadow"))
    chunks = [each for each in desk.streamed("capital?") if isinstance(each, AIMessageChunk)]
    assert len(chunks) > 2  # in shadow mode the answer streams as it is written
    try:
        merged = functools.reduce(operator.add, chunks)
    except Exception as error:
        raise AssertionError(f"the chunks do not add up: {error}") from error
    assert "demur" not in merged.response_metadata
    final = desk.state["messages"][-1]
    assert (final.content, final.response_metadata["demur"]["route"]) == ("The capital is Paris.", "answer")
    assert type(final.response_metadata["demur"]["confidence"]) is float


def every_chunk_is_stamped(patch: Patch) -> None:
    whole = ScriptedChatModel._stream

    def stream(self: ScriptedChatModel, *given: Any, **named: Any) -> Iterator[Any]:
        for number, chunk in enumerate(whole(self, *given, **named)):
            chunk.message.response_metadata = {"demur": {"route": "answer", "confidence": 0.1 * number}}
            yield chunk

    patch.setattr(ScriptedChatModel, "_stream", stream)


# 11. Drafts leak past the gate when the agent streams.


def drafts_are_not_streamed(folder: Path) -> None:
    desk = Desk(folder, ["The capital is Rome."], 0.05, settings=ABSTAINING)
    seen = [str(each.content) for each in desk.streamed("capital of France?")]
    assert "Rome" not in "".join(seen)
    assert seen == [WITHHELD]
    sure = Desk(folder, ["The capital is Paris."], 0.999)
    assert [str(each.content) for each in sure.streamed("capital of France?")] == ["The capital is Paris."]


def drafts_are_streamed(patch: Patch) -> None:
    patch.setattr(handler_model, "unstreamed", lambda model: model)


# 12. Parallel calls: the siblings of a gated call run at once; nothing gated may happen before its decision.


def parallel_calls_wait_alone(folder: Path) -> None:
    look = {"name": "lookup", "args": {"order": "A"}, "id": "call_look", "type": "tool_call"}
    turn = calls(look, refund("A", "call_a"), refund("B", "call_b"))
    desk = Desk(folder, [turn, "One was paid."], unsure_refund())
    out = desk.go("refund both")
    asked = {each.value["action_requests"][0]["args"]["order"]: each.id for each in out.get("__interrupt__", ())}
    assert (sorted(asked), desk.paid, desk.looked_up) == (["A", "B"], [], ["A"])
    out = desk.resume({asked["A"]: REJECT, asked["B"]: APPROVE})
    assert (desk.paid, desk.looked_up) == (["B"], ["A"])
    told = {m.tool_call_id: m.status for m in out["messages"] if isinstance(m, ToolMessage)}
    assert told == {"call_look": "success", "call_a": "error", "call_b": "success"}


def tools_run_before_their_decision(patch: Patch) -> None:
    whole = Asking.plan

    def plan(self: Asking, review_id: str, tools: Any = ()) -> Any:
        item = self.router.queue.get(review_id)
        assert item is not None
        EAGER[0](item.call.arguments["order"])
        return whole(self, review_id, tools)

    patch.setattr(Asking, "plan", plan)
    before = Desk.__init__

    def init(self: Desk, *given: Any, **named: Any) -> None:
        before(self, *given, **named)
        EAGER[0] = self.paid.append

    patch.setattr(Desk, "__init__", init)


EAGER: list[Callable[[str], object]] = [print]


# 13. A turn that ends with pending tool calls leaves them dangling.


def nothing_is_left_dangling(folder: Path) -> None:
    turns = [calls(city(), refund())]
    desk = Desk(folder, turns, unsure_answers(), settings=ABSTAINING, response_format=ToolStrategy(City))
    desk.go("where, and refund A")
    messages = desk.state["messages"]
    proposed = {call["id"] for m in messages if isinstance(m, AIMessage) for call in m.tool_calls}
    answered = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
    assert proposed == answered
    assert desk.paid == []


def calls_are_left_dangling(patch: Patch) -> None:
    keep_calls(patch)
    patch.setattr(turn_end, "unanswered", lambda message, after: [])


# 14. The end of one turn is still there in the next.


def a_new_turn_starts_afresh(folder: Path) -> None:
    confidence = FrozenConfidence(0.999, {"first?": 0.05})
    desk = Desk(folder, ["Rome.", calls(refund()), "Paid."], confidence, settings=ABSTAINING)
    assert withheld(desk.go("first?"))
    assert desk.state["demur_turn"]["route"] == "abstain"
    out = desk.go("refund A")
    assert (desk.paid, out["messages"][-1].content) == (["A"], "Paid.")
    assert desk.state["demur_turn"] == {}


def turns_are_remembered(patch: Patch) -> None:
    patch.setattr(DemurMiddleware, "before_agent", lambda self, state, runtime: None)


# 15. Two gates ask about the same call twice.


def two_gates_ask_once(folder: Path) -> None:
    for around in (lambda ours: [ours, human()], lambda ours: [human(), ours]):
        desk = Desk(folder, [calls(refund()), "Paid."], unsure_refund(), around=around)
        assert len(desk.go("refund A").get("__interrupt__", ())) == 1
        out = desk.resume(APPROVE)
        assert "__interrupt__" not in out
        assert (desk.paid, out["messages"][-1].content) == (["A"], "Paid.")
        assert Reviewer(desk.router).waiting() == ()


def gates_do_not_look_around(patch: Patch) -> None:
    patch.setattr(tool_gate, "approved_elsewhere", lambda request: None)


# 16. Without a checkpointer an interrupt cannot be resumed.


def no_checkpointer_is_told(folder: Path) -> None:
    desk = Desk(folder, [calls(refund()), "It waits for a person."], unsure_refund(), saver=False)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        out = desk.go("refund A")
    assert any("no checkpointer" in str(each.message) for each in said)
    assert "__interrupt__" not in out
    assert (desk.paid, out["messages"][-1].content) == ([], "It waits for a person.")
    assert len(Reviewer(desk.router).waiting()) == 1


def checkpointers_are_taken_for_granted(patch: Patch) -> None:
    patch.setattr(middleware, "_has_checkpointer", lambda: True)


Undo = Callable[[Patch], None]

CASES: dict[int, tuple[Callable[[Path], None], Undo]] = {
    1: (the_gate_stands_at_execution, no_gate_at_execution),
    2: (an_abstention_needs_no_jump, abstentions_only_jump),
    3: (a_score_is_made_once, scores_are_made_again),
    4: (resuming_asks_no_model, interrupts_inside_the_model_call),
    5: (structured_agents_end, only_the_message_is_returned),
    6: (a_tools_own_interrupt_passes, interrupts_are_failures),
    7: (wrong_decisions_can_be_given_again, decisions_are_not_checked),
    8: (two_gates_may_write, keys_without_reducers),
    9: (the_state_is_plain, numpy_in_the_state),
    10: (a_message_is_stamped_once, every_chunk_is_stamped),
    11: (drafts_are_not_streamed, drafts_are_streamed),
    12: (parallel_calls_wait_alone, tools_run_before_their_decision),
    13: (nothing_is_left_dangling, calls_are_left_dangling),
    14: (a_new_turn_starts_afresh, turns_are_remembered),
    15: (two_gates_ask_once, gates_do_not_look_around),
    16: (no_checkpointer_is_told, checkpointers_are_taken_for_granted),
}
"""Number in the list of known cases → what holds, and what takes its fix away."""


@pytest.fixture(params=["sync", "async"])
def side(request: pytest.FixtureRequest, monkeypatch: Patch) -> None:
    """Run the agent by `invoke` and `stream`, and by their async twins."""
    monkeypatch.setitem(SIDE, "side", request.param)


def test_all_sixteen_are_here() -> None:
    assert sorted(CASES) == list(range(1, 17))


@pytest.mark.usefixtures("side")
def test_case_01_the_gate_stands_at_execution(tmp_path: Path) -> None:
    CASES[1][0](tmp_path)


@pytest.mark.usefixtures("side")
def test_case_02_an_abstention_needs_no_jump(tmp_path: Path) -> None:
    CASES[2][0](tmp_path)


@pytest.mark.usefixtures("side")
def test_case_03_a_score_is_made_once(tmp_path: Path) -> None:
    CASES[3][0](tmp_path)


@pytest.mark.usefixtures("side")
def test_case_04_resuming_asks_no_model(tmp_path: Path) -> None:
    CASES[4][0](tmp_path)


@pytest.mark.usefixtures("side")
def test_case_05_structured_agents_end(tmp_path: Path) -> None:
    CASES[5][0](tmp_path)


@pytest.mark.usefixtures("side")
def test_case_06_a_tools_own_interrupt_passes(tmp_path: Path) -> None:
    CASES[6][0](tmp_path)


@pytest.mark.usefixtures("side")
def test_case_07_wrong_decisions_can_be_given_again(tmp_path: Path) -> None:
    CASES[7][0](tmp_path)


@pytest.mark.usefixtures("side")
def test_case_08_two_gates_may_write(tmp_path: Path) -> None:
    CASES[8][0](tmp_path)


@pytest.mark.usefixtures("side")
def test_case_09_the_state_is_plain(tmp_path: Path) -> None:
    CASES[9][0](tmp_path)


@pytest.mark.usefixtures("side")
def test_case_10_a_message_is_stamped_once(tmp_path: Path) -> None:
    CASES[10][0](tmp_path)


@pytest.mark.usefixtures("side")
def test_case_11_drafts_are_not_streamed(tmp_path: Path) -> None:
    CASES[11][0](tmp_path)


@pytest.mark.usefixtures("side")
def test_case_12_parallel_calls_wait_alone(tmp_path: Path) -> None:
    CASES[12][0](tmp_path)


@pytest.mark.usefixtures("side")
def test_case_13_nothing_is_left_dangling(tmp_path: Path) -> None:
    CASES[13][0](tmp_path)


@pytest.mark.usefixtures("side")
def test_case_14_a_new_turn_starts_afresh(tmp_path: Path) -> None:
    CASES[14][0](tmp_path)


@pytest.mark.usefixtures("side")
def test_case_15_two_gates_ask_once(tmp_path: Path) -> None:
    CASES[15][0](tmp_path)


@pytest.mark.usefixtures("side")
def test_case_16_no_checkpointer_is_told(tmp_path: Path) -> None:
    CASES[16][0](tmp_path)


@pytest.mark.parametrize("number", sorted(CASES), ids="{:02}".format)
def test_without_its_fix_case_fails(number: int, tmp_path: Path, monkeypatch: Patch) -> None:
    body, undo = CASES[number]
    undo(monkeypatch)
    with pytest.raises(AssertionError):
        body(tmp_path)
