"""Functions under guard: called as before, their own type returned, and nothing handed out that was not let through."""

from __future__ import annotations

import asyncio
import functools
import inspect
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from demur import Abstained, CallFailed, ConfigurationError, Deferred, FunctionModel, Mode, Result, Route
from demur.core.errors import ResultNotStored
from demur.core.evidence import Document
from demur.core.run import RunState

SURE, UNSURE = -0.02, -3.0
NO_REVIEW = {"costs": {"review": None}}


@dataclass
class Answer:
    text: str
    logprob: float = SURE


def guarded(router, function=None, **options):
    """Answers with a log-probability, judged by it."""
    options = {"text": lambda a: a.text, "logprobs": lambda a: [a.logprob], **options}

    def ask(question: str, logprob: float = SURE) -> Answer:
        return Answer(f"about {question}", logprob)

    return router.guard(**options)(function or ask)


def test_a_delivered_value_is_what_the_function_returned(router):
    values = [{"a": (1, 2)}, Answer("x"), "text", 7, None, [b"bytes"], object()]
    for mode in ("shadow", "advise"):
        plain = router(mode, fit=False)
        for value in values:
            assert plain.guard()(lambda value=value: value)() is value
    ask = guarded(router())
    assert ask("Paris") == Answer("about Paris")
    result = ask.decide("Paris")
    assert isinstance(result, Result)
    assert (result.value, result.route, result.delivered) == (Answer("about Paris"), Route.ANSWER, True)


def test_an_unsure_answer_raises_and_is_kept_for_the_reviewer(router):
    house = router()
    ask = guarded(house, name="ask")
    with pytest.raises(Deferred, match="deferred to a human") as caught:
        ask("Rome", UNSURE)
    item = house.queue.get(caught.value.review_id)
    assert (item.proposed, item.call.question) == ("about Rome", "Rome")
    assert caught.value.result.run_id == item.run_id
    assert ask.decide("Rome", UNSURE).state is RunState.WAITING
    strict = guarded(router(settings=NO_REVIEW))
    with pytest.raises(Abstained) as abstained:
        strict("Rome", UNSURE)
    assert abstained.value.result.route is Route.ABSTAIN


@pytest.mark.parametrize(("option", "settings"), [("on_defer", {}), ("on_abstain", NO_REVIEW)])
def test_what_to_do_instead(router, option, settings):
    house = router(settings=settings)
    assert guarded(house, **{option: "ask a colleague"})("Rome", UNSURE) == "ask a colleague"
    assert guarded(house, **{option: None})("Rome", UNSURE) is None
    assert guarded(house, **{option: lambda result: ("said", result.route.value)})("Rome", UNSURE)[0] == "said"
    with pytest.raises((Deferred, Abstained)):
        guarded(house, **{option: "raise"})("Rome", UNSURE)

    async def later(result):
        await asyncio.sleep(0)
        return result.run_id

    async def ask(question: str) -> Answer:
        return Answer(question, UNSURE)

    run_id = asyncio.run(guarded(house, ask, **{option: later})("Rome"))
    assert house.log.get(run_id).call.question == "Rome"


async def test_async_functions(router):
    house = router()

    async def ask(question: str, logprob: float = SURE) -> Answer:
        """Asks."""
        await asyncio.sleep(0)
        return Answer(question, logprob)

    fn = guarded(house, ask)
    assert asyncio.iscoroutinefunction(fn)
    if hasattr(inspect, "markcoroutinefunction"):
        assert inspect.iscoroutinefunction(fn)
    assert await fn("Paris") == Answer("Paris")
    with pytest.raises(Deferred):
        await fn("Rome", UNSURE)
    assert (await fn.decide("Rome", logprob=UNSURE)).route is Route.DEFER


async def test_a_future_that_an_async_function_returns_stays_one(router):
    future = asyncio.get_running_loop().create_future()

    @router("shadow", fit=False).guard()
    async def give():
        return future

    assert await give() is future
    future.cancel()


