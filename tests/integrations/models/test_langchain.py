"""LangChain chat models: log-probabilities in every shape, clients left alone, real HTTP for OpenAI's."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from demur.core.call import Call, Message
from demur.core.errors import BadInput, ConfigurationError, ModelError
from demur.core.evidence import Document, Need
from demur.core.protocols import Model
from demur.integrations.models.langchain import LangChainModel, response_of

CALL = Call.ask("Who?")


class Recorder(BaseChatModel):
    """Remembers what it was asked and answers with `reply`, or raises it."""

    reply: Any
    seen: list[tuple[list[BaseMessage], dict[str, Any]]] = []  # noqa: RUF012 - pydantic copies it

    @property
    def _llm_type(self) -> str:
        return "recorder"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        self.seen.append((messages, kwargs))
        if isinstance(self.reply, BaseException):
            raise self.reply
        return ChatResult(generations=[ChatGeneration(message=self.reply)])


class Lp:
    """An object with attributes, as Ollama's client gives."""

    def __init__(self, token: str, logprob: float, top: list[Any] | None = None) -> None:
        self.token, self.logprob, self.top_logprobs = token, logprob, top


OPENAI = {
    "content": [
        {
            "token": " ",
            "logprob": -0.1,
            "bytes": [32],
            "top_logprobs": [{"token": " ", "logprob": -0.1, "bytes": [32]}],
        },
        {"token": "Ada", "logprob": -0.5, "bytes": None, "top_logprobs": [{"token": "Bo", "logprob": -1.0}]},
    ]
}


@pytest.mark.parametrize(
    ("logprobs", "values", "span"),
    [
        (OPENAI, (-0.1, -0.5), (1, 2)),
        ([Lp("Ada", -0.5), Lp("\n", -0.2)], (-0.5, -0.2), (0, 1)),
        ([{"token": "Ada", "logprob": -0.5, "top_logprobs": None}], (-0.5,), (0, 1)),
        ([{"token": "Ada", "logprob": None}], (None,), (0, 1)),
        ([{"token": "Ada", "logprob": float("nan")}], (pytest.approx(float("nan"), nan_ok=True),), (0, 1)),
    ],
)
def test_shapes_of_logprobs(logprobs: Any, values: tuple[Any, ...], span: tuple[int, int]) -> None:
    trace = response_of(AIMessage("Ada", response_metadata={"logprobs": logprobs})).trace
    assert trace is not None
    assert trace.logprobs == values
    assert (trace.answer_start, trace.answer_end) == span


@pytest.mark.parametrize("logprobs", [None, {"content": None}, {"content": []}, [], {"refusal": []}, "high", 3])
def test_no_logprobs_is_a_black_box(logprobs: Any) -> None:
    assert response_of(AIMessage("Ada", response_metadata={"logprobs": logprobs})).trace is None


def test_alternatives_are_kept() -> None:
    trace = response_of(AIMessage("Ada", response_metadata={"logprobs": OPENAI})).trace
    assert trace is not None
    assert [(t.token, t.logprob) for t in trace.top[1]] == [("Bo", -1.0)]


