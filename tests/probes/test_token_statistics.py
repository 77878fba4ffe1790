from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.core.call import Call
from demur.core.errors import ConfigurationError
from demur.core.evidence import Evidence
from demur.core.protocols import Probe
from demur.core.response import Response, TokenTrace, TopToken
from demur.core.signal import RawScore, Signal
from demur.probes.token_statistics import TokenStatistics


def measure(trace: TokenTrace | None, *, top_k: int = 2) -> dict[str, Signal]:
    evidence = Evidence(call=Call.ask("q"), response=Response(text="a", trace=trace))
    return {signal.name: signal for signal in TokenStatistics(top_k).measure(evidence)}


def top(*logprobs: float | None) -> tuple[TopToken, ...]:
    return tuple(TopToken(token=str(i), logprob=value) for i, value in enumerate(logprobs))


def distribution(probabilities: list[float], tokens: int) -> TokenTrace:
    logs = [math.log(p) for p in probabilities]
    entropy = -sum(p * math.log(p) for p in probabilities)
    from_uniform = -math.log(len(logs)) - sum(logs) / len(logs)
    return TokenTrace(
        logprobs=(logs[0],) * tokens,
        top=(top(*logs),) * tokens,
        entropy=(entropy,) * tokens,
        uniform_kl=(from_uniform,) * tokens,
    )


def test_it_is_a_probe_and_names_what_it_gives() -> None:
    probe = TokenStatistics()
    assert isinstance(probe, Probe)
    evidence = Evidence(call=Call.ask("q"), response=Response(trace=distribution([0.5, 0.2, 0.1, 0.1, 0.1], 3)))
    signals = probe.measure(evidence)
    assert tuple(s.name for s in signals) == probe.signal_names
    assert all(s.available for s in signals)


def test_worked_by_hand() -> None:
    # Two answer tokens between a scaffold token on each side: p = 1/2 and 1/8.
    trace = TokenTrace(
        logprobs=(-9.0, math.log(0.5), math.log(0.125), -9.0),
        top=(top(-1.0), top(math.log(0.5), math.log(0.25)), top(math.log(0.5), math.log(0.125)), ()),
        entropy=(5.0, 1.0, 2.0, 5.0),
        answer_start=1,
        answer_end=3,
    )
    got = {name: signal.value for name, signal in measure(trace).items()}
    assert got["token.mean_logprob"] == pytest.approx(-2.0 * math.log(2.0))  # (-1 - 3)/2 ln 2
    assert got["token.min_logprob"] == pytest.approx(-3.0 * math.log(2.0))
    assert got["token.sum_logprob"] == pytest.approx(-4.0 * math.log(2.0))
    assert got["token.first_logprob"] == pytest.approx(-math.log(2.0))
    assert got["token.perplexity"] == pytest.approx(4.0)
    assert got["token.mean_entropy"] == pytest.approx(1.5)
    assert got["token.max_entropy"] == pytest.approx(2.0)
    # Renormalised pairs: (2/3, 1/3) and (4/5, 1/5).
    first, second = math.log(3) - 2 / 3 * math.log(2), math.log(5) - 0.8 * math.log(4)
    assert got["token.mean_entropy_top2"] == pytest.approx((first + second) / 2)
    assert got["token.max_entropy_top2"] == pytest.approx(first)
    assert got["token.mean_margin"] == pytest.approx((math.log(2.0) + math.log(4.0)) / 2)
    assert got["token.count"] == 2.0


def test_peaked_is_surer_than_uniform_in_every_signal() -> None:
    peaked = measure(distribution([0.97, 0.02, 0.01], 2))
    uniform = measure(distribution([1 / 3 + 1e-9, 1 / 3, 1 / 3 - 1e-9], 4))
    for name in TokenStatistics(2).signal_names:
        sure, unsure = peaked[name].score, uniform[name].score
        assert isinstance(sure, RawScore) and isinstance(unsure, RawScore), name
        assert sure.oriented > unsure.oriented, name


