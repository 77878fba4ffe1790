"""The same question again: how far its earlier grades carry over."""

from __future__ import annotations

import pytest

from demur.memory.repeats import MOST, SAME_QUESTION, Earlier, repeat_support, same_answer


@pytest.mark.parametrize(
    ("answer", "earlier", "expected"),
    [
        ("Paris", [], 0.0),
        ("Paris", [Earlier(0.84, "Paris", True)], 0.0),  # another question
        ("Paris", [Earlier(1.0, "The Paris.", True)], 2.0),  # the very question, the same answer, right
        ("Paris", [Earlier(SAME_QUESTION, "Paris", True)], 1.0),
        ("Rome", [Earlier(1.0, "Paris", True)], -1.0),  # another answer was right: half the weight
        ("Paris", [Earlier(1.0, "Paris", False)], -2.0),
        ("Rome", [Earlier(1.0, "Paris", False)], 0.0),  # there are many ways to be wrong
        ("Rome", [Earlier(1.0, "Paris", False, "Rome")], 2.0),  # somebody wrote the right answer down
        ("Paris", [Earlier(1.0, "Paris", False, "Rome")], -3.0),
        ("Paris", [Earlier(1.0, "Paris", True)] * 5, MOST),
        ("Paris", [Earlier(1.0, "Paris", False)] * 5, -MOST),
        ("Paris", [Earlier(1.0, "Paris", True), Earlier(1.0, "Paris", False)], 0.0),
    ],
)
def test_by_hand(answer, earlier, expected):
    assert repeat_support(answer, earlier) == pytest.approx(expected)


def test_nearer_questions_count_for_more():
    near, far = (repeat_support("x", [Earlier(similarity, "x", True)]) for similarity in (0.99, 0.87))
    assert near > far > 0.0


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Paris", "paris.", True),
        ("Paris", "Paris\n\nIt is the capital.", True),  # the answer, and the answer with its reasons
        ("Sure:\n5", "Sure:\n7", False),
        ("Sure:\n5", "sure\n 5", True),
        ("Sure:\n5", "Sure:", True),
        ("1.5", "15", False),  # equal in the graders' normal form
        ("1,500 m", "1500 m", True),
        ("1,234,567.8", "1234567.8", True),
        ("1,5", "15", False),
        ("-5", "5", False),
        ("\u22125", "-5", True),
        ("covid-19", "COVID 19", False),
        ("covid-19", "Covid-19!", True),
        ("", "Paris", False),
        ("?", "!", False),
    ],
)
def test_which_answers_are_the_same(one, other, same):
    assert same_answer(one, other) is same
    assert same_answer(other, one) is same


def test_a_threshold_of_ones_own():
    assert repeat_support("x", [Earlier(0.7, "x", True)], same_question=0.6) == pytest.approx(1.25)
