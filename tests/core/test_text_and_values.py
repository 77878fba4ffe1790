"""Text that is shown, and values that are stored."""

import json
import unicodedata
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.core.decision import Mode, Route
from demur.core.errors import StoreError
from demur.core.run import NotStored, Result
from demur.core.stored_result import pack_result, unpack_result
from demur.core.stored_value import pack, unpack
from demur.core.text import limited, printable

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.text())
def test_nothing_hidden_or_moving_is_ever_shown(text):
    shown = printable(text, 10_000)
    assert all(character in "\n\t" or unicodedata.category(character)[0] != "C" for character in shown)
    assert "\u2028" not in shown and "\u2029" not in shown


@given(st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), max_size=50))
def test_ordinary_text_is_shown_as_it_is(text):
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mb", "a⟨U+001B⟩[31mb"),
        ("\u202egnp.exe", "⟨U+202E⟩gnp.exe"),
        ("line\nand\ttab\r", "line\nand\ttab⟨U+000D⟩"),
        ("\U000e0041", "⟨U+E0041⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("שלום ä 日本 🙂", "שלום ä 日本 🙂"),
    ],
)
def test_what_is_hidden_is_made_visible(text, shown):
    assert printable(text) == shown


def test_limits_say_what_is_left_off():
    assert printable("abcdef", 4) == "abcd… (+2 characters)"
    assert limited("abcdef", 4) == "abcd… (+2 characters)"
    assert limited("a\ud800", 10) == "a\ufffd"
    assert limited("abc", 3) == "abc"


def same(left, right):
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


@given(json_values)
def test_json_values_come_back_equal(value):
    assert same(unpack(pack(value)), value)


class Colour(StrEnum):
    RED = "red"


class Rude:
    def __repr__(self):
        raise ZeroDivisionError


def endless():
    value = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "value", [(1,), {1: 2}, {"a": (1,)}, {1}, b"x", float("inf"), Colour.RED, Rude(), endless(), {True: 1}]
)
def test_other_values_are_replaced_by_their_text(value):
    stored = unpack(pack(value))
    assert isinstance(stored, NotStored)
    assert stored.type_name == type(value).__name__
    assert unpack(pack(stored)) == stored


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "{}", '{"type_name": 3}', "3"])
def test_damage_is_a_store_error(text):
    with pytest.raises(StoreError, match="damaged"):
        unpack(text)
    with pytest.raises(StoreError, match="damaged"):
        unpack_result(text)


@given(json_values)
def test_results_come_back_equal(value):
    result = Result(
        value=value, route=Route.ANSWER, recommended=Route.DEFER, mode=Mode.SHADOW, confidence=None, run_id="run_1"
    )
    assert unpack_result(pack_result(result)) == result
