"""words: one way from text to words, in every script."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.core.words import words


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
