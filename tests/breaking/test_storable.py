"""What could be stored and never read again is refused before it is stored: one such row would spoil every list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from demur import Call
from demur.core.response import Response, ToolCall
from demur.core.review_item import Resolution, Verdict
from demur.core.text import said


def _deep(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


UNSTORABLE = [float("nan"), float("inf"), 10**5000, "\ud800", _deep(400), _deep(100_000)]
NAMES = ["nan", "inf", "digits", "surrogate", "deep", "deepest"]


@pytest.mark.parametrize("value", UNSTORABLE, ids=NAMES)
def test_what_does_not_come_back_is_refused_at_construction(value):
    with pytest.raises((ValidationError, RecursionError)):
        Call(kind="tool", tool_name="t", arguments={"x": value})
    with pytest.raises((ValidationError, RecursionError)):
        Call.ask("q", metadata={"x": value})
    with pytest.raises((ValidationError, RecursionError)):
        ToolCall(name="t", arguments={"x": value})
    with pytest.raises((ValidationError, RecursionError)):
        Resolution(verdict=Verdict.EDIT, arguments={"x": value}, reviewer="r")


def test_the_message_says_what_to_do():
    with pytest.raises(ValidationError, match="go in as text"):
        Call(kind="tool", tool_name="t", arguments={"x": float("nan")})


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=5), _JSON, max_size=4))
def test_everything_else_comes_back_unchanged(arguments):
    call = Call(kind="tool", tool_name="t", arguments=arguments)
    response = Response(tool_calls=(ToolCall(name="t", arguments=arguments),))
    assert Call.model_validate_json(call.model_dump_json()) == call
    assert Response.model_validate_json(response.model_dump_json()) == response


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_error_is_put_into_words_whatever_it_does():
    assert said(Silent()) == "Silent: <no message: RuntimeError>"
    assert said(ValueError("a\ud800b")) == "ValueError: a\ufffdb"
    assert said(ValueError("x" * 50), 20).startswith("ValueError: xxxxxxxx… (+")
