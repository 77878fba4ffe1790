"""Guarded functions and humans: waiting for them, and carrying out what they let through from the log."""

from __future__ import annotations

import asyncio
import threading

import pytest

from demur import Abstained, BadInput, ConfigurationError, Deferred, TokenTrace
from demur.core.errors import StillWaiting
from demur.core.run import RunState
from demur.integrations.guard.logged import not_in_log, to_its_end, use_of
from demur.router.site import Tool
from demur.testing import FrozenRouter, Reviewer

WAITS = {"on_defer": "wait", "wait_timeout": 30.0}


@pytest.fixture(params=["sync", "async"])
def guarded(request):
    """guarded(router, function, **options): called, decided and resumed alike, sync or async."""

    def make(router, function, **options):
        if request.param == "sync":
            return router.guard(**options)(function)

        async def later(*args, **kwargs):
            await asyncio.sleep(0)
            return function(*args, **kwargs)

        later.__wrapped__, later.__qualname__ = function, function.__qualname__
        decorated = router.guard(**options)(later)

        def call(*args, **kwargs):
            return asyncio.run(decorated(*args, **kwargs))

        call.resume = lambda *args, **kwargs: asyncio.run(decorated.resume(*args, **kwargs))
        return call

    return make


def when_waiting(router, act):
    """Let the reviewer act as soon as something waits; the bell wakes nobody for that, so look now and then."""
    reviewer, done = Reviewer(router, "ada"), threading.Event()

    def work():
        while not reviewer.waiting() and not done.wait(0.01):
            pass
        act(reviewer)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def refunding(paid):
    def refund(order: str, amount: float = 1.0, note: object = None) -> str:
        paid.append((order, amount, note))
        return f"paid {amount}"

    return refund


def test_a_tool_waits_and_runs_with_its_own_arguments(guarded):
    router, paid, note = FrozenRouter(), [], object()
    refund = guarded(router, refunding(paid), side_effects="irreversible", **WAITS)
    thread = when_waiting(router, lambda reviewer: reviewer.approve())
    assert refund("A-17", amount=2.5, note=note) == "paid 2.5"
    thread.join()
    assert paid == [("A-17", 2.5, note)]


def test_what_a_reviewer_changed_is_changed_and_the_rest_is_as_it_was(guarded):
    router, paid, note = FrozenRouter(), [], object()
    refund = guarded(router, refunding(paid), side_effects="irreversible", **WAITS)

    def act(reviewer):
        (item,) = reviewer.waiting()
        reviewer.edit(arguments={**item.call.arguments, "amount": 3})

    thread = when_waiting(router, act)
    assert refund("A-17", 2.5, note) == "paid 3"
    thread.join()
    assert paid == [("A-17", 3, note)]
    assert type(paid[0][1]) is int


def test_a_rejection_ends_the_waiting(guarded):
    router, paid = FrozenRouter(), []
    refund = guarded(router, refunding(paid), side_effects="irreversible", **WAITS)
    thread = when_waiting(router, lambda reviewer: reviewer.reject(note="not this one"))
    with pytest.raises(Abstained, match="not this one"):
        refund("A-17")
    thread.join()
    assert paid == []


def test_the_wait_has_an_end(guarded):
    router = FrozenRouter()
    refund = guarded(router, refunding([]), side_effects="irreversible", on_defer="wait", wait_timeout=0)
    with pytest.raises(StillWaiting) as waiting:
        refund("A-17")
    (item,) = Reviewer(router).waiting()
    assert (waiting.value.run_id, waiting.value.review_id) == (item.run_id, item.id)


@pytest.mark.parametrize(("said", "wanted"), [(None, ["Par", "is"]), ("Rome", ["Rome"]), ("Paris", ["Par", "is"])])
def test_an_approved_answer_is_the_function_s_own_and_a_corrected_one_is_built(said, wanted):
    router = FrozenRouter(settings=_asking())

    @router.guard(build=lambda text: [text], **WAITS)
    def answer(question: str):
        return ["Par", "is"]

    thread = when_waiting(router, lambda one: one.approve() if said is None else one.edit(answer=said))
    assert answer("Capital?") == wanted
    thread.join()


