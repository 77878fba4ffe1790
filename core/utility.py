"""The one utility family: what right, wrong and withheld calls are worth.

Answering is worth `tp` when right and `fp` when wrong; withholding is worth `fn` when it would have been right and
`tn` when it would have been wrong. MICE's tool-calling utility (arXiv 2504.20168), the integrand of BAS
(2604.03216), RiskEval's penalty λ with t = λ/(1+λ) (2601.07767) and thresholded scaling with response risk r are
all members.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .errors import ConfigurationError


@dataclass(frozen=True)
class Utility:
    """Worth of the four outcomes, in one unit.

    Raises:
        ConfigurationError: a value is not finite, or no confidence could ever make answering and withholding
            exchange places (being right must favour answering and being wrong must favour withholding).
    """

    tp: float = 1.0
    fp: float = -1.0
    fn: float = 0.0
    tn: float = 0.0

    def __post_init__(self) -> None:
        for name in ("tp", "fp", "fn", "tn"):
            if not math.isfinite(getattr(self, name)):
                raise ConfigurationError(f"utility {name}={getattr(self, name)} must be a finite number")
        if self.tp <= self.fn or self.tn <= self.fp:
            raise ConfigurationError(
                f"utility tp={self.tp}, fp={self.fp}, fn={self.fn}, tn={self.tn}: need tp > fn and tn > fp, "
                "otherwise confidence cannot matter"
            )

    @classmethod
    def from_threshold(cls, threshold: float) -> Utility:
        """Right +1, withheld 0, wrong -t/(1-t): answering pays from confidence `threshold` on."""
        if not 0.0 < threshold < 1.0:
            raise ConfigurationError(f"threshold {threshold} must lie strictly between 0 and 1")
        return cls(fp=-threshold / (1.0 - threshold))

    @classmethod
    def from_penalty(cls, penalty: float) -> Utility:
        """RiskEval's λ > 0: wrong costs λ, right earns 1; the threshold is λ/(1+λ)."""
        if not (math.isfinite(penalty) and penalty > 0.0):
            raise ConfigurationError(f"penalty {penalty} must be a finite number above 0")
        return cls(fp=-penalty)

    @property
    def threshold(self) -> float:
        """τ = (tn−fp)/((tp−fn)+(tn−fp)): answering is optimal iff P(right) ≥ τ."""
        gain_if_wrong = self.tn - self.fp
        return gain_if_wrong / ((self.tp - self.fn) + gain_if_wrong)

    def of_answering(self, probability: float) -> float:
        """Expected worth of answering at P(right) = probability."""
        return probability * self.tp + (1.0 - probability) * self.fp

    def of_withholding(self, probability: float) -> float:
        """Expected worth of withholding at P(right) = probability."""
        return probability * self.fn + (1.0 - probability) * self.tn

    def realised(self, answered: bool, right: bool) -> float:
        """The worth of what happened."""
        if answered:
            return self.tp if right else self.fp
        return self.fn if right else self.tn
