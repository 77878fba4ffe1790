"""Any callable as a model: sync, async, with whatever it returns."""

from __future__ import annotations

import asyncio
import math
import threading
from typing import Any

import pytest

from demur.core.call import Call
from demur.core.errors import BadInput, ConfigurationError, ModelError, PromptTooLong
from demur.core.evidence import Document, Need
from demur.core.protocols import Fingerprint, Model
from demur.core.response import TokenTrace
from demur.integrations.models.function import FunctionModel

CALL = Call.ask("Who?")


def echo(question: str) -> str:
    return f"You asked: {question}"


async def aecho(question: str) -> str:
    await asyncio.sleep(0)
    return f"You asked: {question}"


@pytest.mark.parametrize("model", [FunctionModel(echo), FunctionModel(aecho), FunctionModel(echo, aecho)])
async def test_sync_and_async_give_the_same(model: FunctionModel) -> None:
    assert isinstance(model, Model)
    assert model.provides == {Need.TEXT}
    later = await model.agenerate(CALL)
    now = await asyncio.to_thread(model.generate, CALL)
    assert later.response.text == now.response.text == "You asked: Who?"
    assert now.response.trace is None and now.captured is None


async def test_a_sync_function_does_not_run_on_the_event_loop() -> None:
    here = threading.get_ident()
    model = FunctionModel(lambda question: str(threading.get_ident()))
    assert (await model.agenerate(CALL)).response.text != str(here)


async def test_an_async_function_in_a_running_loop_is_refused_clearly() -> None:
    with pytest.raises(ModelError, match="use agenerate"):
        FunctionModel(aecho).generate(CALL)


def test_a_lambda_that_returns_a_coroutine_works_on_both_sides() -> None:
    model = FunctionModel(lambda question: aecho(f"{question}"))
    assert model.generate(CALL).response.text == "You asked: Who?"
    assert asyncio.run(model.agenerate(CALL)).response.text == "You asked: Who?"


@pytest.mark.parametrize(
    ("given", "logprobs"),
    [
        ([-0.5, None, -2], (-0.5, None, -2.0)),
        ([{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": None}], (-0.5, None)),
        ({"content": [{"token": "a", "logprob": -1.5, "top_logprobs": []}]}, (-1.5,)),
        (TokenTrace(logprobs=(-0.25,)), (-0.25,)),
        ([-math.inf], (-math.inf,)),
        (None, None),
        ([], None),
        ({"content": None}, None),
    ],
)
def test_logprobs_in_every_shape(given: Any, logprobs: tuple[float | None, ...] | None) -> None:
    model = FunctionModel(lambda question: {"t": "x", "lp": given}, text=lambda r: r["t"], logprobs=lambda r: r["lp"])
    assert model.provides == {Need.TEXT, Need.LOGPROBS}
    response = model.generate(CALL).response
    assert response.text == "x"
    assert (None if response.trace is None else response.trace.logprobs) == logprobs


def test_documents_are_quoted_and_the_whole_call_can_be_asked_for() -> None:
    documents = [Document(id="d", text="a\nb")]
    assert "> a\n> b" in FunctionModel(echo).generate(CALL, documents=documents).response.text
    whole = FunctionModel(lambda call, found: f"{call.task}:{found[0].id}", takes="call")
    assert whole.generate(CALL, documents=documents).response.text == "default:d"


def test_failures_are_typed_and_keep_their_cause() -> None:
    def broken(question: str) -> str:
        raise ConnectionError("refused")

    with pytest.raises(ModelError, match="ConnectionError: refused") as caught:
        FunctionModel(broken).generate(CALL)
    assert isinstance(caught.value.__cause__, ConnectionError)
    with pytest.raises(ModelError, match="refused"):
        asyncio.run(FunctionModel(broken).agenerate(CALL))
    with pytest.raises(ModelError, match="NoneType, not text"):
        FunctionModel(lambda question: None).generate(CALL)
    with pytest.raises(ModelError, match="failed on a str"):
        FunctionModel(echo, text=lambda r: r["t"]).generate(CALL)
    with pytest.raises(BadInput):
        FunctionModel(echo).generate(Call.ask(" "))


def test_demurs_own_errors_and_control_flow_pass() -> None:
    bubble = type("GraphInterrupt", (type("GraphBubbleUp", (Exception,), {"__module__": "langgraph.errors"}),), {})
    for error in (PromptTooLong(9, 8), bubble("stop"), KeyboardInterrupt()):

        def raising(question: str, error: BaseException = error) -> str:
            raise error

        with pytest.raises(type(error)):
            FunctionModel(raising).generate(CALL)
    impostor = type("GraphBubbleUp", (Exception,), {"__module__": "elsewhere"})

    def posing(question: str) -> str:
        raise impostor("x")

    with pytest.raises(ModelError):
        FunctionModel(posing).generate(CALL)


def test_fingerprint() -> None:
    assert not FunctionModel(echo).fingerprint().pinned
    assert "echo" in FunctionModel(echo).fingerprint().identity
    stated = FunctionModel(echo, fingerprint="v3").fingerprint()
    assert (stated.identity, stated.pinned) == ("v3", True)
    whole = Fingerprint("n", "i", False, "p", "d")
    assert FunctionModel(echo, fingerprint=whole).fingerprint() is whole


@pytest.mark.parametrize("options", [{"text": "t"}, {"logprobs": 3}, {"takes": "both"}, {"afn": 1}])
def test_bad_settings_raise_at_construction(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        FunctionModel(echo, **options)