@pytest.mark.parametrize("mode", ["shadow", "advise", "enforce"])
@pytest.mark.parametrize("error", [KeyError("own"), StopIteration("own"), SystemExit(2)])
def test_errors_of_the_function_pass_through_unchanged(router, mode, error):
    house = router(mode)

    @house.guard()
    def fails(question: str) -> str:
        raise error

    with pytest.raises(type(error)) as caught:
        fails("x")
    assert caught.value is error
    with pytest.raises(type(error)):
        fails.decide("x")
    assert [run.state for run in house.log.list()] == [RunState.FAILED] * 2


@pytest.mark.parametrize("mode", ["shadow", "enforce"])
async def test_errors_of_async_functions_pass_through_unchanged(router, mode):
    house, error = router(mode), ValueError("own")

    @house.guard(name="fails")
    async def fails():
        raise error

    with pytest.raises(ValueError, match="own") as caught:
        await fails()
    assert caught.value is error
    assert [run.error for run in house.log.list()] == ["ValueError: own"]


def test_it_looks_like_the_function(router):
    def ask(question: str, *, temperature: float = 0.0) -> str:
        """Asks."""
        return question

    ask.options, ask._router = "the function's own", "too"
    fn = router("shadow").guard(name="ask")(ask)
    assert inspect.signature(fn) == inspect.signature(ask)
    assert (fn.__name__, fn.__doc__, fn.__module__, fn.__wrapped__) == ("ask", "Asks.", __name__, ask)
    assert fn.__qualname__ == ask.__qualname__
    assert fn.options.name == "ask"
    assert fn("x") == "x"
    with pytest.raises(TypeError, match="missing a required argument"):
        fn()
    assert "guarded ask" in repr(fn)


def test_methods(router):
    house = router("shadow", fit=False)

    class Desk:
        def __init__(self, name):
            self.name = name

        @house.guard()
        def answer(self, question: str) -> str:
            return f"{self.name}: {question}"

        @house.guard()
        async def later(self, question: str) -> str:
            return f"{self.name}: {question}"

        @classmethod
        @house.guard()
        def below(cls, question: str) -> str:
            return f"{cls.__name__}: {question}"

        @house.guard()
        @classmethod
        def above(cls, question: str) -> str:
            return f"{cls.__name__}: {question}"

        @staticmethod
        @house.guard()
        def static(question: str) -> str:
            return question

        @house.guard()
        @staticmethod
        def static_below(question: str) -> str:
            return question

    class Other(Desk):
        pass

    one, two = Desk("one"), Desk("two")
    assert (one.answer("a"), two.answer("b")) == ("one: a", "two: b")
    assert Desk.answer(one, "c") == "one: c"
    assert one.answer.decide("a").value == "one: a"
    assert list(inspect.signature(one.answer).parameters) == ["question"]
    assert asyncio.run(two.later("d")) == "two: d"
    assert asyncio.iscoroutinefunction(two.later)
    for owner in (Desk, one):
        assert (owner.below("x"), owner.above("x")) == ("Desk: x", "Desk: x")
        assert owner.above.decide("x").value == "Desk: x"
        assert (owner.static("x"), owner.static_below("y")) == ("x", "y")
    assert Other.above("x") == "Other: x"
    names = {run.call.question for run in house.log.list()}
    assert names == {"a", "b", "c", "d", "x", "y"}


def test_what_was_asked(router, caplog):
    house = router("shadow", fit=False)

    def question_of(function, *args, **options):
        house.guard(**options)(function)(*args)
        return house.log.list()[0].call.question

    assert question_of(lambda n, text: text, 3, "first text") == "first text"
    assert question_of(lambda a, b=2: a, 1) == '{"a":1,"b":2}'
    assert question_of(lambda a: a, {"q": "x"}, question=lambda a: a["q"]) == "x"
    assert question_of(lambda a: a, "fallback", question=lambda a: a["q"]) == "fallback"
    assert "guard(question=...)" in caplog.text
    assert question_of(lambda a: a, "lone \ud800 surrogate") == "lone \ufffd surrogate"
    assert question_of(lambda a: 1, object()) == '{"a":{"python":"object","repr":"<object object>"}}'


