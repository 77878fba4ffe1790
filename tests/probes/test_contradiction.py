"""ContradictionProbe with a scripted judge: pairs, maxima and means by hand, and Unavailable for every odd answer."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.core.call import Call
from demur.core.decision import Stage
from demur.core.errors import ConfigurationError
from demur.core.evidence import Document, Evidence
from demur.core.protocols import Probe
from demur.core.response import Response
from demur.core.signal import Direction
from demur.probes.contradiction import ContradictionProbe


class Script:
    """A judge that answers from a table and remembers what it was asked."""

    def __init__(self, table, default=(0.2, 0.5, 0.3)):
        self.table = table
        self.default = default
        self.calls = []

    def __call__(self, pairs):
        self.calls.append(list(pairs))
        return [self.table.get(pair, self.default) for pair in pairs]


def evidence(answer="Oslo", texts=(), samples=(), question="Where is it?"):
    return Evidence(
        call=Call.ask(question),
        response=None if answer is None else Response(text=answer),
        documents=tuple(Document(id=str(place), text=text) for place, text in enumerate(texts)),
        samples=tuple(Response(text=text) for text in samples),
    )


def measured(judge, found, **options):
    signals = ContradictionProbe(judge, **options).measure(found)
    assert tuple(signal.name for signal in signals) == ContradictionProbe.signal_names
    return signals


def test_it_is_a_probe():
    probe = ContradictionProbe(Script({}))
    assert isinstance(probe, Probe)
    assert (probe.stage, probe.cost_rank) == (Stage.AFTER, 1)


def test_the_document_that_contradicts_most_counts_and_the_one_that_entails_most():
    judge = Script(
        {("it is Oslo", "Where is it? Oslo"): (0.9, 0.08, 0.02), ("Rome", "Where is it? Oslo"): (0.05, 0.25, 0.7)}
    )
    contradiction, entailment, among = measured(judge, evidence("  Oslo\n", ["it is Oslo", "Rome", " "]))
    assert (contradiction.value, contradiction.score.direction) == (0.7, Direction.LOWER_IS_SURER)
    assert (entailment.value, entailment.score.direction) == (0.9, Direction.HIGHER_IS_SURER)
    assert not among.available and "0 samples" in among.score.reason
    assert judge.calls == [[("it is Oslo", "Where is it? Oslo"), ("Rome", "Where is it? Oslo")]]


def test_samples_are_compared_both_ways_and_each_distinct_pair_is_judged_once():
    table = {("a", "b"): (0.0, 0.4, 0.6), ("b", "a"): (0.0, 0.8, 0.2), ("a", "a"): (1.0, 0.0, 0.0)}
    judge = Script(table)
    *_, among = measured(judge, evidence(samples=["a", "b", "a"]), with_question=False)
    # ordered pairs: ab ab' aa | ba ba | aa, that is .6, 0, .2, .2, 0, .6
    assert among.value == pytest.approx((0.6 + 0.0 + 0.2 + 0.2 + 0.0 + 0.6) / 6)
    assert among.score.direction is Direction.LOWER_IS_SURER
    assert [sorted(call) for call in judge.calls] == [[("a", "a"), ("a", "b"), ("b", "a")]]


def test_only_the_first_samples_are_compared():
    judge = Script({})
    measured(judge, evidence(samples=[str(place) for place in range(20)]), most_samples=3)
    assert len(judge.calls[0]) == 6


def test_agreeing_evidence_is_surer_than_contradicting_evidence():
    agrees = measured(Script({}, (0.98, 0.01, 0.01)), evidence(texts=["x"], samples=["y", "z"]))
    contradicts = measured(Script({}, (0.01, 0.01, 0.98)), evidence(texts=["x"], samples=["y", "z"]))
    for sure, unsure in zip(agrees, contradicts, strict=True):
        assert sure.score.oriented > unsure.score.oriented


@pytest.mark.parametrize(
    ("found", "place", "says"),
    [
        (evidence(), 0, "no documents"),
        (evidence(None, ["x"]), 1, "no answer text"),
        (evidence(" ", ["x"]), 0, "no answer text"),
        (evidence("Oslo", [" ", ""]), 1, "hold no text"),
        (evidence(samples=["a"]), 2, "1 samples"),
        (evidence(samples=["a", " "]), 2, "sample 1 has no text"),
    ],
)
def test_unavailable_with_a_reason(found, place, says):
    judge = Script({})
    signal = measured(judge, found)[place]
    assert not signal.available and says in signal.score.reason
    assert judge.calls == []


@pytest.mark.parametrize(
    "triple",
    [
        (math.nan, 0.5, 0.5),
        (0.5, 0.5, math.nan),
        (0.5, 0.6, 0.5),
        (-0.1, 0.6, 0.5),
        (math.inf, 0.0, 0.0),
        (0.5, 0.5),
        (0.2, 0.2, 0.2, 0.4),
    ],
)
def test_one_judgement_that_is_no_probability_makes_all_unavailable(triple):
    judge = Script({("b", "Where is it? Oslo"): triple})
    for signal in measured(judge, evidence(texts=["a", "b"], samples=["c", "d"])):
        assert not signal.available and "not the probabilities" in signal.score.reason


def test_a_judge_that_loses_a_pair_makes_all_unavailable():
    for signal in measured(lambda pairs: [(1.0, 0.0, 0.0)], evidence(texts=["a", "b"], samples=["c", "d"])):
        assert not signal.available and "1 judgements for 4 pairs" in signal.score.reason


@pytest.mark.parametrize("options", [{"nli": "model"}, {"nli": Script({}), "most_samples": 1}])
def test_settings_that_cannot_work_are_refused(options):
    with pytest.raises(ConfigurationError):
        ContradictionProbe(**options)


@settings(max_examples=60, deadline=None)
@given(
    shares=st.lists(st.tuples(*[st.floats(0.01, 1.0)] * 3), min_size=1, max_size=5),
)
def test_values_are_the_extremes_over_documents(shares):
    triples = [tuple(part / sum(each) for part in each) for each in shares]
    texts = [f"text {place}" for place in range(len(triples))]
    judge = Script({(text, "Where is it? Oslo"): triple for text, triple in zip(texts, triples, strict=True)})
    contradiction, entailment, _ = measured(judge, evidence(texts=texts))
    assert contradiction.value == max(triple[2] for triple in triples)
    assert entailment.value == max(triple[0] for triple in triples)
