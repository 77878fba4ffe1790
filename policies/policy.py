"""The policy: confidence, costs and what is possible → one route, with its reason."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ..core.call import Call, CallKind, SideEffects
from ..core.confidence import Confidence
from ..core.decision import ExpectedCost, Mode, Route, Stage
from ..core.errors import BadInput, ConfigurationError
from ..core.record import Record, content_hash
from ..core.signal import Unavailable
from ..core.turn import TurnKind
from .costs import Costs
from .expected_cost import Chance, Outlook, priced, threshold
from .tool_policy import ToolPolicy, graver_effects, tool_policy_of
from .turn_rules import TurnRules

# On a tie an answer goes out (the utility core's p ≥ τ), and a tool that changes the world does not.
ANSWERS_FIRST = (Route.ANSWER, Route.GENERATE, Route.RETRIEVE, Route.ESCALATE, Route.DEFER, Route.ABSTAIN)
WITHHELD_FIRST = (Route.DEFER, Route.ABSTAIN, Route.GENERATE, Route.RETRIEVE, Route.ESCALATE, Route.ANSWER)

# Totals closer than this share of what is at stake are a tie: they differ by rounding only.
TIE = 1e-12

WITHHELD = (Route.DEFER, Route.ABSTAIN)


@dataclass(frozen=True)
class PolicyInput:
    """Everything that one decision rests on.

    Args:
        call: with the tool as it stands now; after a reviewer's edit, the edited call.
        stage: before or after the response of this round exists.
        confidence: None or `Unavailable` where there is none.
        available: arm ("retrieve", "escalate:NAME", "defer", "answer") → None where it can be taken, or why not. Arms
            left out do not exist; going ahead and abstaining are always listed.
        chances: arm → success chance of "retrieve" and "escalate:NAME".
        rounds: responses so far in this run, the present one included (0 before the first).
        draw: the recorded uniform random number in [0, 1).
        mode: how much the decision may change; in shadow and advise mode the answer is delivered whatever the route.
        queue_wait: expected seconds in the review queue beyond the usual.
        turn: which kind of turn the response is; None before generation.

    Raises:
        BadInput: `draw` or `rounds` is out of range.
    """

    call: Call
    stage: Stage
    confidence: Confidence | Unavailable | None
    draw: float
    available: Mapping[str, str | None] = field(default_factory=dict)
    chances: Mapping[str, Chance] = field(default_factory=dict)
    rounds: int = 0
    mode: Mode = Mode.ENFORCE
    queue_wait: float = 0.0
    turn: TurnKind | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.draw < 1.0:  # NaN lands here too
            raise BadInput(f"draw={self.draw} must be a uniform random number in [0, 1)")
        if self.rounds < 0:
            raise BadInput(f"rounds={self.rounds} must not be negative")


class Choice(Record):
    """What the policy chose. The fields carry the names, and the meanings, that `Decision` gives them."""

    route: Route
    target: str | None = None
    reason: str
    threshold: float | None = None
    expected_costs: tuple[ExpectedCost, ...] = ()
    fallback: bool = False
    policy_id: str
    propensity: float = 1.0
    label_propensity: float = 0.0
    sampled_for_label: bool = False


class CostPolicy:
    """Takes the route with the least expected cost; falls back where there is too little to go on.

    Args:
        costs: the prices.
        fallback_effects: route without confidence, of tools with side effects: defer or abstain.
        fallback_answers: route without confidence, of answers and tools without side effects.
        label_rate: chance that a delivered answer is drawn for grading.
        max_rounds: responses per run, the first included; then nothing is retrieved or escalated any more.
        min_labels: graded rows that the confidence must rest on; with fewer the fallback acts.
        tools: policies by tool name; "*" is that of every tool not named.
        use_lower_for_irreversible: judge irreversible tools by the low end of the interval, not by the mean.
        draft_insight, later_insight: how much of the truth the next judgement is taken to see, see `expected_cost`.
        turns: what becomes of refusals and questions back; by default they are judged as answers are.

    Attributes:
        id: content hash of all of the above.

    Raises:
        ConfigurationError: a setting cannot work.
    """

    def __init__(
        self,
        costs: Costs,
        *,
        fallback_effects: Route = Route.DEFER,
        fallback_answers: Route = Route.ABSTAIN,
        label_rate: float = 0.02,
        max_rounds: int = 3,
        min_labels: int = 20,
        tools: Mapping[str, ToolPolicy] | None = None,
        use_lower_for_irreversible: bool = True,
        draft_insight: float = 1.0,
        later_insight: float = 0.0,
        turns: TurnRules | None = None,
    ) -> None:
        if not isinstance(costs, Costs):
            raise ConfigurationError(f"costs={costs!r} must be a Costs, say Costs(wrong=1.0, abstain=0.3)")
        self.costs = costs
        self.fallback_effects = _withheld("fallback_effects", fallback_effects)
        self.fallback_answers = _withheld("fallback_answers", fallback_answers)
        self.label_rate = _share("label_rate", label_rate)
        self.max_rounds = _count("max_rounds", max_rounds)
        self.min_labels = _count("min_labels", min_labels)
        self.draft_insight = _share("draft_insight", draft_insight)
        self.later_insight = _share("later_insight", later_insight)
        if not isinstance(use_lower_for_irreversible, bool):
            raise ConfigurationError(f"use_lower_for_irreversible={use_lower_for_irreversible!r} must be True or False")
        self.use_lower_for_irreversible = use_lower_for_irreversible
        self.turns = turns or TurnRules()
        self.tools = MappingProxyType(dict(tools or {}))
        for name, tool in self.tools.items():
            _check_tool(name, tool, costs)
        self.id = content_hash(self.settings())

    def settings(self) -> dict[str, object]:
        """Everything that sets this policy apart, as JSON values."""
        turns = self.turns.settings()
        return {
            "kind": "cost",
            "costs": self.costs.settings(),
            "fallback_effects": str(self.fallback_effects),
            "fallback_answers": str(self.fallback_answers),
            "label_rate": self.label_rate,
            "max_rounds": self.max_rounds,
            "min_labels": self.min_labels,
            "tools": {name: tool.settings() for name, tool in self.tools.items()},
            "use_lower_for_irreversible": self.use_lower_for_irreversible,
            "draft_insight": self.draft_insight,
            "later_insight": self.later_insight,
            **({"turns": turns} if turns else {}),
        }

    def tool_policy(self, call: Call) -> ToolPolicy:
        """The policy of the tool that the call names now."""
        return tool_policy_of(call, self.tools)

    def effects_of(self, call: Call) -> SideEffects:
        """The graver of what the call says of itself and what its tool is declared as."""
        return graver_effects(call, self.tools)

    def choose(self, given: PolicyInput) -> Choice:
        """The route. Pure: the same input gives the same choice.

        Raises:
            ConfigurationError: `available` or `chances` names an arm that does not exist.
        """
        outlook = self._outlook(given)
        tool = self.tool_policy(given.call)
        demanded = tool.review_demanded(given.call)
        if demanded is not None:
            said = f"{_name(given.call)} is not run before a human has looked: {demanded}."
            return self._withhold(given, outlook, Route.DEFER, said, tool.always_review is not True)
        missing = self._nothing_to_go_on(given.confidence)
        told = self.turns.told(given.call, given.turn, given.available.get(Route.ANSWER))
        if told is not None:
            known = given.confidence.value if missing is None and isinstance(given.confidence, Confidence) else None
            costs = priced(outlook, known)
            return self._choice(given, outlook, told[0], None, told[1], fallback=False, costs=costs)
        if missing is not None:
            return self._fall_back(given, outlook, missing)
        assert isinstance(given.confidence, Confidence)
        probability, low_end = self._judged_by(given, given.confidence)
        return self._cheapest(given, outlook, probability, low_end)

    def _outlook(self, given: PolicyInput) -> Outlook:
        available = dict(given.available)
        if given.rounds >= self.max_rounds:
            for arm, reason in available.items():
                if reason is None and arm.partition(":")[0] in (Route.RETRIEVE, Route.ESCALATE):
                    available[arm] = f"{given.rounds} of {self.max_rounds} rounds are used"
        costs = self.costs.with_loss(self.tool_policy(given.call).loss)
        return Outlook(
            costs,
            given.stage,
            given.chances,
            available,
            given.queue_wait,
            self.draft_insight,
            self.later_insight,
        )

    def _nothing_to_go_on(self, confidence: Confidence | Unavailable | None) -> str | None:
        """Why the confidence cannot carry a decision, or None when it can."""
        if confidence is None:
            return "there is no confidence"
        if isinstance(confidence, Unavailable):
            return f"there is no confidence ({confidence.reason})"
        numbers = (confidence.value, confidence.interval.low, confidence.interval.high)
        if not all(math.isfinite(number) and 0.0 <= number <= 1.0 for number in numbers):
            return f"the confidence is not a probability ({', '.join(map(str, numbers))})"
        if confidence.is_prior:
            return "nothing is learned yet (0 graded rows)"
        if confidence.labels < self.min_labels:
            return f"the confidence rests on {confidence.labels} graded rows and the policy asks for {self.min_labels}"
        return None

    def _fall_back(self, given: PolicyInput, outlook: Outlook, missing: str) -> Choice:
        onwards, blocked = outlook.arms[0]
        if onwards.route is Route.GENERATE and blocked is None:
            # Drafting delivers nothing; the draft is judged in its turn.
            said = f"Drafting: before the draft {missing}, so it is judged once it exists."
            return self._choice(given, outlook, Route.GENERATE, None, said, fallback=True, costs=priced(outlook, None))
        plain = self.effects_of(given.call) is SideEffects.NONE
        route = self.fallback_answers if plain else self.fallback_effects
        return self._withhold(given, outlook, route, f"Not delivered: {missing}.", True)

    def _withhold(self, given: PolicyInput, outlook: Outlook, route: Route, said: str, fallback: bool) -> Choice:
        """Defer or abstain whatever it costs; abstain where there is no queue to defer to."""
        costs = priced(outlook, None)
        target = None
        if route is Route.DEFER:
            # The fallback needs a queue, not a price: `available` decides, not the cost table.
            pools = [arm for arm, _ in outlook.arms if arm.route is Route.DEFER and given.available[str(arm)] is None]
            if pools:
                target = pools[0].target
            else:
                refusals = [reason for arm, reason in given.available.items() if arm.partition(":")[0] == Route.DEFER]
                said += f" No human can be asked ({refusals[0] if refusals else 'no review queue is set'})."
                route, fallback = Route.ABSTAIN, True
        return self._choice(given, outlook, route, target, said, fallback=fallback, costs=costs)

    def _judged_by(self, given: PolicyInput, confidence: Confidence) -> tuple[float, bool]:
        """The probability that decides, and whether it is the low end."""
        cautious = self.use_lower_for_irreversible and self.effects_of(given.call) is SideEffects.IRREVERSIBLE
        return (min(confidence.interval.low, confidence.value), True) if cautious else (confidence.value, False)

    def _cheapest(self, given: PolicyInput, outlook: Outlook, probability: float, low_end: bool) -> Choice:
        costs = priced(outlook, probability)
        order = ANSWERS_FIRST if self.effects_of(given.call) is SideEffects.NONE else WITHHELD_FIRST
        totals = {index: cost.total for index, cost in enumerate(costs) if cost.total is not None}
        tie = TIE * (outlook.costs.wrong + outlook.costs.right)
        least = min(totals.values())
        tied = [costs[index] for index, total in totals.items() if total <= least + tie]
        best = min(tied, key=lambda cost: (order.index(cost.route), cost.target or ""))
        others = [cost for cost in costs if cost is not best and cost.total is not None]
        runner_up = min(others, key=lambda cost: (cost.total or 0.0, order.index(cost.route)), default=None)
        said = self._reason(given.call, best, runner_up, probability, low_end)
        return self._choice(given, outlook, best.route, best.target, said, fallback=False, costs=costs)

    def _reason(
        self, call: Call, best: ExpectedCost, runner_up: ExpectedCost | None, probability: float, low_end: bool
    ) -> str:
        money = self.costs.money
        which = "the low end of P(right)" if low_end else "P(right)"
        said = f"At {which} = {probability:.3f} {_doing(best, call)} is expected to cost {money(best.total or 0.0)}"
        if runner_up is not None:
            said += f", and the next best, {_doing(runner_up, call)}, {money(runner_up.total or 0.0)}"
        return said + "."

    def _choice(
        self,
        given: PolicyInput,
        outlook: Outlook,
        route: Route,
        target: str | None,
        reason: str,
        *,
        fallback: bool,
        costs: tuple[ExpectedCost, ...],
    ) -> Choice:
        propensity = self._label_propensity(given, route)
        return Choice(
            route=route,
            target=target,
            reason=reason,
            threshold=threshold(outlook),
            expected_costs=costs,
            fallback=fallback,
            policy_id=self.id,
            label_propensity=propensity,
            # A deferred draft is in front of a human already; only delivered ones are drawn.
            sampled_for_label=self._delivers(given, route) and given.draw < propensity,
        )

    @staticmethod
    def _delivers(given: PolicyInput, route: Route) -> bool:
        if given.stage is Stage.BEFORE:
            return False
        return route is Route.ANSWER or given.mode is not Mode.ENFORCE

    def _label_propensity(self, given: PolicyInput, route: Route) -> float:
        """The known chance that the response is graded.

        The label rate where it is delivered (in shadow and advise mode, always), 1 where a human gets to see it, 0
        where nobody does, before generation, and for an irreversible use that is carried out.
        """
        if self._delivers(given, route):
            return 0.0 if self.effects_of(given.call) is SideEffects.IRREVERSIBLE else self.label_rate
        return 1.0 if route is Route.DEFER and given.stage is Stage.AFTER else 0.0


def _name(call: Call) -> str:
    return f"tool {call.tool_name}"


def _doing(cost: ExpectedCost, call: Call) -> str:
    if cost.route is Route.ANSWER and call.kind is CallKind.TOOL:
        return f"running {_name(call)}"
    verbs = {
        Route.ANSWER: "answering",
        Route.GENERATE: "drafting an answer",
        Route.RETRIEVE: "retrieving passages",
        Route.ESCALATE: f"escalating to {cost.target}",
        Route.DEFER: "deferring to a human",
        Route.ABSTAIN: "abstaining",
    }
    return verbs[cost.route]


def _withheld(name: str, route: Route) -> Route:
    if route not in WITHHELD:
        raise ConfigurationError(f"{name}={route!r} must be 'defer' or 'abstain': a fallback delivers nothing")
    return Route(route)


def _share(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
        raise ConfigurationError(f"{name}={value!r} must be a number in [0, 1]")
    return float(value)


def _count(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigurationError(f"{name}={value!r} must be a whole number of at least 1")
    return value


def _check_tool(name: str, tool: ToolPolicy, costs: Costs) -> None:
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"tools has the key {name!r}; use the tool's name, or '*' for all others")
    if not isinstance(tool, ToolPolicy):
        raise ConfigurationError(f"tools[{name!r}]={tool!r} must be a ToolPolicy")
    try:
        costs.with_loss(tool.loss)
    except ConfigurationError as error:
        raise ConfigurationError(f"tools[{name!r}].loss={tool.loss} does not go with the costs: {error}") from error
