"""Confidence while the answer is still being written, and a hook that stops an answer that goes wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..core.call import Call
from ..core.confidence import Confidence
from ..core.decision import Stage
from ..core.errors import ConfigurationError
from ..core.evidence import Evidence, Need
from ..core.protocols import Probe
from ..core.response import Response, TokenTrace, TopToken
from ..core.signal import RawScore, Signal, Unavailable
from .head import Head
from .prefix_positions import PositionReader, Positions
from .token_statistics import TokenStatistics
from .token_values import checked_logprobs, total

PrefixScore = Callable[[TokenTrace], RawScore | Unavailable]
"""Judges a prefix: a trace of the tokens so far, all of which count as the answer."""


def running_mean_logprob(prefix: TokenTrace) -> RawScore | Unavailable:
    """Mean log-probability (nats) of the tokens so far; higher is surer."""
    values, problem = checked_logprobs(prefix.logprobs)
    if problem or not values:
        return Unavailable(reason=problem or "the prefix is empty")
    mean = total(values) / len(values)
    return RawScore(value=mean) if math.isfinite(mean) else Unavailable(reason=f"the mean log-probability is {mean}")


def head_score(head: Head, call: Call, *, probes: Sequence[Probe] = (TokenStatistics(),)) -> PrefixScore:
    """The probability that a head gives a prefix, from what the probes measure on it.

    FineCE trains a model for arbitrary prefixes; here a `Head` is fitted on the statistics of prefixes. One that was
    fitted on whole answers is not calibrated for them: fit it on `prefix_trace`s, with the grade of the answer that
    each became and the question as its group.

    Args:
        call: what is being answered.
    """

    def score(prefix: TokenTrace) -> RawScore | Unavailable:
        evidence = Evidence(call=call, response=Response(trace=prefix), arm=head.arm)
        judged = head.predict([signal for probe in probes for signal in probe.measure(evidence)])
        return RawScore(value=judged.value) if isinstance(judged, Confidence) else judged

    return score


def prefix_trace(trace: TokenTrace, length: int) -> TokenTrace:
    """The first `length` tokens as a trace of its own, all of them its answer.

    Raises:
        ValueError: the trace has fewer tokens, or `length` is below 1.
    """
    if not 1 <= length <= len(trace.logprobs):
        raise ValueError(f"a prefix of {length} tokens of a trace of {len(trace.logprobs)}")
    return TokenTrace(
        ids=trace.ids[:length],
        tokens=trace.tokens[:length],
        logprobs=trace.logprobs[:length],
        top=trace.top[:length],
        entropy=trace.entropy[:length],
        uniform_kl=trace.uniform_kl[:length],
    )


class PrefixConfidence:
    """How a score developed over the prefixes of a trace (positions of FineCE, arXiv 2508.12040); higher is surer.

    FineCE's trained estimator and its backward integration, which mixes later scores into earlier ones, are left out:
    the score is any function of the prefix, by default the running mean log-probability (a deviation).

    Signals, on the scale of the score:
        `prefix.last`: score of the whole output; with the default score it equals `trajectory.mean_logprob`.
        `prefix.lowest`: lowest score at any position.
        `prefix.slope`: least-squares slope of the scores over the share of the output read (0 to 1), so the change
            from beginning to end; needs two positions.

    A position without a score makes `lowest` and `slope` unavailable, and `last` if it is the last.
    """

    name = "prefix"
    needs = frozenset({Need.LOGPROBS})
    stage = Stage.AFTER
    cost_rank = 0
    signal_names: tuple[str, ...] = ("prefix.last", "prefix.lowest", "prefix.slope")

    def __init__(self, positions: Positions | None = None, score: PrefixScore = running_mean_logprob) -> None:
        self.positions = positions or Positions()
        self.score = score

    def along(self, trace: TokenTrace) -> list[tuple[int, RawScore | Unavailable]]:
        """Prefix length and score at every position, ascending."""
        places = self.positions.of(trace.tokens, len(trace.logprobs))
        return [(place, self.score(prefix_trace(trace, place))) for place in places]

    def measure(self, evidence: Evidence) -> Sequence[Signal]:
        trace = evidence.response.trace if evidence.response is not None else None
        if trace is None or not trace.logprobs:
            return [Signal.missing(name, "there is no token trace") for name in self.signal_names]
        found = self.along(trace)
        last = _signal("prefix.last", found[-1][1])
        scores = [(place, score.oriented) for place, score in found if isinstance(score, RawScore)]
        if len(scores) < len(found):
            place, why = next((p, s.reason) for p, s in found if isinstance(s, Unavailable))
            problem = f"no score after {place} tokens: {why}"
            return [last, *(Signal.missing(name, problem) for name in self.signal_names[1:])]
        return [last, Signal.of("prefix.lowest", min(value for _, value in scores)), _slope(scores)]


def _signal(name: str, score: RawScore | Unavailable) -> Signal:
    return Signal.missing(name, score.reason) if isinstance(score, Unavailable) else Signal.of(name, score.oriented)


def _slope(scores: Sequence[tuple[int, float]]) -> Signal:
    if len(scores) < 2:
        return Signal.missing("prefix.slope", "one position has no slope")
    places = np.array([place for place, _ in scores], dtype=np.float64)
    share = places / places[-1]
    share -= share.mean()
    with np.errstate(over="ignore", invalid="ignore"):
        slope = float(share @ np.array([value for _, value in scores]) / (share @ share))
    return Signal.of("prefix.slope", slope)


@dataclass(frozen=True)
class StopVerdict:
    """What is to be done after a token.

    Attributes:
        stop: end the generation.
        reason: one sentence; empty where nothing was judged.
        position: tokens so far.
        score: oriented score (higher is surer) at this position; None where none was read.
    """

    stop: bool
    reason: str
    position: int
    score: float | None = None


class StopHook(Protocol):
    """Told each token of one generation as it comes; says whether to go on."""

    def __call__(
        self,
        token: str,
        logprob: float | None,
        *,
        top: Sequence[TopToken] = (),
        entropy: float | None = None,
        uniform_kl: float | None = None,
    ) -> StopVerdict: ...


class EarlyStop:
    """Stops an answer whose prefix confidence falls below a threshold.

    `begin()` gives the hook of one generation; an `EarlyStop` holds nothing and may be shared by threads.

    A stopped answer is unfinished: the caller must not hand it on as one. Where there is no score (a missing
    log-probability) the generation goes on, because only its end is judged for release and that judgement fails closed;
    `stop_unscored` stops it instead.

    Args:
        threshold: on the scale of the score, oriented so that higher is surer: nats for the default, a probability for
            `head_score`.
        positions: where to look.
        score: judges the prefix.
        patience: stop at so many positions below the threshold in a row.

    Raises:
        ConfigurationError: the threshold is not finite, `patience` is below 1, or there would never be a position.
    """

    def __init__(
        self,
        threshold: float,
        positions: Positions | None = None,
        score: PrefixScore = running_mean_logprob,
        *,
        patience: int = 1,
        stop_unscored: bool = False,
    ) -> None:
        if not math.isfinite(threshold):
            raise ConfigurationError(f"threshold={threshold} must be finite")
        if patience < 1:
            raise ConfigurationError(f"patience={patience} must be at least 1 position")
        self.positions = positions or Positions()
        if self.positions.every is None and not self.positions.paragraphs:
            raise ConfigurationError("positions has neither `every` nor `paragraphs`: it would never stop")
        self.threshold = threshold
        self.score = score
        self.patience = patience
        self.stop_unscored = stop_unscored

    def begin(self) -> PrefixWatch:
        """The hook of one generation."""
        return PrefixWatch(self)


class PrefixWatch:
    """A `StopHook`: `EarlyStop` at work on one generation."""

    def __init__(self, rule: EarlyStop) -> None:
        self._rule = rule
        self._reader = PositionReader(rule.positions)
        self._tokens: list[str] = []
        self._logprobs: list[float | None] = []
        self._top: list[tuple[TopToken, ...]] = []
        self._entropy: list[float | None] = []
        self._uniform_kl: list[float | None] = []
        self._below = 0

    def __call__(
        self,
        token: str,
        logprob: float | None,
        *,
        top: Sequence[TopToken] = (),
        entropy: float | None = None,
        uniform_kl: float | None = None,
    ) -> StopVerdict:
        """Note one generated token and, at a position, judge the prefix."""
        self._tokens.append(token)
        self._logprobs.append(logprob)
        self._top.append(tuple(top))
        self._entropy.append(entropy)
        self._uniform_kl.append(uniform_kl)
        count = len(self._tokens)
        if not self._reader.feed(token):
            return StopVerdict(False, "", count)
        score = self._rule.score(self._prefix())
        if isinstance(score, Unavailable):
            return StopVerdict(self._rule.stop_unscored, f"no confidence after {count} tokens: {score.reason}", count)
        value, threshold = score.oriented, self._rule.threshold
        self._below = self._below + 1 if value < threshold else 0
        side = "below" if value < threshold else "not below"
        reason = f"confidence after {count} tokens is {value:.4g}, {side} {threshold:.4g}"
        if self._below and self._rule.patience > 1:
            reason += f" ({self._below} of {self._rule.patience} positions in a row)"
        return StopVerdict(self._below >= self._rule.patience, reason, count, value)

    def _prefix(self) -> TokenTrace:
        return TokenTrace(
            tokens=tuple(self._tokens),
            logprobs=tuple(self._logprobs),
            # What was never given stays empty, as in a finished trace.
            top=tuple(self._top) if any(self._top) else (),
            entropy=tuple(self._entropy) if any(value is not None for value in self._entropy) else (),
            uniform_kl=tuple(self._uniform_kl) if any(value is not None for value in self._uniform_kl) else (),
        )