def test_logprobs_of_prose_are_not_taken_for_the_tool_calls() -> None:
    call = {"name": "refund", "args": {"n": 3, "x": [1, {"a": None}]}, "id": "c1"}
    for logprobs in (OPENAI, {"content": None}):
        message = AIMessage("Let me see.", tool_calls=[call], response_metadata={"logprobs": logprobs})
        response = response_of(message)
        assert response.trace is None
        assert response.text == "Let me see."
        assert response.tool_calls[0].arguments == {"n": 3, "x": [1, {"a": None}]}
        assert response.tool_calls[0].id == "c1"
    bad = [{"name": "refund", "args": "{", "id": "c1", "error": None}]
    with pytest.raises(ModelError, match="not JSON"):
        response_of(AIMessage("", invalid_tool_calls=bad))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
        (["a", {"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "b"}], "ab"),
        ([], ""),
    ],
)
def test_content_blocks(content: Any, text: str) -> None:
    assert response_of(AIMessage(content)).text == text


def test_usage_money_and_truncation() -> None:
    usage = {"input_tokens": 10, "output_tokens": 4, "total_tokens": 14}
    message = AIMessage("x", usage_metadata=usage, response_metadata={"finish_reason": "length", "model_name": "m-1"})
    response = response_of(message, price_in=0.5, price_out=2.0)
    assert (response.cost.tokens_in, response.cost.tokens_out, response.cost.money) == (10, 4, 13.0)
    assert response.truncated
    assert response.model == "m-1"
    assert not response_of(AIMessage("x", response_metadata={"done_reason": "stop"})).truncated


async def test_fake_chat_model_sync_and_async() -> None:
    model = LangChainModel(GenericFakeChatModel(messages=iter([AIMessage("one"), AIMessage("two")])), name="fake")
    assert isinstance(model, Model)
    assert model.provides == {Need.TEXT}
    assert model.generate(CALL).response.text == "one"
    generation = await model.agenerate(CALL)
    assert (generation.response.text, generation.response.model) == ("two", "fake")
    assert generation.captured is None


def test_conversation_documents_and_request_reach_the_client_which_is_not_changed() -> None:
    client = Recorder(reply=AIMessage("x"))
    before = client.model_dump(exclude={"seen", "reply"})
    model = LangChainModel(client, system="Short.", logprobs=True, top_logprobs=3)
    assert model.provides == {Need.TEXT, Need.LOGPROBS}
    call = Call(
        messages=(
            Message(role="user", content="One?"),
            Message(role="assistant", content="1"),
            Message(role="tool", content="a result"),
            Message(role="user", content="Two?"),
        )
    )
    model.generate(call, documents=[Document(id="d", text="fact")])
    messages, arguments = client.seen[0]
    assert [m.type for m in messages] == ["system", "human", "ai", "human", "human"]
    assert "> fact" in messages[-1].content and messages[-1].content.endswith("Question: Two?")
    assert arguments == {"logprobs": True, "top_logprobs": 3}
    LangChainModel(client, bind={"return_logprobs": 1}).generate(CALL)
    assert client.seen[1][1] == {"return_logprobs": 1}
    assert client.model_dump(exclude={"seen", "reply"}) == before
    with pytest.raises(BadInput):
        model.generate(Call.ask(" "))


async def test_errors_are_wrapped_and_control_flow_is_not() -> None:
    model = LangChainModel(Recorder(reply=TimeoutError("too slow")))
    with pytest.raises(ModelError, match="TimeoutError: too slow"):
        model.generate(CALL)
    with pytest.raises(ModelError, match="too slow"):
        await model.agenerate(CALL)
    bubble = type("GraphBubbleUp", (Exception,), {"__module__": "langgraph.errors"})
    interrupt = type("GraphInterrupt", (bubble,), {"__module__": "langgraph.errors"})("ask a human")
    with pytest.raises(bubble, match="ask a human"):
        LangChainModel(Recorder(reply=interrupt)).generate(CALL)
    with pytest.raises(bubble, match="ask a human"):
        await LangChainModel(Recorder(reply=interrupt)).agenerate(CALL)


def test_bad_settings_raise_at_construction() -> None:
    with pytest.raises(ConfigurationError, match="top_logprobs"):
        LangChainModel(Recorder(reply=None), top_logprobs=21)
    with pytest.raises(ConfigurationError, match="logprobs"):
        LangChainModel(Recorder(reply=None), logprobs="yes")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="not a LangChain"):
        LangChainModel(object())  # type: ignore[arg-type]


