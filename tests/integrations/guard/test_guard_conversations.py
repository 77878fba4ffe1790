"""Which conversation a decorated function's call belongs to, and what kind of turn its answer is."""

from __future__ import annotations

import asyncio
import logging
from uuid import UUID

import pytest

from demur import Abstained, ConfigurationError, Deferred
from demur.core.turn import TurnKind


def conversation_of(house, result):
    return house.log.get(result.run_id).call.conversation_id


def test_a_parameter_s_name_or_a_callable_gives_the_id(router):
    house = router("shadow", fit=False)

    @house.guard(conversation="thread")
    def named(thread: str, text: str) -> str:
        return text

    @house.guard(conversation=lambda text, *, where: where["thread"])
    def called(text: str, *, where: dict) -> str:
        return text

    @house.guard(conversation="thread")
    def gathered(text: str, **more) -> str:
        return text

    assert conversation_of(house, named.decide("t-1", "hello")) == "t-1"
    assert conversation_of(house, named.decide(text="hello", thread="t-2")) == "t-2"
    assert conversation_of(house, called.decide("hello", where={"thread": "t-3"})) == "t-3"
    assert conversation_of(house, gathered.decide("hello", thread="t-4")) == "t-4"
    assert conversation_of(house, gathered.decide("hello")) is None
    assert [run.call.question for run in house.log.list(conversation_id="t-1")] == ["hello"]


def test_the_id_is_not_taken_for_the_question(router):
    house = router("shadow", fit=False)

    @house.guard(conversation="thread")
    def reply(thread: str, text: str) -> str:
        return text

    assert house.log.get(reply.decide("t-1", "hello").run_id).call.question == "hello"


def test_every_kind_of_function_carries_it(router):
    house = router("shadow", fit=False)

    class Desk:
        @house.guard(conversation="thread")
        def reply(self, text: str, thread: str) -> str:
            return text

    @house.guard(conversation="thread")
    async def areply(text: str, thread: str) -> str:
        return text

    @house.guard(conversation="thread")
    def words(text: str, thread: str):
        yield text

    @house.guard(conversation="thread", side_effects="reversible")
    def pay(order: str, thread: str) -> str:
        return order

    results = [
        Desk().reply.decide("a", "c"),
        asyncio.run(areply.decide("a", "c")),
        words.decide("a", "c"),
        pay.decide("a", "c"),
    ]
    assert [conversation_of(house, result) for result in results] == ["c"] * 4


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("t", "t"),
        (17, "17"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ("x" * 200, "x" * 200),
        (None, None),
        ("", None),
        ("x" * 201, None),
        (True, None),
        (1.5, None),
        (["t"], None),
        ("\ud800", None),
        (10**300, None),
    ],
    ids=lambda value: str(type(value).__name__),
)
def test_what_is_no_id_is_reported_and_the_function_runs(router, caplog, value, kept):
    house = router("shadow", fit=False)

    @house.guard(conversation="thread")
    def reply(text: str, thread: object) -> str:
        return text

    with caplog.at_level(logging.WARNING, logger="demur"):
        result = reply.decide("hello", value)
    assert result.value == "hello"
    assert conversation_of(house, result) == kept
    assert ("gave no id" in caplog.text) == (kept is None and value is not None)


def test_an_extractor_that_raises_does_not_break_the_function(router, caplog):
    house = router("shadow", fit=False)

    @house.guard(conversation=lambda text: {}["thread"])
    def reply(text: str) -> str:
        return text

    with caplog.at_level(logging.WARNING, logger="demur"):
        assert reply("hello") == "hello"
    assert "guard(conversation=...)" in caplog.text


@pytest.mark.parametrize("wrong", ["thraed", "self", "args", 3, b"thread", ["thread"]], ids=str)
def test_what_cannot_give_an_id_is_refused_at_decoration(router, wrong):
    def reply(self, text: str, *args: str, thread: str = "") -> str:
        return text

    with pytest.raises(ConfigurationError, match="conversation"):
        router("shadow", fit=False).guard(conversation=wrong)(reply)


def test_several_deferred_calls_of_one_conversation_are_one_entry(router):
    house = router(settings={"review": {"capacity": 1}})

    @house.guard(logprobs=lambda text: [-3.0], conversation="thread")
    def reply(text: str, thread: str) -> str:
        return text

    for text in ("first", "second", "third"):
        with pytest.raises(Deferred):
            reply(text, "t-1")
    assert (house.queue.waiting(), len(house.queue.list())) == (1, 3)
    with pytest.raises(Abstained):
        reply("fourth", "t-2")


def test_the_result_says_its_kind_of_turn(router):
    reply = router("shadow", fit=False).guard()(lambda text: text)
    assert reply.decide("Paris").turn is TurnKind.ANSWER
    assert reply.decide("I don't know.").turn is TurnKind.REFUSAL
    assert reply.decide("Which order do you mean?").turn is TurnKind.CLARIFICATION


def test_a_refusal_goes_out_where_the_settings_say_so(router):
    house = router(fit=False, settings={"turns": {"refusal": "deliver"}})
    reply = house.guard()(lambda text: text)
    assert reply("I don't know.") == "I don't know."
    with pytest.raises(Abstained):
        reply("Paris")
    with pytest.raises(Abstained):
        reply("Which order do you mean?")
