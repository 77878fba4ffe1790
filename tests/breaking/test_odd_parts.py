"""Models, retrievers, probes and tools are other people's code: what is odd about them is named, and decided upon."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from demur import Call, Settings
from demur.core.decision import Route, Stage
from demur.core.errors import BadInput, ConfigurationError, ModelError
from demur.core.evidence import Captured, Document
from demur.core.protocols import Generation
from demur.core.response import Response
from demur.core.run import RunState
from demur.router.site import Tool


class Silent(Exception):
    """Has no words: not even `str` of it works."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


WORDLESS = [Silent(), ValueError("half a character \ud800")]


class Found:
    def __init__(self, found: Any) -> None:
        self.found = found

    def retrieve(self, query: str, *, limit: int = 5) -> Any:
        if isinstance(self.found, BaseException):
            raise self.found
        return self.found() if callable(self.found) else self.found

    async def aretrieve(self, query: str, *, limit: int = 5) -> Any:
        return self.retrieve(query, limit=limit)


@pytest.mark.parametrize(
    "given",
    [None, "text", Response(text="x"), Generation(None), Generation("x"), Generation(Response(text="x"), "state")],  # pyright: ignore[reportArgumentType]
    ids=["none", "str", "response", "no response", "str inside", "state inside"],
)
def test_a_model_that_gives_back_something_else_fails_its_run(router, puppet, go, given):
    asked = router(puppet(lambda *_: given))
    with pytest.raises(ModelError, match="not a Generation"):
        go(asked, Call.ask("q"))
    assert [run.state for run in asked.log.list()] == [RunState.FAILED]


@pytest.mark.parametrize("mode", ["shadow", "enforce"])
def test_a_model_that_stops_though_nobody_said_so_is_not_asked_for_ever(router, puppet, go, mode):
    asked = []

    def act(call, documents, gate):
        asked.append(call)
        captured = Captured(prompt_entropy=0.05, prompt_tokens=5)
        assert gate is None or gate(captured)
        return Generation(Response(stopped_before_generating=True), captured)

    with pytest.raises(ModelError, match="no gate had told it"):
        go(router(puppet(act), mode, gated=True), Call.ask("q"))
    assert len(asked) == 1


def test_a_model_that_goes_past_the_gate_does_not_undo_its_decision(router, puppet, says, go):
    def act(call, documents, gate):
        captured = Captured(prompt_entropy=3.0, prompt_tokens=5)
        assert [gate(captured), gate(captured)] == [False, False]
        return Generation(says().response, captured)

    asked = router(puppet(act), gated=True)
    result = go(asked, Call.ask("q"))
    assert (result.route, result.value) == (Route.DEFER, None)
    run = asked.log.get(result.run_id)
    assert [each.decision.stage for each in run.rounds] == [Stage.BEFORE]
    assert run.state is RunState.WAITING


def _passages() -> Any:
    return (Document(id=f"d{number}", text="Paris") for number in itertools.count())


@pytest.mark.parametrize("found", [_passages, [Document(id=f"d{i}", text="Paris") for i in range(10_000)]])
def test_never_more_passages_than_were_asked_for(router, puppet, says, go, found):
    given: list[int] = []

    def act(call, documents, gate):
        given.append(len(documents))
        return says("Paris") if documents else says("perhaps", -3.0)

    result = go(router(puppet(act), retriever=Found(found), documents_limit=4), Call.ask("q"))
    assert (result.route, result.value, given) == (Route.RETRIEVE, "Paris", [0, 4])


@pytest.mark.parametrize(
    "found", [None, 5, "abc", {"a": 1}, [None], object(), *WORDLESS], ids=lambda v: type(v).__name__
)
def test_what_is_no_passages_is_decided_upon_again(router, puppet, says, go, found):
    result = go(router(puppet(lambda *_: says("perhaps", -3.0)), retriever=Found(found)), Call.ask("q"))
    assert (result.route, result.state) == (Route.DEFER, RunState.WAITING)


