"""How familiar the question's own wording is to the model, before anything is generated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.decision import Stage
from ..core.errors import ConfigurationError
from ..core.evidence import Evidence, Need
from ..core.signal import Signal
from .token_values import checked_logprobs, total


class QuestionLikelihood:
    """Log-probabilities (nats) that the model gave the tokens of the question while it read them; higher is surer.

    A question worded in a way the model has rarely met is more often one it cannot answer. That these say something
    about the *answer* is our own addition, not a paper's; read them together with `PromptStatistics`, whose
    `prompt.log_question_length` holds the length that `sum` grows with.

    Signals:
        `prompt.question_mean_logprob`: mean over the question's tokens.
        `prompt.question_min_logprob`: the least expected token.
        `prompt.question_sum_logprob`: log-probability of the question as a whole.
        `prompt.question_tail_logprob`: mean over the least expected `tail_share` of the tokens (at least one of them),
            the Min-K% score by which texts of the training set are told from others (arXiv 2310.16789, K = 20): less
            at the mercy of one odd name than `min`, less diluted by function words than the mean.

    One missing or non-finite value makes all four unavailable.

    Args:
        tail_share: share of the tokens in the tail, in (0, 1].

    Raises:
        ConfigurationError: `tail_share` lies outside (0, 1].
    """

    name = "question"
    # The captures of the forward pass over the prompt: a grey-box trace begins after it.
    needs = frozenset({Need.HIDDEN_STATES})
    stage = Stage.BEFORE
    cost_rank = 0
    signal_names: tuple[str, ...] = (
        "prompt.question_mean_logprob",
        "prompt.question_min_logprob",
        "prompt.question_sum_logprob",
        "prompt.question_tail_logprob",
    )

    def __init__(self, *, tail_share: float = 0.2) -> None:
        if not 0.0 < tail_share <= 1.0:
            raise ConfigurationError(f"tail_share={tail_share} must lie in (0, 1]")
        self.tail_share = tail_share

    def measure(self, evidence: Evidence) -> Sequence[Signal]:
        given = evidence.captured.question_logprobs if evidence.captured is not None else None
        if given is None:
            return self._all_missing("the question's log-probabilities were not captured")
        row = np.asarray(given, dtype=np.float64)
        if row.ndim != 1 or row.size == 0:
            return self._all_missing(f"question log-probabilities have shape {row.shape}; (tokens > 0,) is needed")
        values, problem = checked_logprobs(row.tolist())
        if problem:
            return self._all_missing(f"question: {problem}")
        lowest = sorted(values)[: max(1, int(self.tail_share * len(values)))]
        found = (total(values) / len(values), lowest[0], total(values), total(lowest) / len(lowest))
        return [Signal.of(name, value) for name, value in zip(self.signal_names, found, strict=True)]

    def _all_missing(self, reason: str) -> list[Signal]:
        return [Signal.missing(name, reason) for name in self.signal_names]
