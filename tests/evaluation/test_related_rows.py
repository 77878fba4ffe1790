"""Groups that hold questions and conversations whole, and what is measured within these."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.core.errors import BadInput
from demur.evaluation.evaluate import evaluate
from demur.evaluation.evaluate_related import along_conversations, within_questions
from demur.evaluation.joined_groups import joined_groups

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=25)


def test_chains_join() -> None:
    # Rows 0 and 1 share a question, 1 and 2 a conversation; 3 and 4 nothing.
    assert joined_groups([0, 0, 1, 2, 3], ["a", "b", "b", "c", "d"]).tolist() == [0, 0, 0, 1, 2]
    assert joined_groups(["x", "y", "x"]).tolist() == [0, 1, 0]
    with pytest.raises(BadInput, match="at least one"):
        joined_groups()
    with pytest.raises(BadInput, match="one group a row"):
        joined_groups([0, 1], [0])
    with pytest.raises(BadInput, match="missing"):
        joined_groups([0, 1], ["a", None])


@given(PAIRS)
def test_no_grouping_is_split_and_none_is_joined_without_need(rows: list[tuple[int, int]]) -> None:
    first, second = (np.array([row[k] for row in rows]) for k in range(2))
    found = joined_groups(first, second)
    for grouping in (first, second):
        assert all(np.unique(found[grouping == each]).size == 1 for each in np.unique(grouping))
    # Flood from every row by hand.
    for start in range(len(rows)):
        reached = np.arange(len(rows)) == start
        while True:
            more = np.isin(first, first[reached]) | np.isin(second, second[reached])
            if (more == reached).all():
                break
            reached = more
        assert (reached == (found == found[start])).all()


def test_within_questions_by_hand() -> None:
    # a: right .9 over wrong .5. b: right .4 under wrong .6, and tied with wrong .4. c: one answer, left out.
    discrimination, ties = within_questions(
        [0.9, 0.5, 0.4, 0.6, 0.4, 0.7], [1, 0, 1, 0, 0, 1], ["a", "a", "b", "b", "b", "c"]
    )
    assert (discrimination.name, discrimination.value, discrimination.n) == ("within_question_discrimination", 0.5, 5)
    assert (ties.name, ties.value) == ("within_question_ties", pytest.approx(1 / 3))
    nothing, _ = within_questions([0.9, 0.5], [1, 0], ["a", "b"])
    assert nothing.value is None and "no question has" in nothing.reason


def test_questions_that_groups_would_split_are_drawn_whole() -> None:
    draw = np.random.default_rng(0)
    scores, correct = draw.random(60), draw.integers(0, 2, 60)
    found = within_questions(scores, correct, np.repeat(np.arange(20), 3), groups=np.arange(60))
    assert found[0].low < found[0].value < found[0].high


def test_evaluate_measures_within_questions_and_conversations_where_they_are_given() -> None:
    draw = np.random.default_rng(1)
    confidence = draw.random(120)
    correct = (draw.random(120) < confidence).astype(float)
    conversations, turns = np.repeat(np.arange(30), 4), np.tile(np.arange(1, 5), 30)
    found = evaluate(
        confidence, correct, questions=np.arange(120) // 2, conversations=conversations, turns=turns, resamples=200
    )
    for name in ("within_question_discrimination", "info_ece", "turn_trend"):
        assert found[name].low < found[name].value < found[name].high, name
    info, _ = along_conversations(confidence, correct, conversations, turns, resamples=200)
    assert info == found["info_ece"]
    # Each place in a conversation by hand: mean confidence against accuracy.
    by_hand = [abs(confidence[turns == turn].mean() - correct[turns == turn].mean()) for turn in range(1, 5)]
    assert info.value == pytest.approx(np.mean(by_hand))
    assert not {"info_ece", "within_question_ties"} & set(evaluate(confidence, correct, resamples=100))


def test_turns_without_conversations_are_refused() -> None:
    with pytest.raises(BadInput, match="both or neither"):
        evaluate([0.5, 0.6], [0, 1], turns=[1, 2])
    with pytest.raises(BadInput, match="count from 1"):
        evaluate([0.5, 0.6], [0, 1], conversations=["a", "a"], turns=[0, 1])
    with pytest.raises(BadInput, match="lengths differ"):
        evaluate([0.5, 0.6], [0, 1], conversations=["a"], turns=[1])
