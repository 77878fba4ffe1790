"""Every route is carried out, decided again where it comes to nothing, and stored before it is acted on."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta

import pytest

from demur import BadInput, Call, ConfigurationError, Cost, ModelError
from demur.core.decision import Mode, Route, Stage
from demur.core.errors import RetrievalError
from demur.core.evidence import Need
from demur.core.protocols import Generation
from demur.core.response import Response
from demur.core.review_item import Resolution, ReviewKind, ReviewState, Verdict
from demur.core.run import RunState
from demur.router.site import Tool

SURE, UNSURE = -0.02, -3.0
NO_REVIEW = {"review": None}


def routes(router, result):
    """What was decided, round by round."""
    return [(round_.decision.stage, round_.decision.route) for round_ in router.log.get(result.run_id).rounds]


def test_a_sure_answer_is_delivered(make_router, scripted, go):
    router = make_router(scripted([("Paris", SURE)]))
    result = go(router)
    assert (result.value, result.route, result.state) == ("Paris", Route.ANSWER, RunState.DONE)
    assert result.delivered
    assert result.confidence.value > 0.9
    run = router.log.get(result.run_id)
    assert (run.state, run.result) == (RunState.DONE, result)
    (only,) = run.rounds
    assert only.decision.artefact_id == router.artefacts["default"].id
    assert only.decision.policy_id == router.settings.policy_for("default").id
    assert only.response.id == result.response_id
    assert only.decision.propensity == 1.0


def test_an_unsure_answer_goes_to_a_human(make_router, scripted, go):
    router = make_router(scripted([("Rome", UNSURE)]))
    result = go(router)
    assert (result.value, result.route, result.state) == (None, Route.DEFER, RunState.WAITING)
    assert not result.delivered
    item = router.queue.get(result.review_id)
    assert (item.proposed, item.run_id, item.state) == ("Rome", result.run_id, ReviewState.OPEN)
    assert item.decision_id == router.log.get(result.run_id).rounds[-1].decision.id
    assert item.priority == pytest.approx(1.0 - result.confidence.value)


def test_where_nobody_can_be_asked_it_abstains(make_router, scripted, go):
    router = make_router(scripted([("Rome", UNSURE)]), costs=NO_REVIEW)
    result = go(router)
    assert (result.value, result.route, result.state) == (None, Route.ABSTAIN, RunState.DONE)
    assert result.review_id is None
    assert "abstaining" in result.reason


def test_retrieving_drafts_again_from_the_passages(make_router, scripted, retriever_of, go):
    model, retriever = scripted([("Rome", UNSURE), ("Paris", SURE)]), retriever_of()
    router = make_router(model, retriever=retriever)
    result = go(router)
    assert (result.value, result.route, result.recommended) == ("Paris", Route.RETRIEVE, Route.RETRIEVE)
    assert [len(documents) for documents in model.asked] == [0, 1]
    assert routes(router, result) == [(Stage.AFTER, Route.RETRIEVE), (Stage.AFTER, Route.ANSWER)]
    first, second = router.log.get(result.run_id).rounds
    assert (first.arm, second.arm) == ("answer", "retrieve")
    assert second.confidence.calibrator.endswith(":retrieve/after")
    assert result.response_id == second.response.id


def test_a_retrieved_answer_that_is_no_surer_is_withheld(make_router, scripted, retriever_of, go):
    router = make_router(scripted([("Rome", UNSURE), ("Rome", UNSURE)]), retriever=retriever_of())
    result = go(router)
    assert result.route is Route.DEFER
    assert routes(router, result)[-1] == (Stage.AFTER, Route.DEFER)
    assert router.queue.get(result.review_id).proposed == "Rome"


def test_escalating_asks_the_larger_model(make_router, scripted, go):
    big = scripted([("Paris", None)], name="big")
    router = make_router(scripted([("Rome", UNSURE)]), larger={"big": big})
    result = go(router)
    assert (result.value, result.route, len(big.asked)) == ("Paris", Route.ESCALATE, 1)
    first, last = router.log.get(result.run_id).rounds
    assert (last.arm, last.response.model) == ("escalate:big", "big")
    # No head of its own: as good as such answers turned out when the chance was fitted.
    fitted = router.artefacts["default"].chances["escalate:big"]
    assert last.confidence.value == pytest.approx(fitted.at(first.confidence.value))
    assert last.confidence.labels == 600


@pytest.mark.parametrize("found", [RetrievalError("no index"), ValueError("boom"), (), ["not a document"]])
def test_a_retriever_that_fails_is_decided_upon_again(make_router, scripted, retriever_of, go, found):
    retriever = retriever_of(found)
    model = scripted([("Rome", UNSURE)])
    router = make_router(model, retriever=retriever)
    result = go(router)
    assert result.route is Route.DEFER
    assert (retriever.asked, len(model.asked)) == (1, 1)
    again = router.log.get(result.run_id).rounds[-1]
    assert again.response is None
    (retrieving,) = [cost for cost in again.decision.expected_costs if cost.route is Route.RETRIEVE]
    assert "failed" in retrieving.unavailable or "nothing was found" in retrieving.unavailable
    assert router.queue.get(result.review_id).proposed == "Rome"


@pytest.mark.parametrize("error", [ModelError("out of memory"), ConnectionError("refused")])
def test_a_larger_model_that_fails_is_decided_upon_again(make_router, scripted, retriever_of, go, error):
    big = scripted([error], name="big")
    model = scripted([("Rome", UNSURE), ("Paris", SURE)])
    router = make_router(model, larger={"big": big}, retriever=retriever_of(), fit={"retrieve_rate": 0.9})
    result = go(router)
    assert [route for _, route in routes(router, result)] == [Route.ESCALATE, Route.RETRIEVE, Route.ANSWER]
    assert (result.value, len(big.asked)) == ("Paris", 1)


def test_a_model_that_fails_on_the_passages_is_decided_upon_again(make_router, scripted, retriever_of, go):
    model = scripted([("Rome", UNSURE), ModelError("too long")])
    router = make_router(model, retriever=retriever_of())
    result = go(router)
    assert (result.route, len(model.asked)) == (Route.DEFER, 2)
    assert router.queue.get(result.review_id).proposed == "Rome"


def test_the_first_model_that_fails_fails_the_run(make_router, scripted, go):
    router = make_router(scripted([ModelError("not there")]))
    with pytest.raises(ModelError, match="not there"):
        go(router)
    (run,) = router.log.list()
    assert (run.state, run.error) == (RunState.FAILED, "ModelError: not there")


def test_a_white_box_that_is_hopeless_does_not_generate(make_router, scripted, go):
    model = scripted([("Rome", UNSURE)], entropy=2.9, provides=frozenset(Need))
    router = make_router(model, fit={"before": True}, costs={"generate": 0.1, "review": None, "abstain": 0.1})
    result = go(router)
    assert (model.stopped, len(model.asked)) == (1, 0)
    assert (result.route, result.state, result.cost.tokens_in) == (Route.ABSTAIN, RunState.DONE, 7)
    assert routes(router, result) == [(Stage.BEFORE, Route.ABSTAIN)]
    promising = scripted([("Paris", SURE)], entropy=0.05, provides=frozenset(Need))
    router = make_router(promising, fit={"before": True}, costs={"generate": 0.05, "review": None, "abstain": 0.1})
    result = go(router)
    assert (result.value, promising.stopped) == ("Paris", 0)
    assert routes(router, result) == [(Stage.BEFORE, Route.GENERATE), (Stage.AFTER, Route.ANSWER)]


def test_a_black_box_that_is_hopeless_is_not_asked(make_router, scripted, go):
    model = scripted([("Rome", UNSURE)])
    router = make_router(model, fit={"before": True}, costs={"generate": 0.05, "review": None, "abstain": 0.1})
    result = go(router, "x" * 20)  # ln(1 + 20) = 3.04: as surprising as it gets
    assert (result.route, model.asked) == (Route.ABSTAIN, [])
    (only,) = router.log.get(result.run_id).rounds
    assert (only.response, result.response_id) == (None, None)
    result = go(router, "x")
    assert len(model.asked) == 1
    assert routes(router, result)[0] == (Stage.BEFORE, Route.GENERATE)


def test_a_hopeless_question_can_go_straight_to_the_passages(make_router, scripted, retriever_of, go):
    model = scripted([("Paris", SURE)], entropy=2.9, provides=frozenset(Need))
    router = make_router(model, retriever=retriever_of(), fit={"before": True}, costs={"generate": 0.3})
    result = go(router)
    assert (result.value, result.route, model.stopped) == ("Paris", Route.RETRIEVE, 1)
    assert routes(router, result) == [(Stage.BEFORE, Route.RETRIEVE), (Stage.AFTER, Route.ANSWER)]


def test_nothing_found_for_a_hopeless_question(make_router, scripted, retriever_of, go):
    model = scripted([("Paris", SURE)], entropy=2.9, provides=frozenset(Need))
    router = make_router(model, retriever=retriever_of(()), fit={"before": True}, costs={"generate": 0.3})
    result = go(router)
    assert (result.route, model.asked) == (Route.DEFER, [])
    assert router.queue.get(result.review_id).proposed is None


def test_the_number_of_rounds_is_capped(make_router, scripted, retriever_of, go):
    big = scripted([("Rome", None)], name="big")
    model = scripted([("Rome", UNSURE), ("Rome", UNSURE)])
    options = {"larger": {"big": big}, "retriever": retriever_of(), "fit": {"escalate_rate": 0.85}}
    capped = make_router(model, settings={"policy": {"max_rounds": 1}}, **options)
    result = go(capped)
    assert (result.route, len(model.asked), len(big.asked)) == (Route.DEFER, 1, 0)
    costs = capped.log.get(result.run_id).rounds[-1].decision.expected_costs
    assert {cost.unavailable for cost in costs if cost.route in (Route.RETRIEVE, Route.ESCALATE)} == {
        "1 of 1 rounds are used"
    }
    model.asked.clear()
    free = make_router(model, settings={"policy": {"max_rounds": 3}}, **options)
    assert [route for _, route in routes(free, go(free))][:2] == [Route.RETRIEVE, Route.ESCALATE]


def test_after_the_deadline_nothing_is_drafted(make_router, scripted, clock, go):
    model = scripted()
    router = make_router(model)
    late = Call.ask("Capital?", deadline=clock.now() - timedelta(seconds=1))
    result = go(router, late)
    assert (result.route, result.state, model.asked) == (Route.ABSTAIN, RunState.DONE, [])
    assert "deadline has passed" in result.reason
    assert router.queue.waiting() == 0


def test_an_answer_that_comes_too_late_is_not_delivered(make_router, scripted, retriever_of, clock, go):
    model = scripted([("Paris", SURE)], on_call=lambda _: clock.advance(60))
    router = make_router(model, retriever=retriever_of())
    result = go(router, Call.ask("Capital?", deadline=clock.now() + timedelta(seconds=30)))
    assert (result.route, len(model.asked)) == (Route.ABSTAIN, 1)
    assert result.cost.tokens_out == 3


def test_shadow_delivers_after_the_deadline_too(make_router, scripted, clock, go):
    router = make_router(scripted(), mode="shadow")
    assert go(router, Call.ask("Capital?", deadline=clock.now() - timedelta(1))).value == "Paris"


def test_a_full_queue_takes_the_next_best_route(make_router, scripted, go):
    router = make_router(scripted([("Rome", UNSURE)]), settings={"review": {"capacity": 1}})
    assert go(router).route is Route.DEFER
    result = go(router)
    assert (result.route, router.queue.waiting()) == (Route.ABSTAIN, 1)
    costs = router.log.get(result.run_id).rounds[-1].decision.expected_costs
    (deferring,) = [cost for cost in costs if cost.route is Route.DEFER]
    assert "queue is full (1 of 1 places)" in deferring.unavailable


@pytest.mark.parametrize("mode", ["shadow", "advise"])
@pytest.mark.parametrize("surety", [SURE, UNSURE])
def test_shadow_and_advice_change_nothing(make_router, scripted, retriever_of, go, mode, surety):
    big, retriever = scripted(name="big"), retriever_of()
    model = scripted([("Rome", surety)])
    router = make_router(model, mode=mode, larger={"big": big}, retriever=retriever, fit={"before": True})
    result = go(router)
    assert (result.value, result.route, result.mode) == ("Rome", Route.ANSWER, Mode(mode))
    assert result.delivered
    assert (len(model.asked), big.asked, retriever.asked, router.queue.waiting()) == (1, [], 0, 0)
    assert (result.recommended is Route.ANSWER) == (surety == SURE)
    assert len(router.log.get(result.run_id).rounds) == 1


def test_on_the_first_day_only_the_prior_is_known(make_router, scripted, go):
    shadow = make_router(scripted(), artefact=None, mode="shadow")
    result = go(shadow)
    assert (result.value, result.recommended, result.confidence.is_prior) == ("Paris", Route.ABSTAIN, True)
    assert (result.confidence.interval.low, result.confidence.interval.high) == (0.0, 1.0)
    decision = shadow.log.get(result.run_id).rounds[0].decision
    assert (decision.fallback, decision.artefact_id) == (True, None)
    enforced = go(make_router(scripted(), artefact=None))
    assert (enforced.value, enforced.route, enforced.state) == (None, Route.ABSTAIN, RunState.DONE)


def test_a_task_of_its_own_has_its_own_artefact_and_mode(make_router, scripted, artefact_for, go):
    model = scripted([("Rome", UNSURE)])
    settings = {"tasks": {"law": {"mode": "enforce", "costs": {"abstain": 0.1}}}}
    router = make_router(model, mode="shadow", artefact=artefact_for(model, task="law"), settings=settings)
    assert go(router).value == "Rome"
    assert go(router, Call.ask("Capital?", task="law")).route is Route.ABSTAIN


def test_the_cost_of_every_draft_is_counted(make_router, scripted, retriever_of, go):
    big = scripted([("Paris", None)], name="big", cost=Cost(money=2.0, tokens_in=10, tokens_out=4))
    model = scripted([("Rome", UNSURE), ("Rome", UNSURE)])
    router = make_router(model, larger={"big": big}, retriever=retriever_of(), fit={"escalate_rate": 0.85})
    result = go(router)
    assert (len(model.asked), len(big.asked)) == (2, 1)
    assert (result.cost.money, result.cost.tokens_in, result.cost.tokens_out) == (3.0, 24, 10)
    assert router.log.get(result.run_id).cost == result.cost


def test_a_failed_draft_costs_its_time_and_a_failed_run_what_it_spent(make_router, scripted, clock, go):
    slow = scripted([ModelError("no")], name="big", on_call=lambda _: clock.advance(8))
    router = make_router(scripted([("Rome", UNSURE)]), larger={"big": slow})
    assert go(router).cost.seconds == pytest.approx(8.25)
    alone = make_router(scripted([ModelError("no")], on_call=lambda _: clock.advance(5)))
    with pytest.raises(ModelError):
        go(alone)
    (failed,) = alone.log.list(state=RunState.FAILED)
    assert failed.cost.seconds == pytest.approx(5)


def test_the_decision_is_stored_before_it_is_acted_on(make_router, scripted, retriever_of, go):
    seen = []

    def look(call):
        (run,) = router.log.list()
        seen.append([round_.decision.route for round_ in run.rounds])

    big = scripted([("Paris", None)], name="big", on_call=look)
    model = scripted([("Rome", UNSURE)], on_call=look)
    router = make_router(model, larger={"big": big}, retriever=retriever_of(), fit={"escalate_rate": 0.85})
    go(router)
    assert seen == [[], [Route.RETRIEVE], [Route.RETRIEVE, Route.ESCALATE]]


def test_the_same_evidence_and_draw_give_the_same_decision(make_router, scripted, go, tmp_path):
    def decided(seed, database):
        router = make_router(
            scripted(), settings={"policy": {"label_rate": 0.5}}, seed=seed, database=f"sqlite:///{database}"
        )
        decisions = [router.log.get(go(router).run_id).rounds[0].decision for _ in range(6)]
        return [(d.route, d.draw, d.sampled_for_label, d.confidence, d.expected_costs, d.reason) for d in decisions]

    one, two, other = (decided(seed, tmp_path / f"{n}.db") for n, seed in enumerate((3, 3, 4)))
    assert one == two
    assert [row[1] for row in one] != [row[1] for row in other]
    assert all(sampled == (draw < 0.5) for _, draw, sampled, *_ in one + other)
    assert {sampled for _, _, sampled, *_ in one + other} == {True, False}


@pytest.mark.parametrize(
    ("replies", "extra"),
    [
        ([("Paris", SURE)], {}),
        ([("Rome", UNSURE), ("Paris", SURE)], {"retriever": True}),
        ([("Rome", UNSURE), ("Rome", UNSURE)], {"retriever": True, "big": True}),
        ([("Rome", (float("nan"), -1.0))], {}),
        ([ModelError("gone")], {}),
    ],
)
def test_sync_and_async_store_the_same(make_router, scripted, retriever_of, tmp_path, replies, extra):
    def stored(how):
        larger = {"big": scripted([("Paris", None)], name="big")} if "big" in extra else None
        retriever = retriever_of() if "retriever" in extra else None
        router = make_router(
            scripted(replies),
            larger=larger,
            retriever=retriever,
            fit={"escalate_rate": 0.85},
            database=f"sqlite:///{tmp_path / how}.db",
        )
        call = Call.ask("Capital?", metadata={"a": 1})
        with contextlib.suppress(ModelError):
            router.run(call) if how == "sync" else asyncio.run(router.arun(call))
        (run,) = router.log.list()
        assert run.state is not RunState.OPEN
        return without_ids_and_times(run.model_dump(mode="json"))

    assert stored("sync") == stored("async")


def without_ids_and_times(value):
    """Without ids and times."""
    if isinstance(value, dict):
        return {k: without_ids_and_times(v) for k, v in value.items() if k != "id" and not k.endswith(("_id", "_at"))}
    return [without_ids_and_times(each) for each in value] if isinstance(value, list) else value


def test_a_call_that_does_not_go_with_its_parts_is_refused(make_router, scripted, go):
    router = make_router(scripted())
    tool = Tool("refund", run=lambda **_: None)
    tool_call = Call(kind="tool", tool_name="refund")
    refused = [
        (tool_call, {}),
        (Call(kind="tool", tool_name="pay"), {"tool": tool}),
        (Call.ask("x"), {"tool": tool}),
        (Call.ask("x"), {"proposal": Generation(Response())}),
        (Call.ask("x"), {"exclude": {"retreive": "typo"}}),
        (Call.ask("x"), {"mode": "enforced"}),
    ]
    for call, options in refused:
        with pytest.raises(ConfigurationError):
            go(router, call, **options)
    assert router.log.list() == []
    with pytest.raises(ConfigurationError, match="no model"):
        go(make_router(None))


def test_an_excluded_route_is_not_taken(make_router, scripted, retriever_of, go):
    retriever = retriever_of()
    router = make_router(scripted([("Rome", UNSURE)]), retriever=retriever)
    result = go(router, "Capital?", exclude={"retrieve": "not here", "defer": "nobody is in"})
    assert (result.route, retriever.asked) == (Route.ABSTAIN, 0)


def test_a_key_replays_what_was_stored(make_router, scripted, go):
    model = scripted([("Paris", SURE), ("Rome", SURE)])
    router = make_router(model)
    first = go(router, Call.ask("Capital?", idempotency_key="k"))
    again = go(router, Call.ask("Capital?", idempotency_key="k"))
    assert again == first
    assert len(model.asked) == 1
    with pytest.raises(BadInput, match="another call"):
        go(router, Call.ask("Other?", idempotency_key="k"))


def test_a_key_of_a_waiting_run_says_that_it_waits(make_router, scripted, go):
    router = make_router(scripted([("Rome", UNSURE)]))
    first = go(router, Call.ask("Capital?", idempotency_key="k"))
    again = go(router, Call.ask("Capital?", idempotency_key="k"))
    assert (again.state, again.review_id, again.run_id) == (RunState.WAITING, first.review_id, first.run_id)
    item = router.queue.claim("ada")
    router.queue.resolve(item.id, Resolution(verdict=Verdict.RESPOND, answer="Paris", reviewer="ada"), version=1)
    answered = go(router, Call.ask("Capital?", idempotency_key="k"))
    assert (answered.value, answered.delivered) == ("Paris", True)


def test_a_failed_run_lets_go_of_its_key(make_router, scripted, go):
    router = make_router(scripted([ModelError("gone"), ("Paris", SURE)]))
    with pytest.raises(ModelError):
        go(router, Call.ask("Capital?", idempotency_key="k"))
    assert go(router, Call.ask("Capital?", idempotency_key="k")).value == "Paris"


@pytest.mark.parametrize("mode", ["shadow", "enforce"])
def test_a_delivered_answer_drawn_for_grading_is_in_the_queue_and_still_delivered(make_router, scripted, go, mode):
    router = make_router(scripted(), mode=mode, settings={"policy": {"label_rate": 1.0}})
    result = go(router)
    assert result.delivered and result.review_id is None
    (item,) = router.queue.list()
    assert (item.kind, item.run_id, item.response_id) == (ReviewKind.LABEL, result.run_id, result.response_id)
    run = router.log.get(result.run_id)
    assert run.state is RunState.DONE
    assert run.rounds[-1].decision.label_propensity == 1.0


def test_without_a_draw_for_grading_nothing_is_queued(make_router, scripted, go):
    router = make_router(scripted(), settings={"policy": {"label_rate": 0.0}})
    assert go(router).delivered
    assert router.queue.list() == []
