"""Bad input: each a typed error, or the fallback."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from demur import ArtefactMismatch, BadInput, Call, ConfigurationError, HuggingFaceModel, Router, Settings, StoreError
from demur.core.decision import Route, Stage
from demur.core.errors import PromptTooLong
from demur.core.evidence import Need
from demur.core.response import Cost
from demur.core.run import Result, Run, RunState
from demur.core.signal import Signal

SURE = -0.02
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("logprobs", [(NAN, -0.1), (-INF,), (), None, (None, -0.1), (0.7,)])
def test_bad_log_probabilities_fall_back(make_router, scripted, go, logprobs):
    router = make_router(scripted([("Paris", logprobs)]))
    result = go(router)
    assert (result.value, result.route, result.state) == (None, Route.ABSTAIN, RunState.DONE)
    assert result.confidence.is_prior
    (only,) = router.log.get(result.run_id).rounds
    assert only.decision.fallback
    assert "token.mean_logprob" in result.reason
    signals = {signal.name: signal for signal in only.signals}
    assert "token.mean_logprob" not in signals or not signals["token.mean_logprob"].available
    assert go(make_router(scripted([("Paris", logprobs)]), mode="shadow")).value == "Paris"


@pytest.fixture(scope="module")
def tiny(tiny_model):
    return HuggingFaceModel.from_objects(*tiny_model("llama"), name="tiny")


@pytest.mark.parametrize("mode", ["shadow", "enforce"])
@pytest.mark.parametrize("question", ["", "   ", "word " * 20_000])
def test_questions_that_cannot_be_asked_fail_the_run(make_router, tiny, go, mode, question):
    router = make_router(artefact=None, mode=mode)
    router.model = tiny
    with pytest.raises(PromptTooLong if len(question) > 10 else BadInput):
        go(router, question)
    (run,) = router.log.list()
    assert (run.state, run.rounds, run.call.question) == (RunState.FAILED, (), question)
    assert run.error.startswith(("PromptTooLong: ", "BadInput: "))


class Probe:
    """A probe by script."""

    name, needs, stage, cost_rank = "mine", frozenset({Need.TEXT}), Stage.AFTER, 0
    signal_names = ("mine.score",)

    def __init__(self, give):
        self.give = give

    def measure(self, evidence):
        return self.give()


def boom():
    raise ZeroDivisionError("in the probe")


@pytest.mark.parametrize(
    ("give", "why"),
    [
        (boom, "ZeroDivisionError"),
        (lambda: [Signal.of("mine.score", NAN)], "not finite"),
        (lambda: [Signal.of("mine.score", INF)], "not finite"),
        (list, "no such signal"),
        (lambda: None, "TypeError"),
        (lambda: [Signal.of("other", 1.0)], "no such signal"),
    ],
)
def test_a_probe_that_says_nothing_usable_is_a_missing_signal(
    make_router, scripted, artefact_for, head_of, go, give, why
):
    model = scripted([("Paris", SURE)])
    head = head_of("answer", Stage.AFTER, "mine.score", 1.0)
    artefact = artefact_for(model, retrieve=False, extra={"answer/after": head})
    router = make_router(model, artefact=artefact, probes=[Probe(give)])
    result = go(router)
    assert (result.route, result.confidence.is_prior) == (Route.ABSTAIN, True)
    (only,) = router.log.get(result.run_id).rounds
    (signal,) = [signal for signal in only.signals if signal.name == "mine.score"]
    assert why in signal.score.reason
    healthy = make_router(model, artefact=artefact, probes=[Probe(lambda: [Signal.of("mine.score", 0.1)])])
    assert go(healthy).value == "Paris"


def test_two_probes_with_one_voice_are_refused(make_router, scripted):
    router = make_router(scripted(), artefact=None, probes=[Probe(boom), Probe(boom)])
    with pytest.raises(ConfigurationError, match="two probes"):
        router.assessor("default")


def test_a_wrong_artefact_is_refused_at_construction(make_router, scripted, artefact_for, head_of, tmp_path):
    model, other = scripted(), scripted(name="other")
    with pytest.raises(ArtefactMismatch, match="model: fitted for"):
        make_router(other, artefact=artefact_for(model))
    folder = artefact_for(model).save(tmp_path / "artefact")
    with pytest.raises(ArtefactMismatch, match="weights of scripted"):
        Router(other, artefacts=[folder], settings=Settings(), database=":memory:")
    fitted = artefact_for(model, escalate={"big": scripted(name="big")})
    with pytest.raises(ArtefactMismatch, match="escalation target big"):
        make_router(model, artefact=fitted, larger={"big": scripted(name="b2")})
    foreign = artefact_for(model, extra={"answer/after": head_of("answer", Stage.AFTER, "mine.score")})
    with pytest.raises(ArtefactMismatch, match=r"no probe here gives mine\.score"):
        make_router(model, artefact=foreign)
    make_router(model, artefact=foreign, probes=[Probe(boom)])
    with pytest.raises(ConfigurationError, match="two artefacts"):
        Router(model, artefacts=[foreign, artefact_for(model)], settings=Settings(), database=":memory:")


def test_a_changed_artefact_file_is_refused(scripted, artefact_for, tmp_path):
    folder = artefact_for(scripted()).save(tmp_path / "artefact")
    (tensors,) = folder.glob("*.safetensors")
    tensors.write_bytes(tensors.read_bytes()[:-1] + b"\x00")
    with pytest.raises(ArtefactMismatch):
        Router(scripted(), artefacts=[folder], settings=Settings(), database=":memory:")


def test_another_model_for_one_call_must_fit_the_artefact_too(make_router, scripted, go):
    router = make_router(scripted())
    other = scripted(name="other")
    with pytest.raises(ArtefactMismatch):
        go(router, model=other)
    assert (other.asked, router.log.list()) == ([], [])
    assert go(router, Call.ask("x", task="unfitted"), model=other, mode="shadow").value == "Paris"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('mdoe = "enforce"', "mode"),
        ('mode = "enforced"', "mode"),
        ("[costs]\nwrnog = 2.0", "wrong"),
        ("[costs]\nwrong = nan", "costs.wrong"),
        ("[review]\ncapacity = 0", "capacity"),
        ("mode = ", "TOML"),
    ],
)
def test_settings_with_a_typo_are_refused(tmp_path, text, says):
    file = tmp_path / "demur.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=says):
        Router(settings=Settings.load(file), database=":memory:")


def test_a_database_that_cannot_be_opened_is_refused_at_construction(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StoreError):
        Router(settings=Settings(), database=tmp_path / "file" / "demur.db")


def test_a_full_disk_stops_before_the_model_is_asked(make_router, scripted, go):
    model = scripted()
    router = make_router(model, mode="shadow")
    go(router)
    fill(router.database)
    with pytest.raises(StoreError, match="full"):
        go(router, "x" * 200_000)
    assert len(model.asked) == 1


def test_a_full_disk_keeps_an_undecided_answer_back(make_router, scripted, go):
    router = make_router(scripted())
    go(router)
    router.model = scripted([("Paris" * 50_000, SURE)], on_call=lambda _: fill(router.database))
    with pytest.raises(StoreError, match="full"):
        go(router)


def fill(database):
    """No page more."""
    from sqlalchemy import event

    with database.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()

    @event.listens_for(database.engine, "begin")
    def _(connection):
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")


def test_text_that_no_database_takes_is_bad_input(make_router, scripted, go):
    router = make_router(scripted())
    with pytest.raises((BadInput, ValueError)):
        go(router, "lone surrogate \ud800")


def test_what_a_run_says_that_has_no_result(make_router, scripted, go):
    """A key whose run is open, unknown or failed: never a second run, never a made-up value."""
    from demur.core.decision import Mode
    from demur.core.errors import EffectBusy
    from demur.router.owner import this_process

    model = scripted()
    router = make_router(model)
    call = Call.ask("Capital?", idempotency_key="k")
    run = router.log.start(Run(call=call), Mode.ENFORCE, this_process())
    with pytest.raises(EffectBusy, match="still at work"):
        go(router, call)
    router.effects.intend("k", run.id, "tool", {})
    router.effects.start("k", run.id)
    router.log.finish(run.id, RunState.UNKNOWN, cost=Cost(money=2.0))
    unknown = go(router, call)
    assert (unknown.state, unknown.route, unknown.value, unknown.run_id) == (
        RunState.UNKNOWN,
        Route.DEFER,
        None,
        run.id,
    )
    assert (unknown.cost.money, unknown.delivered, model.asked) == (2.0, False, [])


def test_a_result_of_an_unstorable_type_is_replayed_as_text(make_router, scripted, go):
    from demur.core.run import NotStored
    from demur.router.site import Tool

    router = make_router(scripted(), mode="shadow")
    call = Call(kind="tool", tool_name="look", idempotency_key="k")
    tool = Tool("look", run=lambda: SimpleNamespace(a=1))
    assert go(router, call, tool=tool).value == SimpleNamespace(a=1)
    assert go(router, call, tool=tool).value == NotStored(type_name="SimpleNamespace", text="namespace(a=1)")


def test_numbers_in_results_are_finite(make_router, scripted, go):
    result = go(make_router(scripted()))
    assert isinstance(result, Result)
    assert all(math.isfinite(value) for value in (result.confidence.value, result.cost.seconds))
