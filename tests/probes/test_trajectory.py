from __future__ import annotations

import math
from typing import Any

import pytest

from demur.core.call import Call
from demur.core.errors import ConfigurationError
from demur.core.evidence import Evidence
from demur.core.response import Response, TokenTrace, TopToken
from demur.core.signal import Signal, Unavailable
from demur.probes.thinking import thinking_end
from demur.probes.trajectory import Trajectory, TrajectorySettings


def top(*logprobs: float | None) -> tuple[TopToken, ...]:
    return tuple(TopToken(token=str(i), logprob=value) for i, value in enumerate(logprobs))


def with_confidence(values: list[float], **more: Any) -> TokenTrace:
    """A trace whose token confidences (top 2) are the values: log-probabilities -(C - 0.5) and -(C + 0.5)."""
    return TokenTrace(
        logprobs=tuple(-(c - 0.5) for c in values), top=tuple(top(-(c - 0.5), -(c + 0.5)) for c in values), **more
    )


def measure(trace: TokenTrace | None, **settings: Any) -> dict[str, Signal]:
    probe = Trajectory(TrajectorySettings(**{"top_k": 2, "window": 3} | settings))
    evidence = Evidence(call=Call.ask("q"), response=Response(trace=trace))
    return {signal.name: signal for signal in probe.measure(evidence)}


def reason(signal: Signal) -> str:
    assert isinstance(signal.score, Unavailable), signal
    return signal.score.reason


RISING = [1.0, 3.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 5.0, 6.0]


def test_windows_worked_by_hand() -> None:
    got = measure(with_confidence([4.0, 1.0, 1.0, 7.0, 4.0]))
    # Windows of three: 2, 3, 4.
    assert got["trajectory.lowest_window"].value == pytest.approx(2.0)
    assert got["trajectory.tail"].value == pytest.approx(4.0)
    assert got["trajectory.mean_logprob"].value == pytest.approx(-(17.0 / 5 - 0.5))
    assert got["trajectory.log_tokens"].value == pytest.approx(math.log(6))
    # A tenth of three windows is less than one: the lowest.
    assert got["trajectory.bottom_share"].value == pytest.approx(2.0)
    wider = measure(with_confidence([4.0, 1.0, 1.0, 7.0, 4.0]), bottom=0.7)
    assert wider["trajectory.bottom_share"].value == pytest.approx(2.5)


def test_bottom_share_takes_the_lowest_tenth_of_the_windows() -> None:
    # 20 windows of one token: the lowest two are 1 and 2.
    got = measure(with_confidence([float(n) for n in range(20, 0, -1)]), window=1)
    assert got["trajectory.bottom_share"].value == pytest.approx(1.5)
    assert got["trajectory.lowest_window"].value == pytest.approx(1.0)


def test_a_shorter_trace_is_one_window() -> None:
    got = measure(with_confidence([1.0, 4.0]), window=50)
    for name in ("lowest_window", "bottom_share", "tail"):
        assert got[f"trajectory.{name}"].value == pytest.approx(2.5), name


def test_only_the_k_likeliest_count() -> None:
    listed = TokenTrace(logprobs=(-1.0,), top=(top(-9.0, -1.0, -3.0),))
    assert measure(listed)["trajectory.tail"].value == pytest.approx(2.0)
    assert measure(listed, top_k=3)["trajectory.tail"].value == pytest.approx(13.0 / 3)
    assert "lists 3 top tokens, 4 are needed" in reason(measure(listed, top_k=4)["trajectory.tail"])


def test_consilience_worked_by_hand() -> None:
    # Ten tokens of thinking before two of answer: last fifth (5 + 6)/2, first fifth (1 + 3)/2.
    got = measure(with_confidence([*RISING, 9.0, 9.0], answer_start=10))
    assert got["trajectory.consilience"].value == pytest.approx(5.5 - 3 * 2.0)
    changed = measure(with_confidence([*RISING, 9.0, 9.0], answer_start=10), initial_weight=1.0, ends=0.5)
    assert changed["trajectory.consilience"].value == pytest.approx(17 / 5 - 10 / 5)


def test_consilience_stops_at_the_end_of_thinking() -> None:
    tokens = ("a ",) * 10 + ("</", "think", ">", "The answer is ", "4")
    trace = with_confidence([*RISING, 9.0, 9.0, 9.0, 9.0, 9.0], tokens=tokens, answer_start=14)
    assert thinking_end(trace, "</think>") == (10, "")
    assert measure(trace)["trajectory.consilience"].value == pytest.approx(-0.5)


def test_the_same_throughout_is_minus_twice_its_confidence() -> None:
    # Why it ranks traces of one question, and is no absolute measure.
    for level in (2.0, 4.0):
        got = measure(with_confidence([level] * 12, answer_start=10))
        assert got["trajectory.consilience"].value == pytest.approx(-2.0 * level)


