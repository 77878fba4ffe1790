"""Raw confidence: the probability that the model gave its own answer."""

from __future__ import annotations

import numpy as np

from ...core.errors import BadInput
from .base import Baseline, Floats

_ROUNDING = 0.01
"""bfloat16 can put log-probabilities this far above zero, and so a product of probabilities above one."""

SUM_LOGPROB = "token.sum_logprob"
"""Sum of the log-probabilities of the answer's content, scaffolding left out by position."""


class RawConfidence(Baseline):
    """Π p over the tokens of the answer's content (the raw confidence of MICE, arXiv 2504.20168). Nothing is fitted.

    Args:
        column: a sum of log-probabilities in nats.
        log: False: the column is a probability already.
    """

    name = "raw"

    def __init__(self, column: str = SUM_LOGPROB, *, log: bool = True) -> None:
        super().__init__((column,))
        self.log = log

    def _fit(self, block: Floats, correct: Floats) -> None:
        self._predict(block)

    def _predict(self, block: Floats) -> Floats:
        return as_probability(block[:, 0], self.columns[0], log=self.log)


def as_probability(values: Floats, column: str, *, log: bool) -> Floats:
    """Probabilities (n,) of log-probabilities (or as they are).

    Raises:
        BadInput: a value is no log-probability (or no probability) by more than rounding.
    """
    low, high, what = (-np.inf, _ROUNDING, "log-probability (nats)") if log else (0.0, 1.0, "probability")
    bad = np.flatnonzero((values < low) | (values > high))
    if bad.size:
        remedy = "" if log else "; log=True reads log-probabilities"
        raise BadInput(f"column {column!r} is {values[bad[0]]} in row {bad[0]}, which is no {what}{remedy}")
    return np.minimum(np.exp(values), 1.0) if log else values