def _asking():
    from demur import Settings

    return Settings(mode="enforce", policy={"fallback_answers": "defer"})


def test_generators_wait_too():
    router = FrozenRouter(settings=_asking())

    @router.guard(build=lambda text: [text], **WAITS)
    def words(question: str):
        yield from ("Par", "is")

    thread = when_waiting(router, lambda one: one.approve())
    assert list(words("Capital?")) == ["Par", "is"]
    thread.join()


@pytest.mark.parametrize("value", ["later", "waiting", "", None, {"wait": 1}])
def test_any_other_value_is_given_back_as_it_is(value):
    router = FrozenRouter()

    @router.guard(side_effects="irreversible", on_defer=value)
    def refund(order):
        raise AssertionError

    assert refund("A") == value


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"wait_timeout": 3.0}, "only with on_defer='wait'"),
        ({"on_defer": "wait", "wait_timeout": -1.0, "side_effects": "reversible"}, "at least 0"),
        ({"on_defer": "wait", "wait_timeout": float("nan"), "side_effects": "reversible"}, "at least 0"),
        ({"on_defer": "wait", "wait_timeout": True, "side_effects": "reversible"}, "at least 0"),
        ({"on_defer": "wait"}, "-> str"),
    ],
)
def test_what_cannot_wait_is_refused_at_once(options, said):
    def function(question):
        return question

    with pytest.raises(ConfigurationError, match=said):
        FrozenRouter().guard(**options)(function)


def test_a_late_stream_cannot_wait():
    def words(question):
        yield question

    with pytest.raises(ConfigurationError, match="late"):
        FrozenRouter().guard(on_defer="wait", stream="late", build=str)(words)


def deferred(function, *args, **kwargs):
    with pytest.raises(Deferred) as waiting:
        function(*args, **kwargs)
    return waiting.value.result.run_id


def test_calling_again_under_the_key_carries_out_what_was_approved(guarded):
    router, paid, note = FrozenRouter(), [], object()
    options = {"side_effects": "irreversible", "idempotency_key": lambda order, *_: f"refund-{order}"}
    refund = guarded(router, refunding(paid), **options)
    deferred(refund, "A", 2.0, note)
    deferred(refund, "A", 2.0, note)
    Reviewer(router).approve()
    assert [refund("A", 2.0, note) for _ in range(2)] == ["paid 2.0"] * 2
    assert paid == [("A", 2.0, note)]


def test_arguments_that_are_not_in_the_log_are_asked_for(guarded):
    router, paid = FrozenRouter(), []
    refund = guarded(router, refunding(paid), name="refund", side_effects="irreversible")
    message = TokenTrace(logprobs=(-0.1,))
    run_id = deferred(refund, "A", 2.0, message)
    Reviewer(router).approve()
    with pytest.raises(BadInput, match=r"'note' \(TokenTrace\) was no JSON.*refund.resume\(run_id, note="):
        router.resume(run_id)
    with pytest.raises(BadInput, match="'order' is in the log"):
        refund.resume(run_id, order="B", note=message)
    assert (paid, router.log.get(run_id).state) == ([], RunState.WAITING)
    assert refund.resume(run_id, note=message).value == "paid 2.0"
    assert paid == [("A", 2.0, message)]
    assert router.resume(run_id).value == "paid 2.0"


def test_a_sentinel_default_is_no_missing_argument():
    router, used, nothing = FrozenRouter(), [], object()

    @router.guard(side_effects="irreversible")
    def act(a, /, b, *rest, c=nothing, **more):
        used.append((a, b, rest, c, more))
        return "done"

    run_id = deferred(act, 1, 2, 3, 4, d=5)
    Reviewer(router).approve()
    assert router.resume(run_id).value == "done"
    assert used == [(1, 2, (3, 4), nothing, {"d": 5})]


