"""Every grey-box signal, whatever its probe: the right sign, the right names, nothing made up for what is missing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.core.call import Call
from demur.core.evidence import Captured, Evidence
from demur.core.protocols import Probe
from demur.core.response import Response, TokenTrace, TopToken
from demur.core.signal import Direction, RawScore
from demur.probes.prefix_confidence import PrefixConfidence
from demur.probes.prefix_positions import Positions
from demur.probes.prompt_statistics import PromptStatistics
from demur.probes.question_likelihood import QuestionLikelihood
from demur.probes.token_statistics import TokenStatistics
from demur.probes.trajectory import Trajectory, TrajectorySettings

VOCABULARY = 8
PEAKED, UNIFORM = 0.97, 1 / VOCABULARY

PROBES: dict[str, Probe] = {
    "tokens": TokenStatistics(),
    "prompt": PromptStatistics(),
    "question": QuestionLikelihood(),
    "trajectory": Trajectory(TrajectorySettings(window=8)),
    "trajectory, whole vocabulary": Trajectory(TrajectorySettings(window=8, self_certainty=True)),
    "prefix": PrefixConfidence(Positions(every=8)),
}

# They compare a beginning with an end: what is alike throughout says nothing about them.
DEVELOPING = frozenset({"trajectory.consilience", "trajectory.consilience_kl", "prefix.slope"})


def trace_of(peaks: Sequence[float]) -> TokenTrace:
    """One token a peak: that probability for the chosen token, the rest spread evenly over the vocabulary."""
    rows = [np.array([p, *[(1 - p) / (VOCABULARY - 1)] * (VOCABULARY - 1)]) for p in peaks]
    return TokenTrace(
        tokens=("word ",) * len(rows),
        logprobs=tuple(float(np.log(row[0])) for row in rows),
        top=tuple(tuple(TopToken(token=str(i), logprob=float(v)) for i, v in enumerate(np.log(r[:5]))) for r in rows),
        entropy=tuple(float(-(row * np.log(row)).sum()) for row in rows),
        uniform_kl=tuple(float(-math.log(VOCABULARY) - np.log(row).mean()) for row in rows),
        answer_start=len(rows) // 2,
    )


def evidence_of(peaks: Sequence[float], *, question: str = "why") -> Evidence:
    first = trace_of(peaks[:1])
    captured = Captured(
        prompt_entropy=first.entropy[0],
        prompt_top_logprob=first.logprobs[0],
        prompt_tokens=len(question) + 20,
        question_logprobs=np.log(np.array(peaks[: len(question)], dtype=np.float32)),
    )
    return Evidence(call=Call.ask(question), response=Response(text="x", trace=trace_of(peaks)), captured=captured)


SIGNALS = [(label, name) for label, probe in PROBES.items() for name in probe.signal_names]


@pytest.mark.parametrize(("label", "name"), SIGNALS, ids=[f"{name} ({label})" for label, name in SIGNALS])
def test_peaked_is_surer_than_uniform(label: str, name: str) -> None:
    if name in DEVELOPING:
        sure, unsure = evidence_of([UNIFORM] * 20 + [PEAKED] * 20), evidence_of([PEAKED] * 20 + [UNIFORM] * 20)
    else:
        sure, unsure = evidence_of([PEAKED] * 40), evidence_of([UNIFORM] * 60, question="why on earth")
    surer = {signal.name: signal.score for signal in PROBES[label].measure(sure)}[name]
    lesser = {signal.name: signal.score for signal in PROBES[label].measure(unsure)}[name]
    assert isinstance(surer, RawScore), surer
    assert isinstance(lesser, RawScore), lesser
    assert surer.oriented > lesser.oriented
    assert surer.direction is lesser.direction
    assert (surer.value > lesser.value) is (surer.direction is Direction.HIGHER_IS_SURER)


@pytest.mark.parametrize("label", PROBES)
def test_every_probe_names_all_it_gives_and_gives_all_it_names(label: str) -> None:
    probe = PROBES[label]
    assert isinstance(probe, Probe)
    for evidence in (
        Evidence(call=Call.ask("?")),
        Evidence(call=Call.ask("?"), response=Response(), captured=Captured()),
        Evidence(call=Call.ask("?"), response=Response(trace=TokenTrace())),
        evidence_of([PEAKED]),
        evidence_of([UNIFORM] * 40),
    ):
        signals = probe.measure(evidence)
        assert tuple(signal.name for signal in signals) == probe.signal_names
        for signal in signals:
            assert signal.available or signal.score.reason, signal.name  # type: ignore[union-attr]


def test_no_two_probes_share_a_name() -> None:
    probes = [probe for label, probe in PROBES.items() if "vocabulary" not in label]
    names = [name for probe in probes for name in probe.signal_names]
    assert len(set(names)) == len(names)
    assert len({probe.name for probe in probes}) == len(probes)


bad_values = st.sampled_from([None, math.nan, math.inf, -math.inf])
holes = st.lists(
    st.tuples(st.sampled_from(["logprobs", "top", "entropy", "uniform_kl"]), st.integers(0, 39), bad_values),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize("label", [label for label in PROBES if label not in ("prompt", "question")])
@given(made=holes)
def test_a_signal_is_the_same_with_a_hole_it_does_not_read_or_unavailable(
    label: str, made: list[tuple[str, int, float | None]]
) -> None:
    whole = evidence_of([0.3 + 0.015 * place for place in range(40)])
    assert whole.response is not None and whole.response.trace is not None
    trace = whole.response.trace
    fields: dict[str, list[object]] = {
        name: list(getattr(trace, name)) for name in ("logprobs", "top", "entropy", "uniform_kl")
    }
    for field, place, bad in made:
        row = (TopToken(token="x", logprob=bad), *trace.top[place][1:])
        fields[field][place] = row if field == "top" else bad
    torn = TokenTrace(
        tokens=trace.tokens, answer_start=trace.answer_start, **{name: tuple(v) for name, v in fields.items()}
    )  # type: ignore[arg-type]
    probe = PROBES[label]
    complete = {signal.name: signal for signal in probe.measure(whole)}
    left = probe.measure(Evidence(call=whole.call, response=Response(trace=torn)))
    assert tuple(signal.name for signal in left) == probe.signal_names
    for signal in left:
        assert not signal.available or signal == complete[signal.name], signal.name


numbers = st.one_of(st.none(), st.floats(), st.floats(max_value=0.0))


@pytest.mark.parametrize("label", PROBES)
@given(
    logprobs=st.lists(numbers, max_size=40),
    tops=st.lists(numbers, min_size=1, max_size=6),
    question=st.lists(st.floats(), max_size=6),
    start=st.integers(0, 40),
)
def test_whatever_comes_in_nothing_raises_and_scores_are_finite(
    label: str, logprobs: list[float | None], tops: list[float | None], question: list[float], start: int
) -> None:
    count = len(logprobs)
    trace = TokenTrace(
        tokens=("\n\n",) * count,
        logprobs=tuple(logprobs),
        top=(tuple(TopToken(token="t", logprob=value) for value in tops),) * count,
        entropy=tuple(logprobs),
        uniform_kl=tuple(None if value is None else -value for value in logprobs),
        answer_start=min(start, count),
    )
    captured = Captured(question_logprobs=np.array(question))
    signals = PROBES[label].measure(Evidence(call=Call.ask("?"), response=Response(trace=trace), captured=captured))
    assert tuple(signal.name for signal in signals) == PROBES[label].signal_names
    assert all(signal.value is None or math.isfinite(signal.value) for signal in signals)
