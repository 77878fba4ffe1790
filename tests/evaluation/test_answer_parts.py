from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.core.errors import ConfigurationError
from demur.evaluation.answer_parts import FINDERS, answer_finder


def parts(name: str, text: str) -> list[str]:
    finder = answer_finder(name)
    assert finder is not None
    return [text[begin:end] for begin, end in finder(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("She had 9 - 4 = 5 left, and 5 + 6 = 11. The answer is 11.", ["11"]),
        ("It costs $1,250.50 in all.", ["$1,250.50"]),
        ("#### 7\nor 8 of 9? #### 42 apples, not 3", ["3"]),
        ("so 12 %", ["12 %"]),
        ("12, ", ["12"]),
        ("none at all", []),
        ("v2 of x3", []),
    ],
)
def test_the_last_number(text: str, expected: list[str]) -> None:
    assert parts("last-number", text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("B", ["B"]), ("(C) because", ["C"]), ("Answer: D", ["D"]), ("A. The cat", ["A"]), ("Because", []), ("k", [])],
)
def test_the_letter_of_a_choice(text: str, expected: list[str]) -> None:
    assert parts("choice-letter", text) == expected


def test_a_tool_call_without_its_format() -> None:
    text = '<tool_call>\n{"name": "book", "arguments": {"to": "a:b", "n": 3, "tags": ["x", true]}}\n</tool_call> done'
    assert parts("tool-call", text) == ["book", "to", "a:b", "n", "3", "tags", "x", "true"]
    # A key named like one of the call's own, but inside the arguments, is content.
    assert parts("tool-call", '{"name": "f", "arguments": {"name": "id"}}') == ["f", "name", "id"]
    assert parts("tool-call", '```json\n{"name": "f", "arguments": {}}\n```') == ["f"]
    # The first call only; an unfinished one as far as it goes.
    assert parts("tool-call", '[{"name": "f", "arguments": {"a": 1}}, {"name": "g"}]')[:3] == ["f", "a", "1"]
    assert parts("tool-call", '{"name": "f", "arguments": {"a": "unfin') == ["f", "a", "unfin"]
    assert parts("tool-call", "I cannot do that.") == []


@given(st.text(max_size=300), st.sampled_from([name for name in FINDERS if FINDERS[name] is not None]))
def test_parts_ascend_within_the_text_and_are_not_empty(text: str, name: str) -> None:
    found = answer_finder(name)(text)  # type: ignore[misc]
    last = 0
    for begin, end in found:
        assert last <= begin < end <= len(text)
        last = end


_VALUES = st.recursive(
    st.text(max_size=8) | st.integers(-99, 99) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(min_size=1, max_size=6), _VALUES, max_size=4))
def test_every_argument_of_any_call_is_content_and_no_brace_is(arguments: dict[str, object]) -> None:
    text = json.dumps({"name": "call_it", "arguments": arguments})
    found = parts("tool-call", text)
    assert found[0] == "call_it"
    for name in arguments:
        assert json.dumps(name)[1:-1] in found
    outside = text
    for begin, end in reversed(answer_finder("tool-call")(text)):  # type: ignore[misc]
        outside = outside[:begin] + outside[end:]
    assert set(outside.replace("name", "").replace("arguments", "")) <= set('{}[],:" ')


def test_a_way_that_is_not_known_is_refused() -> None:
    assert answer_finder("first-stop") is None
    with pytest.raises(ConfigurationError, match=r"'guess'.*last-number"):
        answer_finder("guess")