@pytest.mark.parametrize("error", WORDLESS, ids=["silent", "surrogate"])
def test_errors_without_words_pass_through_and_end_their_run(router, puppet, go, error):
    def act(*_):
        raise error

    def tool():
        raise error

    asked = router(puppet(act), "shadow")
    with pytest.raises(type(error)) as told:
        go(asked, Call.ask("q"))
    assert told.value is error
    with pytest.raises(type(error)) as told:
        go(asked, Call(kind="tool", tool_name="t"), tool=Tool("t", tool))
    assert told.value is error
    assert [run.state for run in asked.log.list()] == [RunState.FAILED] * 2


@pytest.mark.parametrize("error", WORDLESS, ids=["silent", "surrogate"])
def test_errors_without_words_of_later_routes_and_probes_are_told_all_the_same(router, puppet, says, go, error):
    class Mute:
        name, needs, stage, cost_rank, signal_names = "mute", frozenset(), Stage.AFTER, 0, ("mute.x",)

        def measure(self, evidence):
            raise error

    def act(*_):
        raise error

    unsure = puppet(lambda *_: says("perhaps", -3.0))
    result = go(router(unsure, larger={"big": puppet(act, "big")}, probes=[Mute()]), Call.ask("q"))
    assert (result.route, result.state) == (Route.DEFER, RunState.WAITING)


@pytest.mark.parametrize("call", ["text", None, 5])
def test_what_is_no_call_is_refused(router, puppet, says, go, call):
    with pytest.raises(ConfigurationError, match="call="):
        go(router(puppet(lambda *_: says())), call)


@pytest.mark.parametrize(
    "options",
    [{"tool": print}, {"proposal": "x"}, {"model": "gpt"}, {"exclude": ["retrieve"]}, {"exclude": {"retrieve": 5}}],
    ids=str,
)
def test_what_does_not_go_with_a_call_is_refused(router, puppet, says, go, options):
    asked = router(puppet(lambda *_: says()))
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        go(asked, Call.ask("q"), **options)
    assert asked.log.list() == []


@pytest.mark.parametrize(
    "options",
    [
        {"model": "gpt"},
        {"model": dict},
        {"settings": {"mode": "shadow"}},
        {"retriever": "x"},
        {"probes": ["x"]},
        {"larger": ["x"]},
        {"larger": {"x": "gpt"}},
        {"documents_limit": "3"},
        {"documents_limit": float("nan")},
        {"documents_limit": True},
        {"artefacts": [None]},
        {"database": 5},
        {"database": ""},
        {"database": "a\0b"},
    ],
    ids=str,
)
def test_what_no_router_can_be_made_of_is_refused_at_construction(tmp_path, options):
    from demur import Router

    with pytest.raises(ConfigurationError, match=next(iter(options))):
        Router(**{"settings": Settings(), "database": tmp_path / "x.db", **options})


def test_a_database_url_that_cannot_be_used_does_not_tell_the_password():
    from demur import Router

    with pytest.raises(ConfigurationError) as told:
        Router(settings=Settings(), database="nosuch://user:se:cr@et@host/x")
    assert "se:cr" not in str(told.value) and "et@" not in str(told.value) and "user:***@host" in str(told.value)


@pytest.mark.parametrize("mode", ["shadow", "enforce"])
def test_halves_of_characters_from_a_model_do_not_break_its_run(router, puppet, says, go, mode):
    asked = router(puppet(lambda *_: says("Par\ud800is")), mode)
    assert go(asked, Call.ask("q")).value == "Par\ufffdis"
    assert asked.log.list()[0].rounds[0].response.text == "Par\ufffdis"


def test_halves_of_characters_from_a_caller_are_bad_input_and_store_nothing(router, puppet, says, go):
    asked = router(puppet(lambda *_: says()))
    with pytest.raises(BadInput, match="nothing was written"):
        go(asked, Call.ask("q\ud800"))
    assert asked.log.list() == []


def test_arguments_may_have_any_name(router, go):
    given: list[dict[str, Any]] = []
    names = dict.fromkeys(("self", "cls", "run_id", "call", "func", "fn", "key", "loop", "args", "kwargs"), 1)
    go(
        router(mode="shadow"),
        Call(kind="tool", tool_name="t", arguments=names),
        tool=Tool("t", lambda **named: given.append(named)),
    )
    assert given == [names]
