"""Statistics of the tokens of the answer: how likely, how spread, how far ahead of the runner-up."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from ..core.decision import Stage
from ..core.errors import ConfigurationError
from ..core.evidence import Evidence, Need
from ..core.response import TokenTrace
from ..core.signal import Direction, Signal
from .token_values import checked_logprobs as _checked_logprobs
from .token_values import checked_spreads, likeliest, renormalised_entropy, total

_HIGHER = Direction.HIGHER_IS_SURER
_LOWER = Direction.LOWER_IS_SURER

T = TypeVar("T")


class TokenStatistics:
    """Grey-box signals over the answer's content, in nats unless said otherwise.

    What is read are the positions of `TokenTrace.answer_positions`: the answer span without its scaffolding (the
    braces and keys of a tool call), left out by position and never by token: a ":" inside an
    argument is content.

    Signals:
        `token.mean_logprob`, `token.min_logprob`, `token.sum_logprob`, `token.first_logprob`, `token.median_logprob`.
            exp(`token.sum_logprob`), the probability of the whole answer, is MICE's *raw confidence*; the logarithm is
            kept because it does not underflow and ranks alike.
        `token.perplexity`: exp of minus the mean.
        `token.confidence_as_reward`: mean probability (not log) of the answer's tokens, in [0, 1]
            (Confidence-as-a-Reward, arXiv 2510.13501). One unlikely token among n costs it at most 1/n.
        `token.low_share`: share of tokens with a probability below one half, in [0, 1]; our own.
        `token.mean_entropy`, `token.max_entropy`: of the full next-token distribution, where the trace has it.
        `token.self_certainty`: mean KL(uniform || next-token distribution), 0 where it is uniform (arXiv 2502.18581);
            where the trace has it.
        `token.mean_entropy_topK`, `token.max_entropy_topK`: entropy of the K likeliest tokens, renormalised: another
            scale, so another name.
        `token.mean_margin`, `token.min_margin`, `token.first_margin`: log-probability of the likeliest minus the
            second, whichever of them was chosen.
        `token.count`: tokens of content.

    One missing or non-finite value inside the content makes every signal that uses it unavailable: an average of what
    is left would look surer than what is known. Values are never clipped, so one token of -12 among fifty shows in
    `min`.

    Args:
        top_k: K above, at least 2. Positions that list fewer tokens make the two signals unavailable.

    Raises:
        ConfigurationError: `top_k` is below 2.
    """

    name = "token"
    needs = frozenset({Need.LOGPROBS})
    stage = Stage.AFTER
    cost_rank = 0

    def __init__(self, top_k: int = 5) -> None:
        if top_k < 2:
            raise ConfigurationError(f"top_k={top_k}: an entropy needs at least 2 tokens")
        self.top_k = top_k

    @property
    def signal_names(self) -> tuple[str, ...]:
        return (
            "token.mean_logprob",
            "token.min_logprob",
            "token.sum_logprob",
            "token.first_logprob",
            "token.perplexity",
            "token.mean_entropy",
            "token.max_entropy",
            f"token.mean_entropy_top{self.top_k}",
            f"token.max_entropy_top{self.top_k}",
            "token.mean_margin",
            "token.count",
            "token.self_certainty",
            "token.confidence_as_reward",
            "token.median_logprob",
            "token.low_share",
            "token.min_margin",
            "token.first_margin",
        )

    def measure(self, evidence: Evidence) -> Sequence[Signal]:
        response = evidence.response
        if response is None:
            return self._all_missing("there is no response yet")
        trace = response.trace
        if trace is None:
            return self._all_missing("the model gave no token trace")
        content = trace.answer_positions
        if not content:
            return self._all_missing("the answer span is empty" + (" but for scaffolding" if trace.scaffold else ""))
        measured = [
            *_of_logprobs(trace.answer_logprobs),
            *_of_entropy(trace, content),
            *self._of_top(trace, content),
            _of_uniform_kl(trace, content),
            Signal.of("token.count", float(len(content)), _LOWER),
        ]
        by_name = {signal.name: signal for signal in measured}
        return [by_name[name] for name in self.signal_names]

    def _all_missing(self, reason: str) -> list[Signal]:
        return [Signal.missing(name, reason) for name in self.signal_names]

    def _of_top(self, trace: TokenTrace, content: Sequence[int]) -> list[Signal]:
        positions = _at(trace.top, content)
        mean_name, max_name = f"token.mean_entropy_top{self.top_k}", f"token.max_entropy_top{self.top_k}"
        rows, problem = likeliest(positions, self.top_k)
        if problem:
            spread = [Signal.missing(mean_name, problem), Signal.missing(max_name, problem)]
        else:
            values = [renormalised_entropy(row) for row in rows]
            spread = [
                Signal.of(mean_name, float(np.mean(values)), _LOWER),
                Signal.of(max_name, max(values), _LOWER),
            ]
        first, problem = likeliest(positions[:1], 2)
        name = "token.first_margin"
        spread.append(Signal.missing(name, problem) if problem else Signal.of(name, first[0][0] - first[0][1], _HIGHER))
        pairs, problem = likeliest(positions, 2)
        if problem:
            return [*spread, *(Signal.missing(name, problem) for name in ("token.mean_margin", "token.min_margin"))]
        margins = [row[0] - row[1] for row in pairs]
        return [
            *spread,
            Signal.of("token.mean_margin", float(np.mean(margins)), _HIGHER),
            Signal.of("token.min_margin", min(margins), _HIGHER),
        ]


def _at(values: Sequence[T], content: Sequence[int]) -> tuple[T, ...]:
    """The values at the content's positions; none where the trace has none at all."""
    return tuple(values[place] for place in content) if values else ()