def test_scaffolding_inside_the_span_is_left_out_of_everything() -> None:
    # {"city": "Rome"}: braces and key are format, "Ro" and "me" (p = 1/2, 1/4) content.
    format_token = (-7.0, top(-7.0, -7.5), 9.0, 0.0)
    first, second = (
        (math.log(0.5), top(math.log(0.5), math.log(0.3)), 1.0, 4.0),
        (math.log(0.25), top(-1.0, -1.5), 2.0, 2.0),
    )
    rows = [format_token, format_token, first, format_token, second, format_token, format_token]
    logprobs, tops, entropy, uniform_kl = zip(*rows, strict=True)
    trace = TokenTrace(
        logprobs=logprobs,
        top=tops,
        entropy=entropy,
        uniform_kl=uniform_kl,
        answer_start=1,
        answer_end=6,
        scaffold=(1, 3, 5),
    )
    alone = TokenTrace(logprobs=logprobs[2:5:2], top=tops[2:5:2], entropy=entropy[2:5:2], uniform_kl=uniform_kl[2:5:2])
    got = measure(trace)
    assert got == measure(alone)
    assert all(signal.available for signal in got.values())
    assert got["token.sum_logprob"].value == pytest.approx(math.log(1 / 8))
    assert got["token.mean_entropy"].value == 1.5
    assert got["token.self_certainty"].value == 3.0
    assert got["token.count"].value == 2.0
    nothing = measure(trace.model_copy(update={"scaffold": (1, 2, 3, 4, 5)}))
    assert not any(signal.available for signal in nothing.values())


def test_the_later_signals_worked_by_hand() -> None:
    # p = 1/2, 1/8, 1/4 and 3/4 over two words, so the runner-up of each has the rest.
    chances = (1 / 2, 1 / 8, 1 / 4, 3 / 4)
    trace = TokenTrace(
        logprobs=tuple(map(math.log, chances)),
        top=tuple(top(*sorted((math.log(p), math.log(1 - p)), reverse=True)) for p in chances),
        # KL(uniform || p) over two words: -ln 2 - (ln p + ln(1 - p))/2, so 0 for one half.
        uniform_kl=tuple(-math.log(2.0) - math.log(p * (1 - p)) / 2 for p in chances),
    )
    got = {name: signal.value for name, signal in measure(trace).items()}
    assert got["token.confidence_as_reward"] == pytest.approx(13 / 32)
    assert got["token.median_logprob"] == pytest.approx(-1.5 * math.log(2.0))
    assert got["token.low_share"] == 0.5  # one half is not below one half
    # Products p(1-p): 1/4, 7/64, 3/16, 3/16.
    logs = math.log(1 / 4) + math.log(7 / 64) + 2 * math.log(3 / 16)
    assert got["token.self_certainty"] == pytest.approx(-math.log(2.0) - logs / 8)
    assert got["token.first_margin"] == 0.0
    assert got["token.min_margin"] == 0.0
    assert got["token.mean_margin"] == pytest.approx((math.log(7.0) + 2 * math.log(3.0)) / 4)


def test_a_row_of_log_probabilities_alone_gives_what_it_always_gave() -> None:
    # What grading files hold: {"logprobs": [...]}.
    got = {name: signal.value for name, signal in measure(TokenTrace(logprobs=(-0.5, -1.5, -0.25))).items()}
    assert got["token.mean_logprob"] == pytest.approx(-0.75)
    assert got["token.min_logprob"] == -1.5
    assert got["token.sum_logprob"] == -2.25
    assert got["token.first_logprob"] == -0.5
    assert got["token.perplexity"] == pytest.approx(math.exp(0.75))
    assert got["token.count"] == 3.0
    for name in ("mean_entropy", "max_entropy", "mean_entropy_top2", "mean_margin", "first_margin", "self_certainty"):
        assert got[f"token.{name}"] is None, name


def test_the_first_names_stand_where_they_stood() -> None:
    assert TokenStatistics().signal_names[:11] == (
        "token.mean_logprob",
        "token.min_logprob",
        "token.sum_logprob",
        "token.first_logprob",
        "token.perplexity",
        "token.mean_entropy",
        "token.max_entropy",
        "token.mean_entropy_top5",
        "token.max_entropy_top5",
        "token.mean_margin",
        "token.count",
    )


