"""What each route is expected to cost at a given P(right), with one step of look-ahead.

A route that ends the call costs what `Costs` says: answering costs `wrong` when it is wrong and earns `right` when it
is right; deferring costs the look, the wait and the human's own errors; abstaining has a flat price.

Retrieving and escalating are followed by another judgement: the new answer is delivered or withheld. With s the
chance that the new answer is right and W the cheapest way to withhold, the expected cost is E[min(A(P), W)], where P
is the confidence that will be seen and E[P] = s. `insight` says how much that judgement will see of the truth:

* insight 0 takes the mean, min(A(s), W). By Jensen's inequality this is an upper bound.
* insight 1 takes perfect sight, s·min(A(1), W) + (1−s)·min(A(0), W). This is a lower bound.
* between, the two are mixed: with chance `insight` the truth is seen, otherwise nothing is.

Retrieving and escalating default to the upper bound, so that they are never taken on a hope. Drafting defaults to the
lower bound, so that it is skipped only where even perfect sight of the draft could not make it pay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from ..core.decision import ExpectedCost, Route, Stage
from ..core.errors import ConfigurationError
from .costs import Costs


@runtime_checkable
class Chance(Protocol):
    """How likely a later route gives a right answer. `core.success_chance.SuccessChance` is one.

    Attributes:
        labels: graded rows behind it; 0 where it was given, not learned.
    """

    @property
    def labels(self) -> int: ...

    def at(self, p: float, /) -> float:
        """P(right after the route), where the present answer is right with probability p."""
        ...


@dataclass(frozen=True)
class Arm:
    """A route and, where it needs one, its target. Written `retrieve` or `escalate:NAME`, as in `Evidence.arm`."""

    route: Route
    target: str | None = None

    @classmethod
    def parse(cls, text: str) -> Arm:
        """
        Raises:
            ConfigurationError: not a route, a target where none belongs, or `escalate` without one.
        """
        name, colon, target = text.partition(":")
        try:
            route = Route(name)
        except ValueError:
            known = ", ".join(Route)
            raise ConfigurationError(f"{text!r} is not a route; use one of {known}, or escalate:NAME") from None
        if route is Route.ESCALATE and not target:
            raise ConfigurationError(f"{text!r} names no model; write escalate:NAME")
        if colon and (not target or route not in (Route.ESCALATE, Route.DEFER)):
            raise ConfigurationError(f"{text!r} has a target where none belongs; write {name!r}")
        return cls(route, target or None)

    def __str__(self) -> str:
        return str(self.route) if self.target is None else f"{self.route}:{self.target}"


@dataclass(frozen=True)
class Ending:
    """A way to end, priced: what it costs, taken apart, and the chance that a right answer is delivered."""

    parts: Mapping[str, float]
    success: float

    @property
    def total(self) -> float:
        return sum(self.parts.values())

    def after(self, part: str, price: float) -> Ending:
        """The same ending, paid for with something first."""
        return Ending({part: price, **self.parts}, self.success)


@dataclass(frozen=True)
class Outlook:
    """The prices and chances of one moment; everything but the probability.

    Args:
        available: arm → None where it can be taken, or the reason why it cannot. Arms not named do not exist,
            except `answer` (after) or `generate` (before), and `abstain`, which can always be taken.
        chances: arm → success chance of retrieving or escalating.
        queue_wait: expected seconds in the review queue beyond the usual; priced by `costs.per_second`.
        draft_insight, later_insight: see the module.

    Raises:
        ConfigurationError: an arm is misspelt, or abstaining is said to be unavailable.
    """

    costs: Costs
    stage: Stage = Stage.AFTER
    chances: Mapping[str, Chance] = field(default_factory=dict)
    available: Mapping[str, str | None] = field(default_factory=dict)
    queue_wait: float = 0.0
    draft_insight: float = 1.0
    later_insight: float = 0.0
    arms: tuple[tuple[Arm, str | None], ...] = field(init=False)

    def __post_init__(self) -> None:
        for key in self.chances:
            Arm.parse(key)
        given = {Arm.parse(key): reason for key, reason in self.available.items()}
        if given.get(Arm(Route.ABSTAIN)) is not None:
            raise ConfigurationError("abstain can always be taken; leave it out of the unavailable routes")
        onwards = Arm(Route.GENERATE if self.stage is Stage.BEFORE else Route.ANSWER)
        absent = Route.ANSWER if self.stage is Stage.BEFORE else Route.GENERATE
        listed = {onwards: given.pop(onwards, None)}
        listed.update({arm: reason for arm, reason in given.items() if arm.route is not absent})
        listed[Arm(Route.ABSTAIN)] = None
        checked = [(arm, reason or self._missing_price(arm)) for arm, reason in listed.items()]
        object.__setattr__(self, "arms", tuple(checked))

    def _missing_price(self, arm: Arm) -> str | None:
        """Why an arm that could be taken cannot be compared."""
        if arm.route is Route.DEFER:
            if self.costs.review is None:
                return "its price is not set; add costs.review"
            if not (math.isfinite(self.queue_wait) and self.queue_wait >= 0.0):
                return f"the expected wait for a human is {self.queue_wait} seconds, which means nothing"
        if arm.route is Route.RETRIEVE and self.costs.retrieve is None:
            return "its price is not set; add costs.retrieve"
        if arm.route is Route.ESCALATE and arm.target not in self.costs.escalate:
            return f"its price is not set; add costs.escalate.{arm.target}"
        if arm.route in (Route.RETRIEVE, Route.ESCALATE) and str(arm) not in self.chances:
            return "its chance of success is neither given nor learned"
        return None

    def price(self, arm: Arm, probability: float) -> Ending | str:
        """The arm's expected cost at P(right) = probability, or why there is none."""
        costs = self.costs
        if arm.route is Route.ANSWER:
            return self._answered(probability)
        if arm.route is Route.ABSTAIN:
            return Ending({"no answer": costs.abstain}, 0.0)
        if arm.route is Route.DEFER:
            return self._deferred()
        if arm.route is Route.GENERATE:
            return self._judged(probability, self.draft_insight).after("drafting", costs.generate)
        chance = self._chance(arm, probability)
        if isinstance(chance, str):
            return chance
        if arm.route is Route.RETRIEVE:
            return self._judged(chance, self.later_insight).after("retrieval", costs.retrieve or 0.0)
        return self._judged(chance, self.later_insight).after("larger model", costs.escalate[arm.target or ""])

    def _chance(self, arm: Arm, probability: float) -> float | str:
        """The arm's success chance; a crash or a number outside [0, 1] makes it unavailable (rule 1)."""
        try:
            chance = float(self.chances[str(arm)].at(probability))
        except Exception as error:  # noqa: BLE001  anything handed in may raise anything
            return f"its chance of success could not be worked out: {type(error).__name__}"
        if not 0.0 <= chance <= 1.0:  # NaN lands here too
            return f"its chance of success came out as {chance}"
        return chance

    def _answered(self, p: float) -> Ending:
        return Ending({"wrong answer": (1.0 - p) * self.costs.wrong, "right answer": -p * self.costs.right}, p)

    def _deferred(self) -> Ending:
        costs, accuracy = self.costs, self.costs.human_accuracy
        parts = {
            "review": costs.review or 0.0,
            "waiting": costs.review_wait + costs.per_second * self.queue_wait,
            "wrong answer": (1.0 - accuracy) * costs.wrong,
            "right answer": -accuracy * costs.right,
        }
        return Ending(parts, accuracy)

    def withheld(self) -> Ending:
        """The cheapest way to end without the answer at hand."""
        ends = [Ending({"no answer": self.costs.abstain}, 0.0)]
        if any(arm.route is Route.DEFER and reason is None for arm, reason in self.arms):
            ends.insert(0, self._deferred())
        return min(ends, key=lambda end: end.total)

    def _judged(self, p: float, insight: float) -> Ending:
        """An answer that is right with chance p, delivered or withheld once it has been judged."""
        withheld = self.withheld()

        def cheaper(probability: float) -> Ending:
            answer = self._answered(probability)
            return answer if answer.total <= withheld.total else withheld

        blind = cheaper(p)
        if insight == 0.0:
            return blind
        seen = _mixed(p, cheaper(1.0), cheaper(0.0))
        return seen if insight == 1.0 else _mixed(insight, seen, blind)


