"""Groups of near-duplicate questions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.core.errors import BadInput, ConfigurationError
from demur.evaluation.near_duplicates import normalise, question_groups

QUESTIONS = [
    "What is the capital of France?",
    "Who wrote Moby-Dick?",
    "what is the Capital of France",
    "How many eggs does Janet sell at the farmers' market every day?",
    "How many eggs does Janet sell at the farmers market each day?",
    "Who painted Guernica?",
    "What is the capital of France?",
]


def test_duplicates_share_a_group_and_others_do_not():
    groups = question_groups(QUESTIONS, threshold=0.6)
    assert groups.tolist() == [0, 1, 0, 2, 2, 3, 0]
    assert question_groups(QUESTIONS, threshold=1.0).tolist() == [0, 1, 0, 2, 3, 4, 0]


def test_near_duplicates_at_the_default_threshold():
    long = "Nutrient-laden waters from heavy rains flow into the Gulf of Mexico. This produces an algae bloom. Which "
    others = [f"Question number {number} about {word}" for number, word in enumerate(["cats", "dogs", "rain"])]
    groups = question_groups([long + "will most likely happen?", *others, long + "would most likely happen?"])
    assert groups[0] == groups[4]
    assert len(set(groups.tolist())) == 4


def test_blank_questions_stand_alone():
    groups = question_groups(["", "  ", "a b", "\n", "??", "!!", "??"])
    assert groups.tolist() == [0, 1, 2, 3, 4, 5, 4]
    assert question_groups([]).tolist() == []
    assert question_groups(["", ""]).tolist() == [0, 1]


def test_very_long_questions():
    long = "why does the river bend " * 4200
    groups = question_groups([long, long.upper() + "!", "why does the sun shine", "x" * 100_000])
    assert len(long) > 100_000
    assert groups.tolist() == [0, 0, 1, 2]


def test_links_are_transitive_and_found_across_blocks():
    base = [f"{a} {b} {a}{b}" for a in ("alpha", "bravo", "delta") for b in map(str, range(1000, 1300))]
    pairs = base + [text.upper() + "." for text in base]
    groups = question_groups(pairs, threshold=1.0)
    assert (groups[: len(base)] == groups[len(base) :]).all()
    assert len(set(groups.tolist())) == len(base)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text("ab cd?é", max_size=25), min_size=1, max_size=30), st.sampled_from([0.3, 0.6, 0.9, 1.0]))
def test_equals_the_plain_computation(questions, threshold):
    from scipy.sparse.csgraph import connected_components
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = list(dict.fromkeys(normalise(q) for q in questions if normalise(q)))
    groups = question_groups(questions, threshold)
    if not texts:
        return
    try:
        vectors = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), lowercase=False, sublinear_tf=True)
        cosine = (matrix := vectors.fit_transform(texts)) @ matrix.T
    except ValueError:
        return
    _, labels = connected_components(cosine.toarray() >= threshold - 1e-9)
    of_text = dict(zip(texts, labels, strict=True))
    for i, left in enumerate(questions):
        for j, right in enumerate(questions[:i]):
            if normalise(left) and normalise(right):
                assert (groups[i] == groups[j]) == (of_text[normalise(left)] == of_text[normalise(right)])


def test_groups_count_up_in_order_of_appearance():
    groups = question_groups(["b", "", "a", "b", "c", "a"])
    first_seen = [int(g) for i, g in enumerate(groups) if g not in groups[:i]]
    assert first_seen == list(range(len(first_seen)))
    assert groups.dtype == np.int64


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.1, float("nan")])
def test_a_threshold_that_cannot_be_is_refused(threshold):
    with pytest.raises(ConfigurationError):
        question_groups(["a"], threshold)


def test_a_question_that_is_no_text_is_named():
    with pytest.raises(BadInput, match=r"questions\[1\]"):
        question_groups(["a", None])