def test_fingerprint_is_unpinned() -> None:
    model = LangChainModel(Recorder(reply=None), name="m", version="2026-11")
    fingerprint = model.fingerprint()
    assert not fingerprint.pinned
    assert fingerprint.identity.endswith(":m:2026-11")
    assert LangChainModel(Recorder(reply=None), name="m", system="s").fingerprint().prompt != fingerprint.prompt


class Server:
    """An OpenAI-compatible server on this machine; `answer` is what it gives, `requests` what it got."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.status = 200
        self.choice: dict[str, Any] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append((self.path, body))
                payload = json.dumps(outer.answer()).encode()
                self.send_response(outer.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def answer(self) -> dict[str, Any]:
        return {
            "id": "r1",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-test-2026",
            "choices": [self.choice],
            "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
        }

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def _chat_openai(server: Server, **options: Any) -> Any:
    from langchain_openai import ChatOpenAI

    settings = {"model": "gpt-test", "base_url": server.url, "api_key": "none", "max_retries": 0, **options}
    return ChatOpenAI(**settings)  # type: ignore[arg-type]


async def test_chat_openai_over_http(server: Server) -> None:
    content = [{"token": "Ada", "logprob": -0.5, "bytes": [65], "top_logprobs": []}]
    server.choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "Ada"},
        "logprobs": {"content": content},
        "finish_reason": "stop",
    }
    client = _chat_openai(server, temperature=0.0)
    model = LangChainModel(client, top_logprobs=4)
    assert Need.LOGPROBS in model.provides
    now, later = model.generate(CALL).response, (await model.agenerate(CALL)).response
    for response in (now, later):
        assert response.text == "Ada"
        assert response.trace is not None
        assert response.trace.logprobs == (-0.5,)
        assert (response.cost.tokens_in, response.cost.tokens_out) == (7, 2)
    path, body = server.requests[0]
    assert path == "/v1/chat/completions"
    assert (body["logprobs"], body["top_logprobs"]) == (True, 4)
    assert client.logprobs is None  # the client itself was not changed
    assert client.use_responses_api is None
    assert model.fingerprint().identity == "openai:gpt-test:unstated"


def test_chat_openai_tool_turn_with_prose_logprobs(server: Server) -> None:
    function = {"name": "refund", "arguments": '{"n": 3}'}
    server.choice = {
        "index": 0,
        "message": {
            "role": "assistant",
            "content": "Ok",
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        "logprobs": {"content": [{"token": "Ok", "logprob": -0.01, "bytes": [79], "top_logprobs": []}]},
        "finish_reason": "tool_calls",
    }
    response = LangChainModel(_chat_openai(server)).generate(CALL).response
    assert response.trace is None
    assert response.tool_calls[0].name == "refund" and response.tool_calls[0].arguments == {"n": 3}
    server.choice["logprobs"] = {"content": None}
    assert LangChainModel(_chat_openai(server)).generate(CALL).response.trace is None


def test_a_model_that_would_switch_to_the_responses_api_by_itself_does_not(server: Server) -> None:
    client = _chat_openai(server)
    client.model_name = "gpt-6-mini"  # langchain-openai sends it to the Responses API as soon as there are tools
    tools = {"tools": [{"type": "function"}]}
    assert client._use_responses_api(tools)
    model = LangChainModel(client)
    assert not model._client.bound._use_responses_api(tools)
    assert client.use_responses_api is None
    assert client._use_responses_api(tools)


@pytest.mark.parametrize(
    "options", [{"use_responses_api": True}, {"reasoning": {"effort": "low"}}, {"model": "gpt-5-pro"}]
)
def test_where_the_user_chose_the_responses_api_the_model_is_a_black_box(
    options: dict[str, Any], server: Server
) -> None:
    client = _chat_openai(server, **options)
    model = LangChainModel(client)
    assert model.provides == {Need.TEXT}
    assert model._client is client


def test_chat_openai_failure_is_typed(server: Server) -> None:
    server.status = 500
    with pytest.raises(ModelError, match="did not answer"):
        LangChainModel(_chat_openai(server)).generate(CALL)
