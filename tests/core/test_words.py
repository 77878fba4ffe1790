"""words: one way from text to words, in every script."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.core.words import word_spans, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("…?!", []),
        ("The Cat's 2nd-best hat", ["the", "cat", "s", "2nd", "best", "hat"]),
        ("snake_case", ["snake", "case"]),
        ("Straße ﬁne １２", ["strasse", "fine", "12"]),
        ("МОСКВА Αθήνα", ["москва", "αθήνα"]),
        ("東京 is東", ["東", "京", "is", "東"]),
        ("서울 특별시", ["서울", "특별시"]),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


@given(st.text())
def test_words_of_words_are_the_same(text):
    found = words(text)
    assert words(" ".join(found)) == found


@given(st.text())
def test_spans_are_of_the_same_words(text):
    found = word_spans(text)
    assert [word for word, _, _ in found] == words(text)
    assert all(0 <= start < end <= len(text) for _, start, end in found)


def test_spans_point_into_the_text_as_it_was_written():
    text = "cafe\u0301 ﬁn ½ ｶﾞ \u1112\u1161\u11ab!"
    assert [(word, text[start:end]) for word, start, end in word_spans(text)] == [
        ("café", "cafe\u0301"),
        ("fin", "ﬁn"),
        ("1", "½"),
        ("2", "½"),
        ("ガ", "ｶﾞ"),
        ("한", "\u1112\u1161\u11ab"),
    ]
