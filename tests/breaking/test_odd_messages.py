"""What chat models of other people's making send beside the text never breaks the answer."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from demur import Call
from demur.core.errors import ModelError
from demur.integrations.models.langchain import LangChainModel

METADATA = [
    {"finish_reason": ["stop"]},
    {"finish_reason": {"a": 1}},
    {"model_name": 5},
    {"logprobs": 5},
    {"logprobs": [1, 2]},
    {"logprobs": {"content": None}},
    {"logprobs": {"content": [{"token": 5, "logprob": "z"}]}},
    {"logprobs": {"content": [{"token": "\ud800", "logprob": 10**400, "top_logprobs": [{"token": "a"}]}]}},
]


class Chat:
    """The least that LangChainModel asks of a chat model."""

    def __init__(self, message: Any) -> None:
        self.message = message

    def bind(self, **_: Any) -> Chat:
        return self

    def invoke(self, *_: Any, **__: Any) -> Any:
        return self.message

    async def ainvoke(self, *_: Any, **__: Any) -> Any:
        return self.message


@pytest.mark.parametrize("metadata", METADATA, ids=lambda metadata: str(metadata)[:30])
def test_odd_metadata_is_passed_over(metadata):
    model = LangChainModel(Chat(AIMessage("Paris", response_metadata=metadata)), name="odd")  # pyright: ignore[reportArgumentType]
    response = model.generate(Call.ask("q")).response
    assert response.text == "Paris" and response.truncated is False


def test_a_tool_call_that_cannot_be_stored_is_the_models_failure():
    calls = [{"name": "t", "args": {"x": float("nan")}, "id": "1"}]
    model = LangChainModel(Chat(AIMessage("", tool_calls=calls)), name="odd")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ModelError, match="cannot be stored"):
        model.generate(Call.ask("q"))
