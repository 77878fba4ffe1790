"""Four routes by fixed cut-offs on one score."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...core.decision import Route
from ...core.errors import ConfigurationError
from .base import Floats

_ROUTES = (Route.DEFER, Route.ESCALATE, Route.RETRIEVE, Route.ANSWER)


@dataclass(frozen=True)
class RouteTiers:
    """Answer from `answer` on, retrieve from `retrieve` on, ask a larger model from `escalate` on, else a human.

    Lower edges belong to their tier.

    Raises:
        ConfigurationError: not 0 < escalate < retrieve < answer <= 1.
    """

    answer: float
    retrieve: float
    escalate: float

    def __post_init__(self) -> None:
        if not 0.0 < self.escalate < self.retrieve < self.answer <= 1.0:
            raise ConfigurationError(
                f"cut-offs answer={self.answer}, retrieve={self.retrieve}, escalate={self.escalate}: need "
                "0 < escalate < retrieve < answer <= 1"
            )

    @property
    def edges(self) -> tuple[float, float, float]:
        """The three cut-offs, ascending."""
        return (self.escalate, self.retrieve, self.answer)

    @property
    def middles(self) -> Floats:
        """(4,) the middle of each tier of [0, 1], the human's first."""
        ends = np.array([0.0, *self.edges, 1.0])
        return (ends[:-1] + ends[1:]) / 2.0

    def levels(self, scores: Floats) -> np.ndarray:
        """(n,) 0 (a human) to 3 (answer) of finite scores."""
        return np.searchsorted(self.edges, scores, side="right")

    def routes(self, scores: Floats) -> list[Route | None]:
        """The route of each score; None where it is NaN."""
        levels = self.levels(scores)
        return [
            None if math.isnan(score) else _ROUTES[level]
            for score, level in zip(scores.tolist(), levels.tolist(), strict=True)
        ]

    def dead(self, low: float, high: float, *, open_end: bool = False) -> list[str]:
        """What is wrong with each tier that no score in [low, high] falls into; [] where all four are alive.

        Args:
            open_end: `high` itself is not reached.
        """
        ends = (-math.inf, *self.edges, math.inf)
        found = []
        for route, start, end in zip(_ROUTES, ends[:-1], ends[1:], strict=True):
            if start > high or (open_end and start == high):
                found.append(f"{route.value} begins at {start:g}, and no score exceeds {high:.3f}")
            elif end <= low:
                found.append(f"{route.value} ends below {end:g}, and no score is under {low:.3f}")
        return found
