"""What every ending of a call costs, in one unit of money."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from ..core.errors import ConfigurationError
from ..core.utility import Utility


@dataclass(frozen=True)
class Costs:
    """Prices of right, wrong, withheld and delayed answers. One unit for all of them.

    A price of None means "not set": the route that needs it is then unavailable, and says so.

    Args:
        wrong: cost of delivering a wrong answer (or of executing a wrong tool call).
        abstain: cost of not answering. It must lie between `-right` and `wrong`, both excluded: at `wrong` or above
            every answer would go out whatever its confidence, so that is refused rather than warned about.
        right: gain of a right answer.
        review: cost of one human look.
        review_wait: flat cost of the usual wait for a human.
        per_second: price of one further second of waiting in the queue.
        human_accuracy: P(right | a human decided). Never 1: people err as well.
        human_accuracy_source: "given" (an assumption, also when the default stands) or "measured".
        generate: cost of drafting an answer.
        retrieve: cost of finding passages and drafting from them.
        escalate: cost of asking each larger model, by its name.
        unit: what the figures are in, for people ("EUR"); changes nothing.

    Raises:
        ConfigurationError: a price is negative or not finite, or confidence could not matter.
    """

    wrong: float
    abstain: float
    right: float = 0.0
    review: float | None = None
    review_wait: float = 0.0
    per_second: float = 0.0
    human_accuracy: float = 0.95
    human_accuracy_source: Literal["given", "measured"] = "given"
    generate: float = 0.0
    retrieve: float | None = None
    escalate: Mapping[str, float] = field(default_factory=dict)
    unit: str = ""

    def __post_init__(self) -> None:
        for name in ("wrong", "abstain", "right", "review_wait", "per_second", "generate"):
            object.__setattr__(self, name, _price(name, getattr(self, name)))
        for name in ("review", "retrieve"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _price(name, getattr(self, name)))
        if not isinstance(self.escalate, Mapping):
            raise ConfigurationError(f"costs.escalate={self.escalate!r} must map model names to prices")
        prices = {}
        for model, price in self.escalate.items():
            if not isinstance(model, str) or not model:
                raise ConfigurationError(f"costs.escalate has the key {model!r}; use the name of a larger model")
            prices[model] = _price(f"escalate.{model}", price)
        object.__setattr__(self, "escalate", MappingProxyType(prices))
        self._check_shape()

    def _check_shape(self) -> None:
        if _not_a_number(self.human_accuracy) or not 0.0 < self.human_accuracy < 1.0:
            raise ConfigurationError(
                f"costs.human_accuracy={self.human_accuracy!r} must lie strictly between 0 and 1; "
                "people err as well, 0.95 is a usual assumption"
            )
        if self.human_accuracy_source not in ("given", "measured"):
            raise ConfigurationError(
                f"costs.human_accuracy_source={self.human_accuracy_source!r} must be 'given' or 'measured'"
            )
        if not isinstance(self.unit, str) or len(self.unit) > 16 or not self.unit.isprintable():
            raise ConfigurationError(f"costs.unit={self.unit!r} must be a short printable text such as 'EUR'")
        if self.abstain >= self.wrong:
            raise ConfigurationError(
                f"costs.abstain={self.abstain} must be below costs.wrong={self.wrong}: otherwise a wrong answer is "
                "never worse than none and every answer would go out; to deliver everything, use mode = 'shadow'"
            )
        if self.abstain + self.right <= 0.0:
            raise ConfigurationError(
                "costs.abstain=0 and costs.right=0: then nothing is ever gained by answering; "
                "set what a missing answer costs, or what a right one is worth"
            )

    @property
    def utility(self) -> Utility:
        """The utility core's view where the choice is only between answering and abstaining."""
        return Utility(tp=self.right, fp=-self.wrong, fn=-self.abstain, tn=-self.abstain)

    def with_loss(self, multiplier: float) -> Costs:
        """The same costs where a wrong result costs `multiplier` times as much (a dangerous tool)."""
        return replace(self, wrong=self.wrong * multiplier)

    def settings(self) -> dict[str, Any]:
        """Everything that sets it apart, as JSON values; part of a policy's id."""
        return {
            name: dict(self.escalate) if name == "escalate" else getattr(self, name)
            for name in self.__dataclass_fields__
        }

    def money(self, amount: float) -> str:
        """An amount for people: three significant figures and the unit."""
        figure = f"{amount:.3g}"
        return f"{figure} {self.unit}" if self.unit else figure


def _not_a_number(value: object) -> bool:
    return isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value)


def _price(name: str, value: object) -> float:
    if _not_a_number(value):
        raise ConfigurationError(f"costs.{name}={value!r} must be a finite number")
    number = float(value)  # type: ignore[arg-type]
    if number < 0.0:
        raise ConfigurationError(f"costs.{name}={value!r} must not be negative")
    return number
