from __future__ import annotations

import math
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.core.call import Call
from demur.core.decision import Stage
from demur.core.errors import ConfigurationError
from demur.core.evidence import Evidence
from demur.core.response import Response, TokenTrace, TopToken
from demur.core.signal import Direction, RawScore, Signal, Unavailable
from demur.probes.fit_head import fit_head
from demur.probes.prefix_confidence import (
    EarlyStop,
    PrefixConfidence,
    StopHook,
    StopVerdict,
    head_score,
    prefix_trace,
    running_mean_logprob,
)
from demur.probes.prefix_positions import PositionReader, Positions
from demur.probes.signal_table import SignalTable
from demur.probes.token_statistics import TokenStatistics

EVERY_TWO = Positions(every=2, earliest=1)


def measure(trace: TokenTrace | None, probe: PrefixConfidence) -> dict[str, Signal]:
    evidence = Evidence(call=Call.ask("q"), response=Response(trace=trace))
    return {signal.name: signal for signal in probe.measure(evidence)}


@pytest.mark.parametrize(
    ("tokens", "positions", "places"),
    [
        (("a",) * 7, Positions(every=3, earliest=1), (3, 6, 7)),
        (("a",) * 6, Positions(every=3, earliest=1), (3, 6)),
        (("a",) * 7, Positions(every=3, earliest=4), (6, 7)),
        (("a",) * 3, Positions(), (3,)),
        (("One", ".", "\n\n", "Two", "."), Positions(every=None, earliest=1), (3, 5)),
        # Two breaks in two tokens, a blank line with spaces, one token with text after the break.
        (("One", "\n", "\n", "Two"), Positions(every=None, earliest=1), (3, 4)),
        (("One\n", "  \n", "Two"), Positions(every=None, earliest=1), (2, 3)),
        (("One.\n\nTwo", "x", "y"), Positions(every=None, earliest=1), (1, 3)),
        # More blank lines end no second paragraph, nor do those before the first word; one break is no paragraph.
        (("\n\n", "One", "\n\n", "\n\n", "Two", "\n", "x"), Positions(every=None, earliest=1), (3, 7)),
        (("One", "\n\n", "Two"), Positions(every=None, paragraphs=False), (3,)),
        ((), Positions(), ()),
    ],
)
def test_positions_worked_by_hand(tokens: tuple[str, ...], positions: Positions, places: tuple[int, ...]) -> None:
    assert positions.of(tokens, len(tokens)) == places


def test_positions_without_token_strings() -> None:
    assert Positions(every=4, earliest=1).of((), 10) == (4, 8, 10)