def test_a_method_is_resumed_through_its_instance():
    router, paid = FrozenRouter(), []

    class Shop:
        def __init__(self, name):
            self.name = name

        @router.guard(name="refund", side_effects="irreversible")
        def refund(self, order):
            paid.append((self.name, order))
            return "paid"

    shop = Shop("north")
    run_id = deferred(shop.refund, "A")
    Reviewer(router).approve()
    with pytest.raises(ConfigurationError, match="keeps waiting"):
        router.resume(run_id)
    assert shop.refund.resume(run_id).value == "paid"
    assert paid == [("north", "A")]


def test_an_answer_is_resumed_in_its_own_type():
    router = FrozenRouter(settings=_asking())

    @router.guard(build=lambda text: [text])
    def answer(question: str):
        return ["Par", "is"]

    run_id = deferred(answer, "Capital?")
    with pytest.raises(StillWaiting):
        answer.resume(run_id)
    Reviewer(router).edit(answer="Rome")
    assert answer.resume(run_id).value == ["Rome"]
    with pytest.raises(BadInput, match="not called again"):
        answer.resume(run_id, question="?")


def test_an_edit_that_does_not_fit_the_function_fails_and_says_so():
    router, paid = FrozenRouter(), []
    router.guard(name="refund", side_effects="irreversible")(refunding(paid))
    call = router.guard(name="refund", side_effects="irreversible")(refunding(paid))
    run_id = deferred(call, "A")
    Reviewer(router).edit(arguments={"order": "A", "amuont": 3})
    with pytest.raises(TypeError, match="amuont"):
        router.resume(run_id)
    result = router.resume(run_id)
    assert (result.state, paid) == (RunState.FAILED, [])
    assert "amuont" in result.reason


def test_an_edit_into_a_guarded_tool_knows_what_that_does_to_the_world():
    """Nothing about it stands in the settings: what the decorator says counts."""
    router, deleted = FrozenRouter(), []

    @router.guard(name="delete", side_effects="irreversible")
    def delete(order):
        deleted.append(order)
        return "gone"

    @router.guard(name="refund", side_effects="reversible")
    def refund(order):
        raise AssertionError

    run_id = deferred(refund, "A")
    Reviewer(router, "ada").edit(tool_name="delete", arguments={"order": "A"})
    assert router.resume(run_id).state is RunState.WAITING
    assert deleted == []
    Reviewer(router, "bob").approve()
    assert (router.resume(run_id).value, deleted) == ("gone", ["A"])


def test_a_tool_of_which_nobody_said_anything_is_as_grave_as_the_first():
    router, used = FrozenRouter(), []

    @router.guard(name="refund", side_effects="irreversible")
    def refund(order):
        raise AssertionError

    def unknown(**arguments):
        used.append(arguments)
        return "used"

    router.register_tool(Tool("unknown", run=unknown))
    run_id = deferred(refund, "A")
    Reviewer(router).edit(tool_name="unknown", arguments={})
    assert (router.resume(run_id).state, used) == (RunState.WAITING, [])


async def test_an_async_function_is_resumed_from_sync_code_beside_a_running_loop():
    router = FrozenRouter()

    @router.guard(name="refund", side_effects="irreversible")
    async def refund(order):
        await asyncio.sleep(0)
        return f"paid {order}"

    with pytest.raises(Deferred) as waiting:
        await refund("A")
    Reviewer(router).approve()
    assert router.resume(waiting.value.result.run_id).value == "paid A"

    async def fails():
        raise OSError("no bank")

    with pytest.raises(OSError, match="no bank"):
        to_its_end(fails)


def test_use_of_puts_arguments_back_where_they_belong():
    def function(a, /, b, *rest, c=1, **more):
        return a, b, rest, c, more

    args, kwargs = use_of(function, {"a": 1, "b": 2, "rest": [3], "c": 4, "more": {"d": 5}}, {})
    assert function(*args, **kwargs) == (1, 2, (3,), 4, {"d": 5})
    assert not_in_log(function, {"a": {"x": [{"python": "T", "repr": "t"}]}, "b": 2}) == {"a": ""}
    assert not_in_log(function, {"b": [1, "… cut: 9 items in all"]}) == {"b": "in part"}