def boom(*_):
    raise ZeroDivisionError("extractor")


@pytest.mark.parametrize(
    "options",
    [
        {"text": boom},
        {"text": lambda _: 5},
        {"logprobs": boom},
        {"logprobs": lambda _: [float("nan")]},
        {"logprobs": lambda _: []},
        {"question": boom},
    ],
)
def test_extractors_that_fail_are_missing_signals(router, options):
    shadow = router("shadow").guard(**options)(lambda q: {"answer": q})
    assert shadow("Paris") == {"answer": "Paris"}
    house = router()
    strict = house.guard(**options)(lambda q: {"answer": q})
    with pytest.raises(Abstained, match="there is no confidence"):
        strict("Paris")
    assert house.log.list()[0].rounds[0].response.text == "{'answer': 'Paris'}"


def test_a_value_without_text_does_not_break_the_function(router):
    class Silent:
        def __str__(self):
            raise ValueError("no text")

        __repr__ = __str__

    value = Silent()
    assert router("shadow", fit=False).guard()(lambda v: v)(value) is value


def test_documents_go_where_the_function_takes_them(router):
    class Retriever:
        def retrieve(self, query, *, limit=5):
            return (Document(id="1", text="Paris"),)

        async def aretrieve(self, query, *, limit=5):
            return self.retrieve(query)

    house = router(retriever=Retriever())
    seen = []

    def ask(question: str, passages: tuple = (), **rest) -> Answer:
        seen.append(passages)
        return Answer(question, SURE if passages else UNSURE)

    fn = guarded(house, ask, documents="passages")
    for arguments in (("Capital?",), ("Capital?", ())):
        seen.clear()
        result = fn.decide(*arguments)
        assert (result.route, result.value.logprob) == (Route.RETRIEVE, SURE)
        assert [len(given) for given in seen] == [0, 1]
    extra = guarded(house, lambda q, **rest: Answer(q, SURE if rest else UNSURE), documents="found")
    assert extra.decide("Capital?").route is Route.RETRIEVE
    without = guarded(house)
    assert without.decide("Capital?", UNSURE).route is Route.DEFER

    def fails_on_passages(question: str, passages: tuple = ()) -> Answer:
        if passages:
            raise KeyError("own")
        return Answer(question, UNSURE)

    with pytest.raises(KeyError, match="own"):
        guarded(house, fails_on_passages, documents="passages")("Capital?")


def test_a_larger_models_text_becomes_the_functions_own_type(router):
    big = FunctionModel(lambda question: "Paris", name="big")
    prices = {"costs": {"escalate": {"big": 0.01}}}
    house = router(larger={"big": big}, settings=prices)
    built = guarded(house, build=lambda text: Answer(text, 0.0))
    assert built("Capital?", UNSURE) == Answer("Paris", 0.0)
    assert built.decide("Capital?", UNSURE).route is Route.ESCALATE
    assert guarded(house).decide("Capital?", UNSURE).route is Route.DEFER

    @house.guard(logprobs=lambda _: [UNSURE])
    def text(question: str) -> str:
        return "Rome"

    assert text("Capital?") == "Paris"


def test_an_answer_with_a_key_is_given_again(router):
    house, asked = router("shadow", fit=False), []

    @house.guard(idempotency_key=lambda q: f"key {q}")
    def ask(q: str) -> str:
        asked.append(q)
        return f"answer {len(asked)}"

    assert (ask("a"), ask("a"), ask("b")) == ("answer 1", "answer 1", "answer 2")

    @house.guard(idempotency_key=lambda q: f"built {q}", build=lambda text: {"text": text}, text=lambda v: v["text"])
    def build(q):
        return {"text": q}

    assert build("a") == build("a") == {"text": "a"}


