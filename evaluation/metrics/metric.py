"""What a comparison must know of a metric."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..inputs import Floats
from .bootstrap import Measured, Method, Statistic

Better = Literal["higher", "lower", "neither"]


@dataclass(frozen=True)
class Metric:
    """A metric of scores against labels, in the form that the bootstrap resamples.

    Attributes:
        build: scores and labels, each of shape (n,), to the statistic.
        probabilities: whether the scores must be probabilities; else any scale will do, higher is surer.
        better: which direction is better; "neither" where it tells of the rows, not of the score.
        undefined: why it has no value where it has none.
        bounds: what it can be at all.
        method: how its own interval is drawn (a difference of two is always a percentile interval by default).
    """

    name: str
    build: Callable[[Floats, Floats], Statistic]
    probabilities: bool
    better: Better
    undefined: str = "not defined on these rows"
    bounds: tuple[float, float] = (0.0, 1.0)
    method: Method = "percentile"

    def __post_init__(self) -> None:
        if not self.bounds[0] < self.bounds[1] or any(map(math.isnan, self.bounds)):
            raise ValueError(f"metric {self.name!r}: bounds {self.bounds} are no range")

    def measured(self, scores: Floats, labels: Floats) -> Measured:
        """What to estimate on these rows."""
        return Measured(self.name, self.build(scores, labels), self.undefined, self.method, self.bounds)
