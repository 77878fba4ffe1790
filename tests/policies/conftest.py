"""What the tests of policies share: confidences, calls, chances and hypothesis strategies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from demur.core.confidence import Confidence, Interval, Probability


@dataclass(frozen=True)
class Fixed:
    """A success chance that does not depend on the present answer."""

    chance: float
    labels: int = 0

    def at(self, p: float) -> float:
        return self.chance


@dataclass(frozen=True)
class Rising:
    """A success chance that rises with the present one: floor + slope·p, at most 1."""

    floor: float
    slope: float
    labels: int = 0

    def at(self, p: float) -> float:
        return min(self.floor + self.slope * p, 1.0)


@pytest.fixture(scope="session")
def fixed() -> type[Fixed]:
    return Fixed


@pytest.fixture(scope="session")
def rising() -> type[Rising]:
    return Rising


@pytest.fixture(scope="session")
def confident() -> Callable[..., Confidence]:
    def make(value: float, low: float | None = None, high: float | None = None, labels: int = 400) -> Confidence:
        interval = Interval(low=value if low is None else low, high=value if high is None else high)
        return Confidence(probability=Probability(value=value), interval=interval, calibrator="test", labels=labels)

    return make