def _mixed(weight: float, one: Ending, other: Ending) -> Ending:
    parts = {name: weight * amount for name, amount in one.parts.items()}
    for name, amount in other.parts.items():
        parts[name] = parts.get(name, 0.0) + (1.0 - weight) * amount
    return Ending(parts, weight * one.success + (1.0 - weight) * other.success)


def expected_costs(
    probability: float | None,
    costs: Costs,
    chances: Mapping[str, Chance],
    available: Mapping[str, str | None],
    stage: Stage,
    *,
    queue_wait: float = 0.0,
    draft_insight: float = 1.0,
    later_insight: float = 0.0,
) -> tuple[ExpectedCost, ...]:
    """The expected cost of every route. Arguments as in `Outlook`.

    With probability None (or NaN, or outside [0, 1]) only the flat-priced routes have a total.
    """
    return priced(Outlook(costs, stage, chances, available, queue_wait, draft_insight, later_insight), probability)


def priced(outlook: Outlook, probability: float | None) -> tuple[ExpectedCost, ...]:
    """Every arm of the outlook at P(right) = probability, as records."""
    known = probability is not None and 0.0 <= probability <= 1.0
    records = []
    for arm, reason in outlook.arms:
        ending: Ending | str | None = reason
        if ending is None and not known and arm.route not in (Route.DEFER, Route.ABSTAIN):
            ending = "there is no confidence to price it with"
        if ending is None:
            ending = outlook.price(arm, probability if known else 0.0)  # type: ignore[arg-type]
        if isinstance(ending, str):
            records.append(ExpectedCost(route=arm.route, target=arm.target, total=None, unavailable=ending))
        else:
            parts = {name: amount for name, amount in ending.parts.items() if amount != 0.0}
            records.append(
                ExpectedCost(
                    route=arm.route, target=arm.target, total=ending.total, success=ending.success, parts=parts
                )
            )
    return tuple(records)


