"""Signals that a fit trusts beforehand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

TRUSTED = frozenset({"token.sum_logprob", "token.min_logprob", "token.mean_logprob", "head.log_odds"})
"""The log-probability of the answer, and what an artefact said before. Fixed beforehand: from some dozens of labels a
fit cannot tell which of two hundred correlated signals is the one to go by; these were it wherever we looked."""

TRUST = 6.0
"""How many times as large a coefficient of theirs may be at the same penalty. On 100 to 400 fitting rows of TriviaQA
the AUROC of the fit is .005 to .017 above that without trust; 3 does less, 10 no more."""


def trust_in(names: Sequence[str]) -> NDArray[np.float64]:
    """(m,) factors for signals by name: `TRUST`, or 1."""
    return np.array([TRUST if name in TRUSTED else 1.0 for name in names])
