"""Shadow mode changes neither what a function returns nor what it raises, whatever it is given."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import functools
import pickle
from typing import Any

import pytest

from demur import Router, Settings
from demur.core.errors import BadInput
from demur.core.run import RunState

SHADOW = Router(settings=Settings(mode="shadow"), database=":memory:", seed=1)


@SHADOW.guard()
def same(x: Any = None, *args: Any, **named: Any) -> Any:
    """Module level, so that pickle finds it by name."""
    return x


class Loud:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Shut(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("no items")


class BadKey:
    def __str__(self) -> str:
        raise RuntimeError("no key")


def _fan() -> list[Any]:
    """A list that holds itself a dozen times: 12 to the power of the depth."""
    fan: list[Any] = []
    fan.extend([fan] * 12)
    return fan


HOSTILE = [
    10**5000,
    {"a": [10**5000]},
    Loud(),
    Shut(a=1),
    {BadKey(): 1},
    _fan(),
    list(range(150_000)),
    "\ud800",
    b"\xff",
]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: type(value).__name__)
def test_any_argument_and_value_passes(value):
    assert same(value) is value
    assert same([value])[0] is value
    assert same.decide({"deep": value}).value["deep"] is value


def test_a_cut_argument_says_that_it_is_cut(tmp_path):
    router = Router(settings=Settings(mode="shadow"), database=tmp_path / "x.db")

    @router.guard(tool=True)
    def act(items):
        return len(items)

    assert act(list(range(150_000))) == 150_000
    stored = router.log.list()[0].call.arguments["items"]
    assert len(stored) < 150_000 and stored[-1] == "… cut: 150000 items in all"


def test_any_name_of_an_argument_passes():
    @SHADOW.guard()
    def named(self, run_id, call):
        return self, run_id, call

    assert named(self=1, run_id=2, call=3) == (1, 2, 3)
    assert named.decide(self=1, run_id=2, call=3).value == (1, 2, 3)
    assert same(1, self=2, cls=3) == 1


def test_a_decorator_below_may_hand_in_arguments():
    def with_database(function):
        @functools.wraps(function)
        def inner(*args, **named):
            return function("db", *args, **named)

        return inner

    @SHADOW.guard()
    @with_database
    def ask(database, question):
        return f"{database}: {question}"

    assert ask("q") == "db: q"
    assert ask(question="q") == "db: q"
    with pytest.raises(TypeError):
        ask()


def test_what_a_generator_returns_is_kept():
    @SHADOW.guard()
    def buffered():
        yield "a"
        return "end"

    @SHADOW.guard(stream="late")
    def late():
        yield "a"
        return "end"

    def delegating(function, got):
        got.append((yield from function()))

    for function in (buffered, late):
        got: list[Any] = []
        first, *_ = delegating(function, got)
        assert first == "a"
        assert got == ["end"]


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


ERRORS = [
    Silent(),
    ValueError("\ud800"),
    RecursionError("deep"),
    MemoryError(),
    KeyboardInterrupt(),
    SystemExit(3),
    GeneratorExit(),
    StopAsyncIteration(),
    asyncio.CancelledError(),
    BaseException("b"),
    BaseExceptionGroup("g", [KeyboardInterrupt()]),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_any_error_passes_as_it_is_and_leaves_no_open_run(tmp_path, error):
    router = Router(settings=Settings(mode="shadow"), database=tmp_path / "x.db")

    def fail():
        raise error

    def stream():
        yield 1
        raise error

    for function in (router.guard()(fail), router.guard(tool=True)(fail), lambda: list(router.guard()(stream)())):
        with pytest.raises(BaseException) as told:
            function()
        assert told.value is error
    ended = {RunState.FAILED, RunState.UNKNOWN}
    assert len(router.log.list()) == 3 and {run.state for run in router.log.list()} <= ended


def test_copies_and_pickles_are_those_of_a_function():
    assert pickle.loads(pickle.dumps(same)) is same
    assert copy.copy(same) is same and copy.deepcopy({"f": same})["f"] is same


class Agent:
    def __init__(self) -> None:
        self.name = "a"

    @SHADOW.guard()
    def ask(self, question: str) -> str:
        return f"{self.name} {question}"


def test_bound_methods_compare_copy_and_pickle_with_their_instance():
    agent = Agent()
    assert agent.ask == agent.ask and hash(agent.ask) == hash(agent.ask)
    assert agent.ask != Agent().ask
    other = copy.deepcopy(agent.ask)
    agent.name = "changed"
    assert other("q") == "a q"
    assert pickle.loads(pickle.dumps(agent.ask))("q") == "changed q"


def test_methods_of_subclasses_and_dataclasses():
    class Base:
        @SHADOW.guard()
        def ask(self, question):
            return f"base {question}"

        @classmethod
        @SHADOW.guard()
        def make(cls, question):
            return f"{cls.__name__} {question}"

    class Sub(Base):
        @SHADOW.guard()
        def ask(self, question):
            return f"sub {super().ask(question)}"

        @classmethod
        def make(cls, question):
            return f"sub {super().make(question)}"

    @dataclasses.dataclass(frozen=True, slots=True)
    class Point:
        x: int

        @SHADOW.guard()
        def ask(self, question: str = "q") -> str:
            return f"{self.x} {question}"

    assert Sub().ask("q") == Sub.ask(Sub(), "q") == "sub base q"
    assert Sub.make("q") == "sub Sub q"
    assert Point(3).ask() == "3 q"


@pytest.mark.parametrize("key", ["\ud800", "k" * 201, "", 5, Loud()], ids=["surrogate", "long", "empty", "int", "loud"])
def test_without_a_key_that_can_be_told_from_others_the_tool_does_not_run(tmp_path, key):
    router = Router(settings=Settings(irreversible="shadow"), database=tmp_path / "x.db")
    ran = []

    @router.guard(side_effects="irreversible", idempotency_key=lambda: key)
    def pay():
        ran.append(1)

    with pytest.raises(BadInput, match="did not run"):
        pay()

    def unlucky():
        raise Silent

    with pytest.raises(BadInput, match="did not run"):
        router.guard(side_effects="irreversible", idempotency_key=unlucky)(lambda: ran.append(1))()
    assert ran == []
