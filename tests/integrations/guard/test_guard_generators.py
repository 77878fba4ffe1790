"""Generators under guard: held back until the decision, or emitted at once with the verdict last."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from demur import Abstained, Deferred, Mode, Result, Route
from demur.core.run import RunState

SURE, UNSURE = -0.02, -3.0


class Told:
    """Words by generator, sync and async; notes what was pulled and whether it was closed."""

    def __init__(self, logprob=SURE, error=None):
        self.logprob, self.error, self.pulled, self.closed = logprob, error, [], False

    def words(self, question: str):
        try:
            for word in ("The ", "answer"):
                self.pulled.append(word)
                yield word
            if self.error is not None:
                raise self.error
        finally:
            self.closed = True

    async def later(self, question: str):
        for word in self.words(question):
            await asyncio.sleep(0)
            yield word


@pytest.fixture(params=["sync", "async"])
def stream(request):
    """stream(router, told, **guard options): (the guarded function, collect(it, at most), decide)."""

    def make(house, told, **options):
        options = {"logprobs": lambda items: [told.logprob], "name": "words", **options}
        fn = house.guard(**options)(told.words if request.param == "sync" else told.later)

        def collect(limit=None):
            if request.param == "sync":
                return _some(fn("q"), limit)
            return asyncio.run(_asome(fn("q"), limit))

        def decide():
            return fn.decide("q") if request.param == "sync" else asyncio.run(fn.decide("q"))

        return fn, collect, decide

    return make


def _some(generator, limit):
    items = []
    for item in generator:
        items.append(item)
        if len(items) == limit:
            generator.close()
            break
    return items


async def _asome(generator, limit):
    items = []
    async for item in generator:
        items.append(item)
        if len(items) == limit:
            await generator.aclose()
            break
    return items


@pytest.mark.parametrize("mode", ["shadow", "advise", "enforce"])
def test_a_sure_stream_goes_out_item_by_item(router, stream, mode):
    house, told = router(mode), Told()
    fn, collect, decide = stream(house, told)
    assert collect() == ["The ", "answer"]
    assert decide().value == ["The ", "answer"]
    assert house.log.list()[0].rounds[0].response.text == "The answer"
    assert list(inspect.signature(fn).parameters) == ["question"]


def test_nothing_of_an_unsure_stream_goes_out(router, stream):
    house, told = router(), Told(UNSURE)
    _, collect, decide = stream(house, told)
    with pytest.raises(Deferred):
        collect(1)
    assert told.pulled == ["The ", "answer"]
    assert decide().route is Route.DEFER
    with pytest.raises(Abstained):
        stream(router("enforce", fit=False), Told())[1]()
    _, instead, _ = stream(house, told, on_defer=["please ", "wait"])
    assert instead() == ["please ", "wait"]
    _, instead, _ = stream(house, told, on_defer=lambda result: (word for word in ("call ", "us")))
    assert instead() == ["call ", "us"]
    _, instead, _ = stream(house, told, on_defer="later")
    assert instead() == ["later"]


def test_a_buffered_stream_may_be_left_early(router, stream):
    house, told = router("shadow"), Told()
    _, collect, _ = stream(house, told)
    assert collect(1) == ["The "]
    assert told.closed
    assert [run.state for run in house.log.list()] == [RunState.DONE]


def test_a_stream_that_is_not_read_does_not_run(router, stream):
    house, told = router("shadow"), Told()
    fn, _, _ = stream(house, told)
    iterator = fn("q")
    assert (told.pulled, house.log.list()) == ([], [])
    if hasattr(iterator, "close"):
        iterator.close()


@pytest.mark.parametrize("mode", ["shadow", "advise", "enforce"])
@pytest.mark.parametrize("late", [None, "late"])
def test_errors_pass_through_and_fail_the_run(router, stream, mode, late):
    house, error = router(mode), KeyError("own")
    _, collect, _ = stream(house, Told(error=error), stream=late)
    with pytest.raises(KeyError) as caught:
        collect()
    assert caught.value is error
    assert [(run.state, run.error) for run in house.log.list()] == [(RunState.FAILED, "KeyError: 'own'")]


@pytest.mark.parametrize("mode", ["shadow", "advise", "enforce"])
@pytest.mark.parametrize("logprob", [SURE, UNSURE])
def test_a_late_stream_ends_with_its_verdict(router, stream, mode, logprob):
    house, told = router(mode), Told(logprob)
    _, collect, _ = stream(house, told, stream="late")
    *items, verdict = collect()
    assert items == ["The ", "answer"]
    assert isinstance(verdict, Result)
    assert (verdict.value, verdict.delivered) == (items, True)
    assert (verdict.recommended is Route.ANSWER) == (logprob == SURE)
    assert verdict.mode is (Mode.SHADOW if mode == "shadow" else Mode.ADVISE)
    assert verdict.cost.seconds > 0
    assert house.log.get(verdict.run_id).result.route is Route.ANSWER
    assert house.queue.waiting() == 0


def test_each_item_of_a_late_stream_goes_out_before_the_next_is_made(router):
    told = Told()
    iterator = router().guard(stream="late", name="words")(told.words)("q")
    assert (next(iterator), told.pulled) == ("The ", ["The "])
    iterator.close()


def test_a_late_stream_may_be_left_early(router, stream):
    house, told = router(), Told()
    _, collect, _ = stream(house, told, stream="late")
    assert collect(1) == ["The "]
    assert told.closed
    assert house.log.list() == []


def test_decide_of_a_late_stream_judges_first(router, stream):
    assert stream(router(), Told(UNSURE), stream="late")[2]().route is Route.DEFER


async def test_many_streams_at_once(router):
    house = router()

    async def words(question: str):
        for part in (question, "!"):
            await asyncio.sleep(0)
            yield part

    fn = house.guard(logprobs=lambda _: [SURE])(words)
    streams = await asyncio.gather(*(_asome(fn(str(n)), None) for n in range(20)))
    assert streams == [[str(n), "!"] for n in range(20)]
    assert len(house.log.list(state=RunState.DONE)) == 20
