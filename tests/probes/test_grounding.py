"""GroundingProbe: recall by hand, and Unavailable wherever there is nothing to measure."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.core.call import Call
from demur.core.decision import Stage
from demur.core.errors import ConfigurationError
from demur.core.evidence import Document, Evidence, Need
from demur.core.protocols import Probe
from demur.core.response import Response
from demur.probes.grounding import GroundingProbe


def evidence(answer, *texts, question="Where was Chopin born?", scores=None):
    scores = scores or [None] * len(texts)
    return Evidence(
        call=Call.ask(question),
        response=None if answer is None else Response(text=answer),
        documents=tuple(
            Document(id=str(i), text=text, score=score)
            for i, (text, score) in enumerate(zip(texts, scores, strict=True))
        ),
    )


def measure(found, **options):
    signals = tuple(GroundingProbe(**options).measure(found))
    assert tuple(signal.name for signal in signals) == GroundingProbe.signal_names
    return signals


def test_it_is_a_probe():
    probe = GroundingProbe()
    assert isinstance(probe, Probe)
    assert probe.stage is Stage.AFTER and Need.DOCUMENTS in probe.needs and probe.cost_rank == 0


def test_recall_by_hand_with_idf_over_the_retrieved_documents():
    # Answer words: warsaw, poland, 1810 ("chopin", "was", "born" are the question's, "the" is an article).
    found = evidence(
        "Chopin was born in the Warsaw, Poland: 1810",
        "In Warsaw, Poland.",
        "Poland is large.",
        "Nothing here.",
        question="Where in was Chopin born?",
    )
    warsaw = math.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    poland = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    year = math.log(1 + (3 - 0 + 0.5) / (0 + 0.5))
    recall, *_ = measure(found)
    assert recall.value == pytest.approx((warsaw + poland) / (warsaw + poland + year))


def test_the_best_single_document_counts_not_their_union():
    recall, *_ = measure(evidence("red blue", "red", "blue"))
    assert recall.value == pytest.approx(0.5)


def test_given_idf_and_the_heaviest_weight_for_unknown_words():
    found = evidence("red blue green", "red green")
    recall, *_ = measure(found, idf={"red": 1.0, "blue": 3.0})
    assert recall.value == pytest.approx((1.0 + 3.0) / (1.0 + 3.0 + 3.0))


@pytest.mark.parametrize("idf", [{}, {"a": 0.0}, {"a": -1.0}, {"a": float("nan")}, {"a": float("inf")}])
def test_idf_that_cannot_weigh_is_refused(idf):
    with pytest.raises(ConfigurationError, match="idf"):
        GroundingProbe(idf=idf)


def test_whole_and_no_grounding():
    assert measure(evidence("Żelazowa Wola!", "born in ŻELAZOWA WOLA, near Warsaw"))[0].value == 1.0
    assert measure(evidence("Vienna", "born in Warsaw", ""))[0].value == 0.0
    assert measure(evidence("東京", "東京は首都", question="首都は"))[0].value == 1.0


def test_repeating_a_word_earns_nothing():
    once = measure(evidence("Warsaw Vienna", "Warsaw"))[0].value
    assert measure(evidence("Warsaw Warsaw Warsaw Vienna", "Warsaw"))[0].value == once


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (evidence("Warsaw"), "no documents"),
        (evidence(None, "a text"), "no answer text"),
        (evidence("", "a text"), "no answer text"),
        (evidence("  \n", "a text"), "no answer text"),
        (evidence("The Chopin?", "a text"), "no word that the question"),
        (evidence("?!", "a text"), "no word that the question"),
    ],
)
def test_unavailable_with_a_reason(found, says):
    recall, *_ = measure(found)
    assert not recall.available and says in recall.score.reason


@pytest.mark.parametrize(
    ("scores", "expected"),
    [([0.2, 0.9, 0.5], 0.4), ([1.0, 1.0, 0.0], 0.0), ([-3.0, -1.0, -2.0], 1.0)],
)
def test_margin_between_the_two_best(scores, expected):
    assert measure(evidence("a", "x", "y", "z", scores=scores))[1].value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("scores", "says"),
    [([], "no documents"), ([0.5], "one document"), ([0.5, None], "1 of 2"), ([0.5, float("nan")], "1 of 2")],
)
def test_margin_unavailable(scores, says):
    _, margin, *_ = measure(evidence("a", *["x"] * len(scores), scores=scores))
    assert not margin.available and says in margin.score.reason


@settings(max_examples=150, deadline=None)
@given(
    answer=st.text(max_size=60),
    question=st.text(max_size=30),
    texts=st.lists(st.text(max_size=60), min_size=1, max_size=5),
)
def test_recall_is_a_share_and_more_text_never_lowers_it(answer, question, texts):
    idf = {"x": 1.0}
    recall, *_ = measure(evidence(answer, *texts, question=question), idf=idf)
    if recall.value is not None:
        assert 0.0 <= recall.value <= 1.0 + 1e-9
        more, *_ = measure(evidence(answer, *texts, answer, question=question), idf=idf)
        assert more.value == pytest.approx(1.0)


def test_a_hundred_thousand_characters():
    recall, *_ = measure(evidence("word " * 20_000, "word", question="q " * 50_000))
    assert recall.value == 1.0


def test_similarity_is_the_largest_cosine_that_the_retriever_tells():
    near = Document(id="a", text="x", metadata={"retrieval": {"bm25": 3.0, "cosine": 0.4}})
    nearer = Document(id="b", text="y", metadata={"retrieval": {"bm25": None, "cosine": 0.7}})
    asked = Evidence(call=Call.ask("q?"), response=Response(text="x"), documents=(near, nearer))
    assert measure(asked)[2].value == pytest.approx(0.7)


@pytest.mark.parametrize(
    "told", [{}, {"retrieval": None}, {"retrieval": {"cosine": None}}, {"retrieval": {"cosine": True}}]
)
def test_similarity_is_unavailable_where_no_cosine_is_told(told):
    document = Document(id="a", text="x", metadata=told)
    signal = measure(Evidence(call=Call.ask("q?"), response=Response(text="x"), documents=(document,)))[2]
    assert not signal.available and "cosine" in signal.score.reason