@given(st.text(alphabet="ab \n", max_size=60), st.integers(1, 5))
def test_paragraphs_end_at_the_same_place_however_the_tokens_cut_the_text(text: str, width: int) -> None:
    positions = Positions(every=None, earliest=1)
    pieces = [text[start : start + width] for start in range(0, len(text), width)]
    single, cut = PositionReader(positions), PositionReader(positions)
    by_character = [place for place, character in enumerate(text) if single.feed(character)]
    by_piece = [place for place, piece in enumerate(pieces) if cut.feed(piece)]
    assert by_piece == sorted({place // width for place in by_character})


def test_signals_worked_by_hand() -> None:
    # Means after 2 and 4 tokens: -1 and -2; at a share of 1/2 and 1, so a slope of -2 for the whole output.
    trace = TokenTrace(logprobs=(-0.5, -1.5, -2.0, -4.0))
    probe = PrefixConfidence(EVERY_TWO)
    assert probe.along(trace) == [(2, RawScore(value=-1.0)), (4, RawScore(value=-2.0))]
    got = measure(trace, probe)
    assert got["prefix.last"].value == -2.0
    assert got["prefix.lowest"].value == -2.0
    assert got["prefix.slope"].value == pytest.approx(-2.0)


def test_the_slope_is_that_of_a_straight_line() -> None:
    trace = TokenTrace(logprobs=tuple(float(-n) for n in range(1, 31)))
    places = np.array([2.0, 4.0, 6.0, 8.0, 10.0] + [float(n) for n in range(12, 31, 2)])
    means = -(places + 1) / 2  # mean of -1 ... -n
    slope = np.polyfit(places / 30.0, means, 1)[0]
    assert measure(trace, PrefixConfidence(EVERY_TWO))["prefix.slope"].value == pytest.approx(slope)
    assert slope == pytest.approx(-15.0)


def test_one_position_has_no_slope() -> None:
    got = measure(TokenTrace(logprobs=(-1.0, -1.0)), PrefixConfidence())
    assert got["prefix.last"].value == -1.0
    assert got["prefix.lowest"].value == -1.0
    assert not got["prefix.slope"].available


def test_any_score_and_its_direction() -> None:
    def longest(prefix: TokenTrace) -> RawScore | Unavailable:
        return RawScore(value=float(len(prefix.logprobs)), direction=Direction.LOWER_IS_SURER)

    got = measure(TokenTrace(logprobs=(-1.0,) * 4), PrefixConfidence(EVERY_TWO, longest))
    assert got["prefix.last"].value == -4.0
    assert got["prefix.lowest"].value == -4.0
    assert got["prefix.slope"].value == pytest.approx(-4.0)


def test_a_position_without_a_score() -> None:
    def only_late(prefix: TokenTrace) -> RawScore | Unavailable:
        return RawScore(value=1.0) if len(prefix.logprobs) > 2 else Unavailable(reason="too early")

    got = measure(TokenTrace(logprobs=(-1.0,) * 4), PrefixConfidence(EVERY_TWO, only_late))
    assert got["prefix.last"].value == 1.0
    assert got["prefix.lowest"].score == Unavailable(reason="no score after 2 tokens: too early")
    assert not got["prefix.slope"].available


@pytest.mark.parametrize("trace", [None, TokenTrace()])
def test_no_trace(trace: TokenTrace | None) -> None:
    assert not any(signal.available for signal in measure(trace, PrefixConfidence()).values())


def test_a_prefix_keeps_what_the_trace_has() -> None:
    trace = TokenTrace(ids=(1, 2), tokens=("a", "b"), logprobs=(-1.0, -2.0), entropy=(0.5, 0.6), answer_start=1)
    assert prefix_trace(trace, 1) == TokenTrace(ids=(1,), tokens=("a",), logprobs=(-1.0,), entropy=(0.5,))
    for length in (0, 3):
        with pytest.raises(ValueError, match=f"prefix of {length}"):
            prefix_trace(trace, length)


def run(rule: EarlyStop, logprobs: list[float | None], tokens: list[str] | None = None) -> list[StopVerdict]:
    hook: StopHook = rule.begin()
    return [hook((tokens or ["x"] * len(logprobs))[at], value) for at, value in enumerate(logprobs)]


def test_stops_at_the_first_position_below_the_threshold() -> None:
    verdicts = run(EarlyStop(-1.0, EVERY_TWO), [-0.5, -1.5, -0.1, -2.5])
    # Means -1 (not below) and -1.15.
    assert [verdict.stop for verdict in verdicts] == [False, False, False, True]
    assert verdicts[0] == StopVerdict(False, "", 1)
    assert verdicts[1].reason == "confidence after 2 tokens is -1, not below -1"
    assert verdicts[3].reason == "confidence after 4 tokens is -1.15, below -1"
    assert verdicts[3].score == pytest.approx(-1.15)
    assert verdicts[3].position == 4


def test_looks_at_paragraph_ends() -> None:
    rule = EarlyStop(-1.0, Positions(every=None, earliest=1))
    verdicts = run(rule, [-5.0, -5.0, -5.0], ["Well", ".\n", "\n"])
    assert [verdict.stop for verdict in verdicts] == [False, False, True]


def test_patience_wants_positions_in_a_row() -> None:
    rule = EarlyStop(-1.0, Positions(every=1, earliest=1), patience=2)
    # Running means -2, -1 (not below), -1.67, -1.75.
    verdicts = run(rule, [-2.0, 0.0, -3.0, -2.0])
    assert [verdict.stop for verdict in verdicts] == [False, False, False, True]
    assert "2 of 2 positions in a row" in verdicts[3].reason


@pytest.mark.parametrize("bad", [None, math.nan, -math.inf])
def test_without_a_score_it_goes_on_unless_told_otherwise(bad: float | None) -> None:
    verdict = run(EarlyStop(-1.0, EVERY_TWO), [-9.0, bad])[-1]
    assert not verdict.stop
    assert verdict.score is None
    assert "no confidence after 2 tokens" in verdict.reason
    assert run(EarlyStop(-1.0, EVERY_TWO, stop_unscored=True), [-9.0, bad])[-1].stop


def test_generations_do_not_share_a_hook() -> None:
    rule = EarlyStop(-1.0, EVERY_TWO)
    assert run(rule, [-9.0, -9.0])[-1].stop
    assert not run(rule, [-0.1, -0.1])[-1].stop


@given(st.lists(st.one_of(st.none(), st.floats(-20.0, 0.0)), min_size=1, max_size=70))
def test_the_hook_sees_what_the_finished_trace_shows(logprobs: list[float | None]) -> None:
    positions = Positions(every=16)
    tokens = ["word\n" if place % 7 else "\n" for place in range(len(logprobs))]
    verdicts = run(EarlyStop(-5.0, positions), logprobs, tokens)
    along = PrefixConfidence(positions).along(TokenTrace(tokens=tuple(tokens), logprobs=tuple(logprobs)))
    judged = {verdict.position: verdict.score for verdict in verdicts if verdict.reason}
    known = {place: score.value if isinstance(score, RawScore) else None for place, score in along}
    assert set(known) - set(judged) <= {len(logprobs)}  # the end of the output, which a hook cannot know
    assert all(known[place] == score for place, score in judged.items())


def test_the_score_is_shown_the_prefix_of_the_finished_trace() -> None:
    shown: list[TokenTrace] = []

    def look(prefix: TokenTrace) -> RawScore | Unavailable:
        shown.append(prefix)
        return RawScore(value=0.0)

    tops = tuple((TopToken(token="x", logprob=-0.1 * place),) for place in range(4))
    bare = TokenTrace(tokens=tuple("abcd"), logprobs=(-1.0, None, -3.0, -4.0))
    full = bare.model_copy(update={"top": tops, "entropy": (0.1, 0.2, 0.3, 0.4), "uniform_kl": (4.0, 3.0, 2.0, 1.0)})
    for trace in (bare, full):
        watch = EarlyStop(-1.0, EVERY_TWO, look).begin()
        for place in range(4):
            more = (
                {"top": full.top[place], "entropy": full.entropy[place], "uniform_kl": full.uniform_kl[place]}
                if trace is full
                else {}
            )
            watch(trace.tokens[place], trace.logprobs[place], **more)  # type: ignore[arg-type]
    assert shown == [prefix_trace(trace, length) for trace in (bare, full) for length in (2, 4)]


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (lambda: EarlyStop(math.nan), "threshold=nan"),
        (lambda: EarlyStop(-1.0, patience=0), "patience=0"),
        (lambda: EarlyStop(-1.0, Positions(every=None, paragraphs=False)), "never stop"),
        (lambda: Positions(every=0), "every=0"),
        (lambda: Positions(earliest=0), "earliest=0"),
    ],
)
def test_what_cannot_work_is_refused(build: object, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        build()  # type: ignore[operator]


def test_a_head_fitted_on_prefixes_judges_them() -> None:
    draw = np.random.default_rng(0)
    probe, call = TokenStatistics(), Call.ask("q")
    rows, grades, groups = [], [], []
    for question in range(60):
        right = bool(draw.random() < 0.5)
        logprobs = tuple(float(-x) for x in draw.exponential(0.3 if right else 1.0, size=24))
        for place in (8, 16, 24):
            trace = prefix_trace(TokenTrace(logprobs=logprobs), place)
            rows.append([s.value for s in probe.measure(Evidence(call=call, response=Response(trace=trace)))])
            grades.append(right)
            groups.append(question)
    table = SignalTable(probe.signal_names, np.array(rows, dtype=np.float64))
    at = datetime(2026, 12, 1, tzinfo=UTC)
    head = fit_head(table, grades, np.array(groups), arm="answer", stage=Stage.AFTER, replicas=10, fitted_at=at)
    score = head_score(head, call)
    sure, unsure = score(TokenTrace(logprobs=(-0.1,) * 16)), score(TokenTrace(logprobs=(-1.5,) * 16))
    assert isinstance(sure, RawScore)
    assert isinstance(unsure, RawScore)
    assert 0.0 < unsure.value < 0.5 < sure.value < 1.0
    assert isinstance(score(TokenTrace(logprobs=(math.nan,) * 16)), Unavailable)
    rule = EarlyStop(0.5, Positions(every=8), score)
    assert [v.position for v in run(rule, [-1.5] * 8) if v.stop] == [8]
    assert not any(verdict.stop for verdict in run(rule, [-0.1] * 24))


def test_the_default_score_of_an_empty_or_broken_prefix() -> None:
    assert running_mean_logprob(TokenTrace()) == Unavailable(reason="the prefix is empty")
    assert isinstance(running_mean_logprob(TokenTrace(logprobs=(-1e308, -1e308))), Unavailable)
