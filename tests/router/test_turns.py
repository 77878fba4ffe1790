"""Refusals and questions back, from the model's text to the decision, the log and the result."""

from __future__ import annotations

import pytest

from demur import Call
from demur.core.decision import Route
from demur.core.response import Response
from demur.core.turn import TurnKind
from demur.router.settings import Settings

SURE, UNSURE = -0.02, -3.0
REFUSAL, QUESTION = "I don't know.", "Which order do you mean?"


def turns(**rules):
    return {"turns": rules}


def test_by_default_every_turn_is_judged_as_an_answer(scripted, make_router, go):
    for text, logprob, route in ((REFUSAL, SURE, Route.ANSWER), (QUESTION, SURE, Route.ANSWER)):
        result = go(make_router(scripted(((text, logprob),))))
        assert (result.route, result.value) == (route, text)
    unsure = make_router(scripted(((REFUSAL, UNSURE),)), costs={"review": None, "retrieve": None})
    assert go(unsure).route is Route.ABSTAIN


@pytest.mark.parametrize(("text", "kind"), [(REFUSAL, TurnKind.REFUSAL), (QUESTION, TurnKind.CLARIFICATION)])
def test_delivered_as_it_stands(scripted, make_router, go, text, kind):
    router = make_router(scripted(((text, UNSURE),)), settings=turns(**{kind.value: "deliver"}))
    result = go(router)
    assert (result.value, result.route, result.turn) == (text, Route.ANSWER, kind)
    run = router.log.get(result.run_id)
    (round_,) = run.rounds
    assert round_.turn is kind
    assert "asserts nothing" in round_.decision.reason
    assert round_.decision.policy_id == router.settings.policy_for("default").id
    assert round_.decision.policy_id != Settings().policy_for("default").id
    assert round_.confidence is not None  # it was measured all the same
    assert (round_.decision.propensity, round_.decision.label_propensity) == (1.0, 0.02)


@pytest.mark.parametrize(("text", "kind"), [(REFUSAL, TurnKind.REFUSAL), (QUESTION, TurnKind.CLARIFICATION)])
def test_withheld_as_the_model_declined(scripted, make_router, go, text, kind):
    model = scripted(((text, SURE),))
    result = go(make_router(model, settings=turns(**{kind.value: "abstain"})))
    assert (result.value, result.route, result.turn) == (None, Route.ABSTAIN, kind)
    assert len(model.asked) == 1


def test_under_judge_a_refusal_may_still_be_retrieved_for(scripted, make_router, go, retriever_of):
    retriever = retriever_of()
    model = scripted(((REFUSAL, UNSURE), ("Paris", SURE)))
    result = go(make_router(model, retriever=retriever))
    assert (result.value, result.route, result.turn) == ("Paris", Route.RETRIEVE, TurnKind.ANSWER)
    model = scripted(((REFUSAL, UNSURE), ("Paris", SURE)))
    result = go(make_router(model, retriever=retriever, settings=turns(refusal="deliver")))
    assert (result.value, retriever.asked) == (REFUSAL, 1)


def test_a_task_has_its_own_rule_and_its_own_words(scripted, make_router, go):
    settings = {
        "turns": {"refusal": "abstain"},
        "tasks": {"qa": {"refusal": "not in the text", "turns": {"refusal": "deliver"}}},
    }
    router = make_router(scripted((("Not in the text.", SURE),)), settings=settings, artefact=None)
    assert go(router, Call.ask("?", task="qa")).value == "Not in the text."
    other = go(router, Call.ask("?", task="other"))  # there these are words like any others
    assert (other.route, other.turn) == (Route.ABSTAIN, TurnKind.ANSWER)
    assert "no confidence" in router.log.get(other.run_id).rounds[0].decision.reason


def test_in_shadow_mode_everything_goes_out_and_the_rule_is_only_said(scripted, make_router, go):
    result = go(make_router(scripted(((REFUSAL, SURE),)), mode="shadow", settings=turns(refusal="abstain")))
    assert (result.value, result.route, result.recommended) == (REFUSAL, Route.ANSWER, Route.ABSTAIN)


def test_a_delivered_refusal_is_drawn_for_grading_and_its_outcome_says_whether_refusing_was_right(
    scripted, make_router, go
):
    settings = turns(refusal="deliver") | {"policy": {"label_rate": 1.0}}
    router = make_router(scripted(((REFUSAL, SURE),)), settings=settings)
    result = go(router)
    (item,) = router.queue.list()
    assert (item.kind.value, item.proposed) == ("label", REFUSAL)
    router.record_outcome(result.response_id, True)
    assert router.queue.outcomes.counts().right == 1


def test_a_tool_call_is_a_tool_call_whatever_proposed_it(scripted, make_router, go):
    from demur.core.call import CallKind
    from demur.core.protocols import Generation
    from demur.router.site import Tool

    router = make_router(scripted(), settings=turns(refusal="deliver"))
    call = Call(kind=CallKind.TOOL, tool_name="look", arguments={})
    proposal = Generation(Response(text=REFUSAL))
    result = go(router, call, tool=Tool("look", lambda: 1), proposal=proposal)
    assert (result.turn, result.route) == (TurnKind.TOOL_CALL, Route.ABSTAIN)


def test_the_turn_survives_the_log_and_the_wait(scripted, make_router, go):
    router = make_router(scripted(((QUESTION, UNSURE),)), costs={"retrieve": None})
    result = go(router, Call.ask("?", conversation_id="c"))
    assert (result.route, result.turn) == (Route.DEFER, TurnKind.CLARIFICATION)
    assert router.log.get(result.run_id).result.turn is TurnKind.CLARIFICATION
    assert router.queue.context(router.queue.get(result.review_id)).turn is TurnKind.CLARIFICATION


def test_a_full_queue_takes_what_joins_a_waiting_conversation(scripted, make_router, go):
    router = make_router(scripted((("Paris", UNSURE),)), costs={"retrieve": None}, settings={"review": {"capacity": 1}})
    routes = [
        go(router, Call.ask(str(number), conversation_id=conversation)).route
        for number, conversation in enumerate(["c", "c", "d", None, "c"])
    ]
    assert routes == [Route.DEFER, Route.DEFER, Route.ABSTAIN, Route.ABSTAIN, Route.DEFER]
    assert router.queue.waiting() == 1