@pytest.mark.parametrize(
    ("trace", "why"),
    [
        (with_confidence([2.0] * 12), "no token before the answer"),
        (with_confidence([2.0] * 12, answer_start=5), "begins at token 5 of 12: not at the end"),
        (with_confidence([2.0] * 5, answer_start=4), "4 tokens of thinking: a share of 0.2 is no token"),
        (with_confidence([2.0] * 12, answer_start=12), "no answer"),
        (with_confidence([2.0] * 2, answer_start=1, tokens=("</think>", "4")), "nothing stands before '</think>'"),
        (with_confidence([2.0] * 12, answer_start=10).model_copy(update={"top": ()}), "no top tokens"),
    ],
)
def test_without_thinking_there_is_no_consilience(trace: TokenTrace, why: str) -> None:
    assert why in reason(measure(trace)["trajectory.consilience"])


def test_a_hole_is_felt_only_where_it_is_read() -> None:
    whole = with_confidence([*RISING, 9.0, 9.0], answer_start=10)
    tops = list(whole.top)
    tops[5] = top(-1.0, math.nan)
    got = measure(whole.model_copy(update={"top": tuple(tops)}))
    for name in ("lowest_window", "bottom_share"):
        assert reason(got[f"trajectory.{name}"]) == "token 5, top list: log-probability of token 1 is nan"
    assert got["trajectory.tail"].value == pytest.approx(8.0)
    assert got["trajectory.consilience"].value == pytest.approx(-0.5)
    assert got["trajectory.mean_logprob"].available


def test_flat_over_a_large_vocabulary_looks_sure_to_the_top_five_but_not_to_the_whole() -> None:
    # p = .6 on one word, the rest flat over 50,000; 1 - p is not below 50,000^(-1/4) = .067.
    size, p = 50_000, 0.6
    rest = math.log((1 - p) / (size - 1))
    flat = -math.log(size)

    def trace(first: float, others: float) -> TokenTrace:
        kl = -math.log(size) - (first + (size - 1) * others) / size
        return TokenTrace(logprobs=(first,), top=(top(first, *[others] * 4),), uniform_kl=(kl,))

    peaked, uniform = trace(math.log(p), rest), trace(flat, flat)
    name = "trajectory.tail"
    peaked_5, uniform_5 = measure(peaked, top_k=5)[name].value, measure(uniform, top_k=5)[name].value
    assert peaked_5 is not None and uniform_5 is not None
    assert peaked_5 < uniform_5 == pytest.approx(math.log(size))
    whole = measure(peaked, self_certainty=True)[f"{name}_kl"].value
    none = measure(uniform, self_certainty=True)[f"{name}_kl"].value
    assert whole is not None
    assert none is not None
    assert whole > none == pytest.approx(0.0, abs=1e-9)
    surer, bound = math.log(0.95), math.log(0.05 / (size - 1))
    sharp = measure(trace(surer, bound), top_k=5)[name].value
    assert sharp is not None
    assert sharp > uniform_5


def test_the_whole_vocabulary_is_another_scale_under_another_name() -> None:
    probe = Trajectory(TrajectorySettings(self_certainty=True))
    assert probe.signal_names == (
        "trajectory.consilience_kl",
        "trajectory.lowest_window_kl",
        "trajectory.bottom_share_kl",
        "trajectory.tail_kl",
        "trajectory.mean_logprob",
        "trajectory.log_tokens",
    )
    trace = TokenTrace(logprobs=(-1.0,) * 12, uniform_kl=(1.0, 2.0, *[3.0] * 6, 4.0, 5.0, 9.0, 9.0), answer_start=10)
    got = measure(trace, self_certainty=True)
    assert got["trajectory.consilience_kl"].value == pytest.approx(4.5 - 3 * 1.5)
    assert got["trajectory.lowest_window_kl"].value == pytest.approx(2.0)
    missing = measure(TokenTrace(logprobs=(-1.0,)), self_certainty=True)["trajectory.tail_kl"]
    assert "uniform" in reason(missing)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"top_k": 1}, "top_k=1"),
        ({"window": 0}, "window=0"),
        ({"bottom": 0.0}, "bottom=0.0"),
        ({"bottom": math.nan}, "bottom=nan"),
        ({"ends": 0.6}, "ends=0.6"),
        ({"initial_weight": math.inf}, "initial_weight=inf"),
        ({"initial_weight": -1.0}, "initial_weight=-1.0"),
        ({"end_of_thinking": ""}, "end_of_thinking"),
    ],
)
def test_settings_outside_their_range_are_refused(changed: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        TrajectorySettings(**changed)
