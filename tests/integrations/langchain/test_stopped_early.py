"""A turn that a rule stopped says so in its message, and whoever reads the message knows."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk

from demur.integrations.langchain.chat_model import LocalChatModel
from demur.integrations.models.langchain import response_of
from demur.probes.prefix_confidence import EarlyStop
from demur.probes.prefix_positions import Positions


@pytest.fixture
def stopped(scripted_hf: Any) -> LocalChatModel:
    """Stops at its second token, whatever it says."""
    model = scripted_hf({"hello": "Good day to you."})
    return LocalChatModel(model=model.with_decoding(early_stop=EarlyStop(1.0, Positions(every=2, earliest=2))))


def check(message: AIMessage) -> None:
    assert message.response_metadata["finish_reason"] == "stopped_early"
    reason = message.response_metadata["stopped_early"]
    assert "confidence after 2 tokens" in reason
    response = response_of(message)
    assert (response.truncated, response.stopped_early) == (True, reason)
    assert message.usage_metadata is not None
    assert message.usage_metadata["output_tokens"] == 2


def test_the_message_says_so(stopped: LocalChatModel) -> None:
    check(stopped.invoke("hello"))


def test_so_does_the_last_chunk(stopped: LocalChatModel) -> None:
    chunks = list(stopped.stream("hello"))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    assert isinstance(whole, AIMessageChunk)
    check(whole)


def test_any_other_reason_is_none() -> None:
    for reason in ("stop", "length", "tool_calls"):
        message = AIMessage("x", response_metadata={"finish_reason": reason, "stopped_early": "not so"})
        assert response_of(message).stopped_early == ""
    assert response_of(AIMessage("x", response_metadata={"finish_reason": "stopped_early"})).stopped_early
