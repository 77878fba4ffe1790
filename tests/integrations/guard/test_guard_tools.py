"""Tools under guard: decided upon before they run, and run at most once for a key."""

from __future__ import annotations

import asyncio
import threading

import pytest

from demur import BadInput, ConfigurationError, Deferred, Response, Route, TokenTrace
from demur.core.review_item import SafeEnd
from demur.core.run import RunState

SURE, UNSURE = -0.02, -3.0


@pytest.fixture
def paid():
    return []


def refund_of(house, paid, **options):
    def refund(order: str, amount: float = 1.0, logprob: float = SURE):
        paid.append((order, amount))
        return {"paid": amount}

    def proposed(order, amount=1.0, logprob=SURE):
        return Response(trace=TokenTrace(logprobs=(logprob,)))

    options = {"side_effects": "irreversible", "proposal": proposed, "name": "refund", **options}
    return house.guard(**options)(refund)


@pytest.mark.parametrize("mode", ["shadow", "advise", "enforce"])
def test_irreversible_is_enforced_from_the_first_day(router, paid, mode):
    house = router(mode, fit=False)
    refund = refund_of(house, paid)
    with pytest.raises(Deferred) as caught:
        refund("A-17", amount=40.0)
    assert paid == []
    item = house.queue.get(caught.value.review_id)
    assert item.call.arguments == {"order": "A-17", "amount": 40.0, "logprob": SURE}
    assert (item.call.tool_name, item.on_expiry) == ("refund", SafeEnd.REJECT)


def test_unless_the_settings_say_shadow(router, paid):
    house = router("shadow", fit=False, settings={"irreversible": "shadow"})
    assert refund_of(house, paid)("A-17") == {"paid": 1.0}
    assert house.log.list()[0].result.recommended is Route.DEFER


def test_reversible_tools_run_in_shadow_and_wait_when_enforced(router, paid):
    assert refund_of(router("shadow", fit=False), paid, side_effects="reversible")("A") == {"paid": 1.0}
    with pytest.raises(Deferred):
        refund_of(router("enforce", fit=False), paid, side_effects="reversible")("B")
    assert [order for order, _ in paid] == ["A"]


def test_a_tool_is_judged_by_its_proposal(router, paid):
    house = router(settings={"costs": {"wrong": 1.0}})
    refund = refund_of(house, paid)
    assert refund("A", logprob=SURE) == {"paid": 1.0}
    assert refund.decide("B", logprob=UNSURE).state is RunState.WAITING
    assert [order for order, _ in paid] == ["A"]


def test_a_proposal_that_cannot_be_found_defers(router, paid):
    def boom(*_, **__):
        raise LookupError("no message")

    assert refund_of(router(), paid, proposal=boom).decide("A").route is Route.DEFER
    assert refund_of(router(), paid, proposal=lambda *_, **__: None).decide("A").route is Route.DEFER
    with pytest.raises(ConfigurationError, match="returned str"):
        refund_of(router(), paid, proposal=lambda *_, **__: "text")("A")
    assert paid == []


def test_what_the_settings_declare_as_a_tool_is_one(router, paid):
    house = router("shadow", fit=False, settings={"tools": {"refund": {"side_effects": "irreversible"}}})
    plain = house.guard(name="refund")(lambda order: paid.extend([order]))
    with pytest.raises(Deferred):
        plain("A")
    graver = refund_of(house, paid, side_effects="reversible")
    with pytest.raises(Deferred):
        graver("A")
    assert paid == []
    assert house.guard(name="answer")(lambda q: q)("x") == "x"


def test_a_key_has_its_effect_once(router, paid):
    house = router("shadow", fit=False)
    options = {"side_effects": "reversible", "idempotency_key": lambda order, *_, **__: f"refund-{order}"}
    refund = refund_of(house, paid, **options)
    assert [refund("A"), refund("A"), refund("B")] == [{"paid": 1.0}] * 3
    assert [order for order, _ in paid] == ["A", "B"]
    with pytest.raises(BadInput, match="another call"):
        refund("A", 2.0)


@pytest.mark.parametrize(
    "key", [lambda *_, **__: 1 / 0, lambda *_, **__: "", lambda *_, **__: 7, lambda *_, **__: None]
)
def test_without_a_usable_key_the_tool_does_not_run(router, paid, key):
    refund = refund_of(router("shadow", fit=False), paid, side_effects="reversible", idempotency_key=key)
    with pytest.raises(BadInput, match="did not run"):
        refund("A")
    assert paid == []


def test_arguments_that_are_not_json_reach_the_tool_as_they_are(router):
    house, seen = router("shadow", fit=False), []

    class Order:
        pass

    order, deep = Order(), []
    deep.append(deep)

    @house.guard(name="file_order", tool=True, idempotency_key=lambda *_: "k")
    def file_order(order, amounts, deep):
        seen.append((order, amounts, deep))

    for _ in range(2):
        file_order(order, {1: float("nan"), "t": (1, b"x")}, deep)
    assert seen[0][0] is order
    assert seen[0][2] is deep
    assert len(seen) == 1
    stored = house.log.list()[0].call.arguments
    assert stored["order"]["python"].endswith("Order")
    assert " at 0x" not in stored["order"]["repr"]
    assert stored["amounts"] == {
        "1": {"python": "float", "repr": "nan"},
        "t": [1, {"python": "bytes", "repr": "b'x'"}],
    }


async def test_async_and_sync_tools_under_a_loop(router, paid):
    house, threads = router("shadow", fit=False), []

    @house.guard(side_effects="reversible")
    async def later(order: str) -> str:
        threads.append(threading.current_thread() is threading.main_thread())
        await asyncio.sleep(0)
        return order

    assert await later("A") == "A"
    assert threads == [True]
    with pytest.raises(Deferred):
        await house.guard(side_effects="irreversible")(later.__wrapped__)("B")


def test_idempotent_is_handed_on(router):
    house, calls = router("shadow", fit=False), []

    def push(error):
        calls.append(error)
        if len(calls) == 1:
            raise TimeoutError("slow")
        return len(calls)

    options = {"side_effects": "reversible", "idempotency_key": lambda error: "k"}
    with pytest.raises(TimeoutError):
        house.guard(name="push", idempotent=True, **options)(push)("x")
    assert house.effects.get("k").error == "TimeoutError: slow"
    assert len(calls) == 1


def test_on_defer_of_a_tool(router, paid):
    house = router(fit=False)
    refund = refund_of(house, paid, on_defer=lambda result: f"asked a human: {result.review_id}")
    said = refund("A")
    assert house.queue.get(said.removeprefix("asked a human: ")) is not None
    assert paid == []