def test_twenty_threads_each_get_their_own(router):
    fn = guarded(router())
    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(lambda n: fn(str(n)).text, range(20))) == [f"about {n}" for n in range(20)]


async def test_twenty_tasks_each_get_their_own(router):
    async def ask(question: str) -> Answer:
        await asyncio.sleep(0)
        return Answer(question)

    fn = guarded(router(), ask)
    answers = await asyncio.gather(*(fn(str(n)) for n in range(20)))
    assert [answer.text for answer in answers] == [str(n) for n in range(20)]


def test_partials_and_callable_objects(router):
    house = router("shadow", fit=False)

    class Asker:
        async def __call__(self, q: str) -> str:
            return q

    def ask(prefix: str, q: str) -> str:
        return prefix + q

    assert house.guard()(functools.partial(ask, "a"))("b") == "ab"
    assert asyncio.run(house.guard()(Asker())("x")) == "x"
    assert house.guard()(Asker()).options.name.endswith("Asker")
    assert house.guard()(ask).options.name == "ask"


def test_an_unfinished_value_is_refused(router):
    house = router("shadow", fit=False)

    async def later():
        return 1

    for unfinished in (lambda: [later()][0], lambda: (n for n in [1])):
        with pytest.raises(ConfigurationError, match="plain function that returned a"):
            house.guard(name="f")(unfinished)()


def answers(q, docs=None):
    return q


def gives(q):
    yield q


async def later_end(result):
    return None


@pytest.mark.parametrize(
    ("function", "options", "says"),
    [
        (answers, {"text": "not callable"}, "text='not callable'"),
        (answers, {"stream": "late"}, "not a generator"),
        (gives, {"stream": "soon"}, "'late'"),
        (gives, {"side_effects": "reversible"}, "tool and a generator"),
        (gives, {"tool": True, "stream": "late"}, "cannot be taken back"),
        (answers, {"side_effects": "some"}, "none, reversible, irreversible"),
        (answers, {"proposal": lambda q: None}, "only tools"),
        (answers, {"idempotent": True}, "only tools"),
        (answers, {"idempotent": "yes", "tool": True}, "True or False"),
        (answers, {"documents": "passages"}, "no such keyword"),
        (answers, {"documents": 5}, "name of a keyword"),
        (answers, {"task": ""}, "1 to 200"),
        (answers, {"name": "x" * 201}, "1 to 200"),
        (answers, {"tool": True, "text": str}, "a tool is judged by its proposal"),
        (answers, {"on_defer": later_end}, "nobody would await"),
        (gives, {"on_abstain": later_end}, "nobody would await"),
        (answers, {"idempotency_key": lambda q: "k"}, "only the text is kept"),
        (gives, {"stream": "late", "idempotency_key": lambda q: "k"}, "has run before its key"),
        (int, {}, "functions and methods"),
        (5, {}, "functions and methods"),
    ],
)
def test_options_that_cannot_work_are_refused_at_decoration(router, function, options, says):
    with pytest.raises(ConfigurationError, match=says):
        router("shadow", fit=False).guard(**options)(function)


def test_a_guard_around_a_guard_is_refused(router):
    house = router("shadow", fit=False)
    with pytest.raises(ConfigurationError, match="guarded already"):
        house.guard()(house.guard()(answers))


def test_a_failed_run_under_its_key_is_reported(router):
    house = router("shadow", fit=False)

    @house.guard(tool=True, idempotency_key=lambda: "k")
    def fails():
        raise OSError("down")

    with pytest.raises(OSError, match="down"):
        fails()
    with pytest.raises(CallFailed, match="down"):
        fails()
    assert fails.decide().state is RunState.FAILED

    @house.guard(tool=True, idempotency_key=lambda: "other")
    def opaque():
        return {1, 2}

    assert opaque() == {1, 2}
    with pytest.raises(ResultNotStored, match="set"):
        opaque()
    assert opaque.decide().mode is Mode.SHADOW
