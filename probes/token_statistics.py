"""Statistics of the tokens of the answer: how likely, how spread, how far ahead of the runner-up."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..core.decision import Stage
from ..core.errors import ConfigurationError
from ..core.evidence import Evidence, Need
from ..core.response import TokenTrace, TopToken
from ..core.signal import Direction, Signal

_ROUNDING = 0.01
"""bfloat16 can put log-probabilities and entropies this far on the wrong side of zero."""

_HIGHER = Direction.HIGHER_IS_SURER
_LOWER = Direction.LOWER_IS_SURER


class TokenStatistics:
    """Grey-box signals over the answer span; all in nats.

    Signals: `token.mean_logprob`, `token.min_logprob`, `token.sum_logprob`, `token.first_logprob`, `token.perplexity`
    (exp of minus the mean), `token.mean_entropy` and `token.max_entropy` (of the full next-token distribution, where
    the trace has it), `token.mean_entropy_topK` and `token.max_entropy_topK` (of the K likeliest tokens, renormalised:
    another scale, so another name), `token.mean_margin` (log-probability of the likeliest minus the second), and
    `token.count`.

    One missing or non-finite value inside the span makes every signal that uses it unavailable: an average of what is
    left would look surer than what is known. Values are never clipped, so one token of -12 among fifty shows in `min`.

    Args:
        top_k: K above, at least 2. Positions that list fewer tokens make the two signals unavailable.
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
        )

    def measure(self, evidence: Evidence) -> Sequence[Signal]:
        response = evidence.response
        if response is None:
            return self._all_missing("there is no response yet")
        trace = response.trace
        if trace is None:
            return self._all_missing("the model gave no token trace")
        if not trace.answer_logprobs:
            return self._all_missing("the answer span is empty")
        return [
            *_of_logprobs(trace),
            *_of_entropy(trace),
            *self._of_top(trace),
            Signal.of("token.count", float(len(trace.answer_logprobs)), _LOWER),
        ]

    def _all_missing(self, reason: str) -> list[Signal]:
        return [Signal.missing(name, reason) for name in self.signal_names]

    def _of_top(self, trace: TokenTrace) -> list[Signal]:
        positions = trace.top[trace.answer_start : trace.answer_end]
        mean_name, max_name = f"token.mean_entropy_top{self.top_k}", f"token.max_entropy_top{self.top_k}"
        entropies, problem = _each_position(positions, self.top_k)
        if problem:
            spread = [Signal.missing(mean_name, problem), Signal.missing(max_name, problem)]
        else:
            values = [_renormalised_entropy(row) for row in entropies]
            spread = [
                Signal.of(mean_name, float(np.mean(values)), _LOWER),
                Signal.of(max_name, max(values), _LOWER),
            ]
        pairs, problem = _each_position(positions, 2)
        if problem:
            return [*spread, Signal.missing("token.mean_margin", problem)]
        margins = [row[0] - row[1] for row in pairs]
        return [*spread, Signal.of("token.mean_margin", float(np.mean(margins)), _HIGHER)]


def _of_logprobs(trace: TokenTrace) -> list[Signal]:
    span = trace.answer_logprobs
    names = ("token.mean_logprob", "token.min_logprob", "token.sum_logprob")
    first, problem = _checked_logprobs(span[:1])
    first_signal = (
        Signal.missing("token.first_logprob", problem)
        if problem
        else Signal.of("token.first_logprob", first[0], _HIGHER)
    )
    values, problem = _checked_logprobs(span)
    if problem:
        return [
            *(Signal.missing(name, problem) for name in names),
            first_signal,
            Signal.missing("token.perplexity", problem),
        ]
    mean = math.fsum(values) / len(values)
    with np.errstate(over="ignore"):
        perplexity = float(np.exp(-mean))
    return [
        Signal.of("token.mean_logprob", mean, _HIGHER),
        Signal.of("token.min_logprob", min(values), _HIGHER),
        Signal.of("token.sum_logprob", math.fsum(values), _HIGHER),
        first_signal,
        Signal.of("token.perplexity", perplexity, _LOWER),
    ]


def _of_entropy(trace: TokenTrace) -> list[Signal]:
    names = ("token.mean_entropy", "token.max_entropy")
    if not trace.entropy:
        return [Signal.missing(name, "the trace has no entropies") for name in names]
    values: list[float] = []
    for offset, value in enumerate(trace.entropy[trace.answer_start : trace.answer_end]):
        if value is None or not math.isfinite(value) or value < -_ROUNDING:
            reason = f"entropy of answer token {offset} is {value}"
            return [Signal.missing(name, reason) for name in names]
        values.append(value)
    return [
        Signal.of("token.mean_entropy", math.fsum(values) / len(values), _LOWER),
        Signal.of("token.max_entropy", max(values), _LOWER),
    ]


def _checked_logprobs(values: Sequence[float | None]) -> tuple[list[float], str]:
    """The values, or an empty list and what is wrong with the first bad one."""
    checked: list[float] = []
    for offset, value in enumerate(values):
        if value is None or not math.isfinite(value) or value > _ROUNDING:
            return [], f"log-probability of token {offset} is {value}"
        checked.append(float(value))
    return checked, ""


def _each_position(positions: Sequence[tuple[TopToken, ...]], count: int) -> tuple[list[list[float]], str]:
    """The `count` largest log-probabilities of each position, descending; or what is wrong."""
    if not positions:
        return [], "the trace has no top tokens"
    rows: list[list[float]] = []
    for offset, position in enumerate(positions):
        if len(position) < count:
            return [], f"answer token {offset} lists {len(position)} top tokens, {count} are needed"
        values, problem = _checked_logprobs([token.logprob for token in position])
        if problem:
            return [], f"answer token {offset}, top list: {problem}"
        rows.append(sorted(values, reverse=True)[:count])
    return rows, ""


def _renormalised_entropy(logprobs: Sequence[float]) -> float:
    weights = [math.exp(value - logprobs[0]) for value in logprobs]
    total = math.fsum(weights)
    return -math.fsum(w / total * math.log(w / total) for w in weights if w > 0.0)
