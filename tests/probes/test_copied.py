"""grounding.adjusted_logprob and copied_share: what was copied speaks by the documents, the rest by the model."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.core.call import Call
from demur.core.evidence import Document, Evidence
from demur.core.response import Response, TokenTrace
from demur.probes.copied import copied_support, word_positions
from demur.probes.grounding import GroundingProbe

IDF = {"warsaw": 3.0, "poland": 1.0, "1810": 4.0}


def asked(tokens, logprobs, *texts, question="Where was Chopin born?", **trace):
    return Evidence(
        call=Call.ask(question),
        response=Response(text="".join(tokens), trace=TokenTrace(tokens=tokens, logprobs=logprobs, **trace)),
        documents=tuple(Document(id=str(i), text=text) for i, text in enumerate(texts)),
    )


def measured(evidence, idf=IDF):
    signals = {signal.name: signal for signal in GroundingProbe(idf=idf).measure(evidence)}
    assert tuple(signals) == GroundingProbe.signal_names
    return signals["grounding.adjusted_logprob"], signals["grounding.copied_share"]


def test_words_are_aligned_to_tokens_by_their_characters():
    tokens = ("War", "saw", ",", " Pol", "", "and", "\n", "Żelaz", "owa東", "京")
    assert word_positions(tokens) == [
        ("warsaw", (0, 1)),
        ("poland", (3, 5)),
        ("żelazowa", (7, 8)),
        ("東", (8,)),
        ("京", (9,)),
    ]


def test_a_copied_token_speaks_by_the_documents_and_the_rest_by_the_model():
    # A = {warsaw 3, poland 1, 1810 4}, total 8. Document 1 carries (3 + 1)/8, document 2 carries 1/8.
    # warsaw and poland: best document that holds them carries 1/2. 1810 and "," keep their own.
    found = asked(
        (" War", "saw", ",", " Poland", " 1810"),
        (-9.0, -9.0, -0.5, -9.0, -2.0),
        "In Warsaw, Poland.",
        "Poland is large.",
    )
    adjusted, share = measured(found)
    assert adjusted.value == pytest.approx((3 * math.log(0.5) - 0.5 - 2.0) / 5)
    assert share.value == pytest.approx(3 / 5)


def test_idf_over_the_documents_themselves_where_none_is_given():
    found = asked((" red", " blue"), (-1.0, -1.0), "red", "green")
    red = math.log(1 + (2 - 1 + 0.5) / (1 + 0.5))
    blue = math.log(1 + (2 - 0 + 0.5) / (0 + 0.5))
    adjusted, share = measured(found, idf=None)
    assert adjusted.value == pytest.approx((math.log(red / (red + blue)) - 1.0) / 2)
    assert share.value == 0.5


def test_copied_whole_from_one_passage_is_certain_however_likely_the_tokens():
    adjusted, share = measured(asked((" Warsaw", " Poland"), (-5.0, -7.0), "Warsaw, Poland"))
    assert (adjusted.value, share.value) == (0.0, 1.0)


def test_the_question_and_articles_are_not_copied():
    found = asked((" The", " Chopin", " Vienna"), (-1.0, -2.0, -3.0), "the chopin museum")
    adjusted, share = measured(found)
    assert (adjusted.value, share.value) == (pytest.approx(-2.0), 0.0)


def test_scaffolding_is_left_out_and_a_word_across_it_counts():
    # '{"city": "' is format by position; " Warsaw" is content.
    tokens, logprobs = ('{"', "poland", '": "', "War", "saw", '"}'), (-1.0, -50.0, -1.0, -2.0, -3.0, -1.0)
    found = asked(tokens, logprobs, "Warsaw and Poland", scaffold=(0, 1, 2, 5))
    adjusted, share = measured(found)
    assert (adjusted.value, share.value) == (0.0, 1.0)


def test_peaked_is_surer_than_uniform():
    peaked, _ = measured(asked((" Paris", "!"), (-0.01, -0.01), "Warsaw"))
    uniform, _ = measured(asked((" Paris", "!"), (-10.0, -10.0), "Warsaw"))
    assert peaked.score.oriented > uniform.score.oriented
    supported, _ = measured(asked((" Warsaw", " Poland"), (-1.0, -1.0), "Warsaw Poland"))
    scattered, _ = measured(asked((" Warsaw", " Poland"), (-1.0, -1.0), "Warsaw", "Poland"))
    assert supported.score.oriented > scattered.score.oriented


@pytest.mark.parametrize("bad", [None, float("nan"), -math.inf, 0.5])
def test_a_missing_logprob_counts_only_where_it_is_used(bad):
    used, share = measured(asked((" Warsaw", "!"), (-1.0, bad), "Warsaw"))
    assert not used.available and "token 1" in used.score.reason
    assert share.value == 0.5
    unused, _ = measured(asked((" Warsaw", "!"), (bad, -1.0), "Warsaw"))
    assert unused.value == pytest.approx(-0.5)


def test_unavailable_with_a_reason():
    document = (Document(id="1", text="Warsaw"),)
    whole = asked((" Warsaw",), (-1.0,), "Warsaw")
    cases = {
        "no documents": Evidence(call=whole.call, response=whole.response),
        "no token trace": Evidence(call=whole.call, response=Response(text="Warsaw"), documents=document),
        "no token strings": Evidence(
            call=whole.call, response=Response(text="W", trace=TokenTrace(logprobs=(-1.0,))), documents=document
        ),
        "span is empty": asked((" Warsaw",), (-1.0,), "Warsaw", answer_start=1),
    }
    cases["no token trace "] = Evidence(call=whole.call, documents=document)
    for reason, evidence in cases.items():
        for signal in measured(evidence):
            assert not signal.available and reason.strip() in signal.score.reason


@settings(max_examples=150, deadline=None)
@given(
    tokens=st.lists(st.text(max_size=6), min_size=1, max_size=12),
    texts=st.lists(st.text(max_size=30), min_size=1, max_size=4),
    question=st.text(max_size=10),
    data=st.data(),
)
def test_scores_stay_in_range_and_full_support_never_hurts(tokens, texts, question, data):
    logprobs = tuple(data.draw(st.floats(-30.0, 0.0)) for _ in tokens)
    adjusted, share = measured(asked(tuple(tokens), logprobs, *texts, question=question), idf={"x": 1.0})
    assert 0.0 <= share.value <= 1.0
    assert min(logprobs) + math.log(1e-6) <= adjusted.value <= 0.0
    whole = asked(tuple(tokens), logprobs, *texts, "".join(tokens), question=question)
    more, copied = measured(whole, idf={"x": 1.0})
    assert copied.value >= share.value
    support = copied_support(whole.response.trace, set(), [set()], lambda words: dict.fromkeys(words, 1.0))
    assert support == {}
    if copied.value == 1.0:
        assert more.value == pytest.approx(0.0, abs=1e-12)
