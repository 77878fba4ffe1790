"""What `demur.testing` gives to people who test their own agents."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from demur import BadInput, Call, ConfigurationError, Deferred, ModelError
from demur.core.decision import Route
from demur.core.response import Response
from demur.core.run import RunState
from demur.testing import FrozenConfidence, FrozenRouter, Reviewer, ScriptedChatModel, ScriptedModel


def test_a_sure_answer_is_delivered_and_an_unsure_one_is_not():
    frozen = FrozenConfidence(0.99, {"Who?": 0.05})
    router = FrozenRouter(ScriptedModel({"What?": "This", "Who?": "Ann"}), confidence=frozen)
    sure, unsure = router.run(Call.ask("What?")), router.run(Call.ask("Who?"))
    assert (sure.value, sure.route, sure.confidence.value) == ("This", Route.ANSWER, 0.99)
    assert (unsure.value, unsure.state) == (None, RunState.WAITING)
    assert unsure.confidence.value == 0.05


def test_without_a_confidence_the_fallback_acts():
    result = FrozenRouter(ScriptedModel(["This"])).run(Call.ask("What?"))
    assert (result.route, result.value) == (Route.ABSTAIN, None)


def test_the_interval_counts_for_irreversible_tools():
    from demur.core.protocols import Generation
    from demur.router.site import Tool

    done = []
    tool = Tool("pay", run=lambda: done.append(1))
    call = Call(kind="tool", tool_name="pay", side_effects="irreversible")
    proposal = Generation(Response())
    narrow = FrozenRouter(confidence=FrozenConfidence(0.95, width=0.0)).run(call, tool=tool, proposal=proposal)
    wide = FrozenRouter(confidence=FrozenConfidence(0.95, width=0.6)).run(call, tool=tool, proposal=proposal)
    assert (narrow.route, wide.route, done) == (Route.ANSWER, Route.DEFER, [1])


def test_a_cascade_takes_the_larger_model_where_that_pays():
    router = FrozenRouter(
        ScriptedModel(["wrong"]),
        confidence=FrozenConfidence(rule=lambda evidence: 0.97 if evidence.arm == "escalate:big" else 0.3),
        chances={"escalate:big": 0.95},
        larger={"big": ScriptedModel(["right"], name="big")},
        settings=_settings(costs={"escalate": {"big": 0.02}}),
    )
    result = router.run(Call.ask("What?"))
    assert (result.value, result.route) == ("right", Route.ESCALATE)


def test_a_reviewer_decides_a_guarded_function():
    router = FrozenRouter(confidence=0.4)
    reviewer = Reviewer(router, "ada")

    @router.guard(task="triage")
    def triage(ticket: str) -> str:
        return "billing"

    with pytest.raises(Deferred) as waiting:
        triage("???")
    (item,) = reviewer.waiting()
    assert item.id == waiting.value.review_id
    decided = reviewer.edit(answer="support")
    assert (decided.resolution.answer, decided.resolution.reviewer) == ("support", "ada")
    assert router.log.get(item.run_id).result.value == "support"
    assert reviewer.waiting() == ()
    with pytest.raises(BadInput, match="nothing"):
        reviewer.approve()


def test_a_reviewer_names_one_of_several():
    router = FrozenRouter(ScriptedModel(["a", "b"]), confidence=0.4)
    first, second = router.run(Call.ask("1?")), router.run(Call.ask("2?"))
    reviewer = Reviewer(router)
    with pytest.raises(BadInput, match="2 items wait"):
        reviewer.approve()
    reviewer.reject(first.run_id, note="no")
    reviewer.approve(second.review_id)
    assert router.log.get(first.run_id).result.route is Route.ABSTAIN
    assert router.log.get(second.run_id).result.value == "b"


def test_two_reviewers_share_a_conversation():
    router = FrozenRouter(ScriptedModel(["a", "b", "c"]), confidence=0.4)
    first, second, third = (router.run(Call.ask(f"{n}?", conversation_id="c1")) for n in range(3))
    Reviewer(router, "ada").approve(first.run_id)
    Reviewer(router, "bob").reject(second.run_id)
    Reviewer(router, "ada").respond("d", third.run_id)
    assert [router.log.get(one.run_id).result.value for one in (first, second, third)] == ["a", None, "d"]


def test_scripts_say_what_they_lack():
    with pytest.raises(ConfigurationError, match="empty"):
        ScriptedModel([])
    model = ScriptedModel(["only"])
    model.generate(Call.ask("1?"))
    with pytest.raises(BadInput, match=r"asked 2 times.*1 replies.*2\?"):
        model.generate(Call.ask("2?"))
    with pytest.raises(BadInput, match="no reply to 'Why"):
        ScriptedModel({"What?": "This"}).generate(Call.ask("Why?"))
    assert [call.question for call in model.calls] == ["1?", "2?"]


def test_a_reply_may_be_an_error_a_response_or_a_function():
    with pytest.raises(ModelError):
        ScriptedModel([ModelError("down")]).generate(Call.ask("?"))
    whole = Response(text="x", model="other")
    assert ScriptedModel([whole]).generate(Call.ask("?")).response is whole
    echo = ScriptedModel(lambda call: call.question.upper(), logprob=-0.1)
    generation = asyncio.run(echo.agenerate(Call.ask("abc")))
    assert (generation.response.text, generation.response.trace.logprobs) == ("ABC", (-0.1,))


@pytest.mark.parametrize(
    "levels", [{"default": 1.2}, {"calls": {"x": -0.1}}, {"width": 2.0}, {"default": float("nan")}]
)
def test_levels_that_are_no_probabilities_are_refused(levels):
    with pytest.raises(ConfigurationError):
        FrozenConfidence(**levels)


@pytest.mark.parametrize("arm", ["answer", "escalate", "retreive"])
def test_chances_of_unknown_routes_are_refused(arm):
    with pytest.raises(ConfigurationError):
        FrozenRouter(chances={arm: 0.5})


def test_a_scripted_chat_model_streams_what_it_says():
    call = ScriptedChatModel.call_tool("look", {"n": 3, "x": [1, {"a": None}]}, id="c1")
    whole = ScriptedChatModel(turns=["two words", call])
    streamed = ScriptedChatModel(turns=["two words", call])
    for _ in range(2):
        said = whole.invoke("hi")
        chunks = list(streamed.stream("hi"))
        total = chunks[0]
        for chunk in chunks[1:]:
            total = total + chunk
        assert (total.text, total.tool_calls) == (said.text, said.tool_calls)
        assert total.usage_metadata == said.usage_metadata
        assert total.response_metadata["model_name"] == "scripted"
    assert len(whole.asked) == 2
    with pytest.raises(BadInput, match="3 times"):
        whole.invoke("hi")


def test_importing_it_loads_nothing_heavy():
    code = "import sys, demur.testing; assert not {'torch', 'langchain_core', 'sqlalchemy'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_unknown_name_is_an_attribute_error():
    import demur.testing

    with pytest.raises(AttributeError, match="no_such"):
        _ = demur.testing.no_such


def _settings(**values):
    from demur import Settings

    return Settings(mode="enforce", **values)