def threshold(outlook: Outlook) -> float | None:
    """The smallest probability from which on going ahead is never dearer than the best other route.

    Going ahead is answering (after generation) or drafting (before). In closed form where every other route has a
    flat price, (wrong − W)/(wrong + right); otherwise by bisection to 1e-12.

    Returns:
        0.0 where going ahead always pays; None where it does not pay even at probability 1, or cannot be taken.
    """
    (onwards, blocked), others = outlook.arms[0], outlook.arms[1:]
    if blocked is not None:
        return None
    open_arms = [arm for arm, reason in others if reason is None]
    if outlook.stage is Stage.AFTER and all(arm.route in (Route.DEFER, Route.ABSTAIN) for arm in open_arms):
        costs, best = outlook.costs, outlook.withheld().total
        crossing = (costs.wrong - best) / (costs.wrong + costs.right)
        return None if crossing > 1.0 else max(crossing, 0.0)

    def excess(p: float) -> float:
        ahead = outlook.price(onwards, p)
        ends = [end.total for arm in open_arms if not isinstance(end := outlook.price(arm, p), str)]
        assert isinstance(ahead, Ending)
        return ahead.total - min(ends)

    return _last_crossing(excess)


def _last_crossing(excess: Callable[[float], float], *, grid: int = 200) -> float | None:
    """Where `excess` turns from above 0 to not above 0 for the last time on [0, 1]."""
    if excess(1.0) > 0.0:
        return None
    high = 1.0
    for step in range(grid - 1, -1, -1):
        low = step / grid
        if excess(low) > 0.0:
            break
        high = low
    else:
        return 0.0
    while high - low > 1e-12:
        middle = (low + high) / 2.0
        low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
    return high
