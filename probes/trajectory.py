"""Confidence along the whole generated trace: where it was lowest, how it ended, whether it grew."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core.decision import Stage
from ..core.errors import ConfigurationError
from ..core.evidence import Evidence, Need
from ..core.response import TokenTrace
from ..core.signal import Direction, Signal
from .thinking import thinking_end
from .token_values import checked_logprobs, checked_spreads, likeliest, total

_LOWER = Direction.LOWER_IS_SURER


@dataclass(frozen=True)
class TrajectorySettings:
    """What `Trajectory` reads.

    Attributes:
        top_k: tokens behind a token's confidence, at least 2; 5 in consilience (arXiv 2608.09898). Positions that list
            fewer make what reads them unavailable.
        self_certainty: deviation: a token's confidence is `TokenTrace.uniform_kl` instead, over the whole vocabulary
            and without the weakness that `Trajectory` describes. Another scale, so the names end in `_kl`.
        window: tokens in a sliding window. The paper's 2,048 suits traces of tens of thousands of tokens; ours are of
            tens to hundreds.
        bottom: share of the lowest windows in `bottom_share`; a tenth in the paper.
        ends: share of the thinking taken as its beginning and as its end; a fifth in the paper.
        initial_weight: how much the beginning counts against the end; 3 in the paper.
        end_of_thinking: text that ends the thinking, where the model writes one.

    Raises:
        ConfigurationError: a value outside its range; the message names it.
    """

    top_k: int = 5
    self_certainty: bool = False
    window: int = 32
    bottom: float = 0.1
    ends: float = 0.2
    initial_weight: float = 3.0
    end_of_thinking: str = "</think>"

    def __post_init__(self) -> None:
        if self.top_k < 2:
            raise ConfigurationError(f"top_k={self.top_k} must be at least 2")
        if self.window < 1:
            raise ConfigurationError(f"window={self.window} must be at least 1 token")
        if not 0.0 < self.bottom <= 1.0:
            raise ConfigurationError(f"bottom={self.bottom} must lie in (0, 1]")
        if not 0.0 < self.ends <= 0.5:
            raise ConfigurationError(f"ends={self.ends} must lie in (0, 0.5]: beginning and end may not overlap")
        if not (math.isfinite(self.initial_weight) and self.initial_weight >= 0.0):
            raise ConfigurationError(f"initial_weight={self.initial_weight} must be finite and not negative")
        if not self.end_of_thinking:
            raise ConfigurationError("end_of_thinking is empty; name the text that ends the thinking")


class Trajectory:
    """Grey-box signals over every generated token, scaffolding and reasoning included.

    A token's confidence is C = -(mean log-probability of the k likeliest tokens), in nats. It is *larger* for peaked
    distributions: a peak pushes the runners-up far down. With all mass on the k tokens C is least, ln k, where they are
    alike. Its weakness: mass outside the k tokens raises it too. A distribution flat over a vocabulary of V has
    C = ln V, and a peak of p with the rest flat has more only if 1 - p < about V^(-1/(k-1)); use `self_certainty` where
    the model shows it.

    Signals (higher is surer unless said otherwise):
        `trajectory.consilience`: C of the last fifth of the thinking minus 3 times C of its first fifth
            (arXiv 2608.09898): surer for a model that began open and ended convinced. It is made to choose among
            traces of one question. A trace that is alike throughout has -2 C, so the *less* the more peaked it is:
            peaked-against-uniform holds for its end, and is reversed for its beginning.
            Thinking is what stands before `end_of_thinking`; without that text, what stands before the answer
            span, if the span begins in the second half of the trace; else the signal is unavailable. So it is if the
            thinking is too short for a fifth to be a token.
        `trajectory.lowest_window`: lowest mean C of a sliding window (*lowest group confidence*, DeepConf,
            arXiv 2508.15260); a shorter trace is one window.
        `trajectory.bottom_share`: mean of the lowest tenth of the windows (at least one), there *bottom-10 % group
            confidence*.
        `trajectory.tail`: mean C of the last window, there *tail confidence*.
        `trajectory.mean_logprob`: mean log-probability of all generated tokens (nats).
        `trajectory.log_tokens`: ln(1 + generated tokens); lower is surer.

    A missing or non-finite value makes unavailable what reads it and nothing else: `tail` does not mind a hole at the
    beginning.
    """

    name = "trajectory"
    needs = frozenset({Need.LOGPROBS})
    stage = Stage.AFTER
    cost_rank = 0

    def __init__(self, settings: TrajectorySettings | None = None) -> None:
        self.settings = settings or TrajectorySettings()

    @property
    def signal_names(self) -> tuple[str, ...]:
        of_confidence = ("consilience", "lowest_window", "bottom_share", "tail")
        return (*map(self._named, of_confidence), "trajectory.mean_logprob", "trajectory.log_tokens")

    def measure(self, evidence: Evidence) -> Sequence[Signal]:
        trace = evidence.response.trace if evidence.response is not None else None
        if trace is None or not trace.logprobs:
            reason = (
                "there is no response yet"
                if evidence.response is None
                else "the model gave no token trace"
                if trace is None
                else "the trace is empty"
            )
            return [Signal.missing(name, reason) for name in self.signal_names]
        values, problem = checked_logprobs(trace.logprobs)
        name = "trajectory.mean_logprob"
        mean = Signal.missing(name, problem) if problem else Signal.of(name, total(values) / len(values))
        return [
            self._consilience(trace),
            *self._windows(trace),
            self._tail(trace),
            mean,
            Signal.of("trajectory.log_tokens", math.log1p(len(trace.logprobs)), _LOWER),
        ]

    def _named(self, what: str) -> str:
        return f"trajectory.{what}_kl" if self.settings.self_certainty else f"trajectory.{what}"

    def _consilience(self, trace: TokenTrace) -> Signal:
        name = self._named("consilience")
        length, problem = thinking_end(trace, self.settings.end_of_thinking)
        if problem:
            return Signal.missing(name, problem)
        part = int(self.settings.ends * length)
        if part < 1:
            return Signal.missing(name, f"{length} tokens of thinking: a share of {self.settings.ends:g} is no token")
        first, problem = self._confidence(trace, 0, part)
        if problem:
            return Signal.missing(name, problem)
        last, problem = self._confidence(trace, length - part, length)
        if problem:
            return Signal.missing(name, problem)
        return Signal.of(name, total(last) / part - self.settings.initial_weight * total(first) / part)

    def _windows(self, trace: TokenTrace) -> list[Signal]:
        names = self._named("lowest_window"), self._named("bottom_share")
        values, problem = self._confidence(trace, 0, len(trace.logprobs))
        if problem:
            return [Signal.missing(name, problem) for name in names]
        width = min(self.settings.window, len(values))
        with np.errstate(over="ignore"):
            means = np.sort(np.lib.stride_tricks.sliding_window_view(np.array(values), width).mean(axis=1))
            lowest = float(means[: max(1, int(self.settings.bottom * len(means)))].mean())
        return [Signal.of(names[0], float(means[0])), Signal.of(names[1], lowest)]

    def _tail(self, trace: TokenTrace) -> Signal:
        name = self._named("tail")
        count = len(trace.logprobs)
        values, problem = self._confidence(trace, max(0, count - self.settings.window), count)
        return Signal.missing(name, problem) if problem else Signal.of(name, total(values) / len(values))

    def _confidence(self, trace: TokenTrace, start: int, end: int) -> tuple[list[float], str]:
        """C of the tokens from `start` to before `end`; or an empty list and what is wrong."""
        if self.settings.self_certainty:
            if not trace.uniform_kl:
                return [], "the trace has no divergence from the uniform distribution"
            return checked_spreads(trace.uniform_kl[start:end], "KL(uniform || next token)", where="token", first=start)
        rows, problem = likeliest(trace.top[start:end], self.settings.top_k, where="token", first=start)
        return ([], problem) if problem else ([-total(row) / len(row) for row in rows], "")