def _of_logprobs(content: Sequence[float | None]) -> list[Signal]:
    first, problem = _checked_logprobs(content[:1])
    name = "token.first_logprob"
    first_signal = Signal.missing(name, problem) if problem else Signal.of(name, first[0], _HIGHER)
    values, problem = _checked_logprobs(content)
    if problem:
        names = (
            "token.mean_logprob",
            "token.min_logprob",
            "token.sum_logprob",
            "token.perplexity",
            "token.confidence_as_reward",
            "token.median_logprob",
            "token.low_share",
        )
        return [first_signal, *(Signal.missing(name, problem) for name in names)]
    mean = total(values) / len(values)
    with np.errstate(over="ignore"):
        perplexity = float(np.exp(-mean))
    half = math.log(0.5)
    return [
        first_signal,
        Signal.of("token.mean_logprob", mean, _HIGHER),
        Signal.of("token.min_logprob", min(values), _HIGHER),
        Signal.of("token.sum_logprob", total(values), _HIGHER),
        Signal.of("token.perplexity", perplexity, _LOWER),
        Signal.of("token.confidence_as_reward", total([math.exp(value) for value in values]) / len(values), _HIGHER),
        Signal.of("token.median_logprob", statistics.median(values), _HIGHER),
        Signal.of("token.low_share", sum(value < half for value in values) / len(values), _LOWER),
    ]


def _of_entropy(trace: TokenTrace, content: Sequence[int]) -> list[Signal]:
    names = ("token.mean_entropy", "token.max_entropy")
    if not trace.entropy:
        return [Signal.missing(name, "the trace has no entropies") for name in names]
    values, problem = checked_spreads(_at(trace.entropy, content), "entropy")
    if problem:
        return [Signal.missing(name, problem) for name in names]
    return [
        Signal.of("token.mean_entropy", total(values) / len(values), _LOWER),
        Signal.of("token.max_entropy", max(values), _LOWER),
    ]


def _of_uniform_kl(trace: TokenTrace, content: Sequence[int]) -> Signal:
    name = "token.self_certainty"
    if not trace.uniform_kl:
        return Signal.missing(name, "the trace has no divergence from the uniform distribution")
    values, problem = checked_spreads(_at(trace.uniform_kl, content), "KL(uniform || next token)")
    return Signal.missing(name, problem) if problem else Signal.of(name, total(values) / len(values), _HIGHER)
