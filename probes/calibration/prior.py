"""The confidence before anything was learned."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ...core.confidence import Confidence, Interval, Probability
from ...core.errors import ConfigurationError
from .base import Floats


class PriorCalibrator:
    """The same probability for everything, interval [0, 1], labels = 0. No guarantee accepts it.

    Not one of the candidates of `select_calibrator`: there is nothing to fit.

    Args:
        probability: the configured base, strictly between 0 and 1.
    """

    name = "prior"

    def __init__(self, probability: float = 0.5) -> None:
        if not (math.isfinite(probability) and 0.0 < probability < 1.0):
            raise ConfigurationError(f"prior probability {probability} must lie strictly between 0 and 1")
        self.probability = float(probability)

    def predict(self, scores: ArrayLike) -> Floats:
        """The prior for each score, whatever the score is."""
        return np.full(np.asarray(scores).shape[0], self.probability)

    def confidence(self, missing: tuple[str, ...] = ()) -> Confidence:
        """The prior as a confidence."""
        return Confidence(
            probability=Probability(value=self.probability),
            interval=Interval(low=0.0, high=1.0),
            calibrator=self.name,
            labels=0,
            missing=missing,
        )
