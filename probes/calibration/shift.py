"""Another base rate than at fit time, estimated from unlabelled calls (Saerens, Latinne, Decaestecker; Neural
Computation 14, 2002)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import BadInput, ConfigurationError, NotEnoughLabels, Refused
from .base import Floats, logit, sigmoid

FEWEST_CALLS = 100
LEVEL = 0.9
_STEPS, _TOLERANCE = 1000, 1e-10
_RESAMPLES = 200
_LEAST_SPREAD = 0.05
"""Least standard deviation of the probabilities under which the two classes can be told apart at all."""


@dataclass(frozen=True)
class PriorShift:
    """Probabilities of being right for another share of right answers.

    The odds are multiplied by rate/(1 - rate) over fitted/(1 - fitted). That is right where the *kinds* of right and of
    wrong answers are as before and only their shares moved (label shift); where questions of another kind arrive it is
    not, and no unlabelled data tells the two apart: watch `monitor`, grade some calls.

    Attributes:
        fitted: share of right answers among the graded rows, in (0, 1).
        rate: share of right answers now.
        low, high: 90 % interval of `rate`, by bootstrap over the calls; it knows nothing of the calibrator's own error.
        calls: unlabelled calls it was estimated on.
    """

    fitted: float
    rate: float
    low: float
    high: float
    calls: int

    @classmethod
    def fit(cls, probability: ArrayLike, fitted: float, *, seed: int = 0) -> PriorShift:
        """Estimate the share of right answers among n unlabelled calls by EM.

        Args:
            probability: (n,) calibrated probabilities of being right, as of fit time.
            fitted: the base rate they were calibrated on.

        Raises:
            BadInput: not probabilities.
            ConfigurationError: `fitted` outside (0, 1).
            NotEnoughLabels: fewer than 100 calls.
            Refused: the probabilities hardly differ, so no share fits them better than another.
        """
        if not 0.0 < fitted < 1.0:
            raise ConfigurationError(f"fitted={fitted} must lie strictly between 0 and 1")
        p = np.asarray(probability, dtype=np.float64)
        if p.ndim != 1 or not ((p >= 0.0) & (p <= 1.0)).all():
            raise BadInput(f"probability has shape {p.shape}; (n,) of numbers in [0, 1] is needed")
        if p.size < FEWEST_CALLS:
            raise NotEnoughLabels(
                f"{p.size} calls: {FEWEST_CALLS} are needed to tell a base rate", have=p.size, need=FEWEST_CALLS
            )
        if p.std() < _LEAST_SPREAD:
            raise Refused(
                f"the {p.size} probabilities differ by {p.std():.3f} only (standard deviation); below {_LEAST_SPREAD} "
                "every base rate fits them about as well. Grade some of these calls instead"
            )
        log_odds = logit(p) - float(logit(fitted))
        rate = _share(log_odds[None, :], np.array([fitted]))[0]
        draws = np.random.default_rng(seed).integers(0, p.size, (_RESAMPLES, p.size))
        drawn = _share(log_odds[draws], np.full(_RESAMPLES, rate))
        low, high = np.quantile(drawn, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
        return cls(fitted, float(rate), float(min(low, rate)), float(max(high, rate)), int(p.size))

    @property
    def shifted(self) -> bool:
        """Does the interval leave out the rate at fit time?"""
        return not self.low <= self.fitted <= self.high

    def correct(self, probability: ArrayLike) -> Floats:
        """(n,) probabilities at the new rate; their order stays."""
        edge = 1e-9
        moved = float(logit(min(max(self.rate, edge), 1.0 - edge)) - logit(self.fitted))
        return sigmoid(logit(probability) + moved)


def _share(likelihood_ratio: Floats, start: Floats) -> Floats:
    """EM: (R,) shares of right answers, from (R,) starting shares.

    Args:
        likelihood_ratio: (R, n) log-likelihood ratios of right to wrong.
    """
    share = start.copy()
    for _ in range(_STEPS):
        again = sigmoid(likelihood_ratio + logit(share)[:, None]).mean(axis=1)
        moved = float(np.abs(again - share).max())
        share = again
        if moved < _TOLERANCE:
            break
    return share