@pytest.mark.parametrize("bad", [None, math.nan, math.inf, -1.0])
def test_an_unusable_divergence_leaves_the_rest(bad: float | None) -> None:
    got = measure(TokenTrace(logprobs=(-1.0, -1.0), uniform_kl=(3.0, bad)))
    assert not got["token.self_certainty"].available
    assert got["token.mean_logprob"].value == -1.0


def test_a_hole_after_the_first_token_leaves_its_margin() -> None:
    got = measure(TokenTrace(logprobs=(-1.0, -1.0), top=(top(-1.0, -2.5), top(-1.0))))
    assert got["token.first_margin"].value == 1.5
    assert not got["token.min_margin"].available


def test_one_bad_token_among_fifty_shows_in_min() -> None:
    trace = TokenTrace(logprobs=(-0.01,) * 30 + (-12.0,) + (-0.01,) * 19)
    assert measure(trace)["token.min_logprob"].value == -12.0


@pytest.mark.parametrize("bad", [None, math.nan, -math.inf, math.inf, 0.5])
def test_an_unusable_logprob_makes_what_uses_it_unavailable(bad: float | None) -> None:
    got = measure(TokenTrace(logprobs=(-1.0, bad, -1.0)))
    for name in ("mean_logprob", "min_logprob", "sum_logprob", "perplexity"):
        assert not got[f"token.{name}"].available, name
    assert got["token.first_logprob"].value == -1.0
    assert got["token.count"].value == 3.0
    assert not measure(TokenTrace(logprobs=(bad, -1.0)))["token.first_logprob"].available


@pytest.mark.parametrize("bad", [None, math.nan, -math.inf])
def test_unusable_top_lists_and_entropies(bad: float | None) -> None:
    got = measure(TokenTrace(logprobs=(-1.0, -1.0), top=(top(-1.0, -2.0), top(-1.0, bad)), entropy=(1.0, bad)))
    for name in ("mean_margin", "mean_entropy_top2", "max_entropy_top2", "mean_entropy", "max_entropy"):
        assert not got[f"token.{name}"].available, name
    assert got["token.mean_logprob"].value == -1.0


def test_bad_tokens_outside_the_answer_do_not_matter() -> None:
    got = measure(TokenTrace(logprobs=(math.nan, -1.0, None), answer_start=1, answer_end=2))
    assert got["token.mean_logprob"].value == -1.0


@pytest.mark.parametrize("trace", [None, TokenTrace(), TokenTrace(logprobs=(-1.0,), answer_start=1)])
def test_nothing_to_go_on_is_unavailable_everywhere(trace: TokenTrace | None) -> None:
    got = measure(trace)
    assert set(got) == set(TokenStatistics(2).signal_names)
    assert not any(signal.available for signal in got.values())


def test_no_response_yet() -> None:
    assert not any(s.available for s in TokenStatistics().measure(Evidence(call=Call.ask("q"))))


def test_short_top_lists_leave_the_margin() -> None:
    got = measure(TokenTrace(logprobs=(-1.0,), top=(top(-1.0, -2.0),)), top_k=5)
    assert not got["token.mean_entropy_top5"].available
    assert got["token.mean_margin"].value == 1.0


def test_a_perplexity_beyond_floats_is_unavailable() -> None:
    got = measure(TokenTrace(logprobs=(-1e6,)))
    assert not got["token.perplexity"].available
    assert got["token.mean_logprob"].value == -1e6


def test_top_k_of_one_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="top_k=1"):
        TokenStatistics(1)


anything = st.one_of(st.none(), st.floats(max_value=0.0), st.just(math.nan))


@given(st.lists(anything, max_size=8), st.lists(anything, min_size=2, max_size=3))
def test_whatever_comes_in_scores_are_finite_and_ordered(span: list[float | None], tops: list[float | None]) -> None:
    trace = TokenTrace(logprobs=tuple(span), top=(top(*tops),) * len(span), entropy=tuple(span))
    got = measure(trace)
    assert set(got) == set(TokenStatistics(2).signal_names)
    low, mean = got["token.min_logprob"].value, got["token.mean_logprob"].value
    if low is not None and mean is not None:
        assert low <= mean + 1e-9 * abs(mean)
