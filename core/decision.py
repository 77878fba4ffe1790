"""A decision: which route, why, and what every route was expected to cost."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum

from pydantic import Field, FiniteFloat

from .confidence import Confidence
from .record import Record, new_id


class Route(StrEnum):
    """The five ways a call can go. `generate` appears only before generation: go on and draft an answer."""

    GENERATE = "generate"
    ANSWER = "answer"
    RETRIEVE = "retrieve"
    ESCALATE = "escalate"
    DEFER = "defer"
    ABSTAIN = "abstain"


class Mode(StrEnum):
    """How much a decision may change: nothing, only what is said beside the answer, or what happens."""

    SHADOW = "shadow"
    ADVISE = "advise"
    ENFORCE = "enforce"


class Stage(StrEnum):
    """Before or after the response of a round exists."""

    BEFORE = "before"
    AFTER = "after"


class ExpectedCost(Record):
    """The expected cost of one route.

    Attributes:
        route: the route; `target` names the model it would escalate to, or the reviewer pool.
        total: what the policy compares, in its one unit of money.
        success: the chance that the route ends with a right answer delivered.
        parts: the total, taken apart ("wrong answer", "review", "waiting", ...).
        unavailable: why the route cannot be taken, or None.
    """

    route: Route
    target: str | None = None
    total: float | None
    success: float | None = None
    parts: dict[str, FiniteFloat] = Field(default_factory=dict)
    unavailable: str | None = None


class Guarantee(Record):
    """What a threshold promises, and about whom (rule 10)."""

    kind: str
    alpha: float
    delta: float | None
    labels: int
    population: str
    assumption: str = "exchangeable with the calibration rows"


class Decision(Record):
    """Frozen, and stored before anything acts on it.

    The same evidence, policy version and `draw` give the same decision.

    Attributes:
        route: what the policy chose. In shadow mode the caller gets the answer all the same.
        target: the model to escalate to, where the route is `escalate`.
        reason: one sentence for people.
        threshold: the probability at which answering and the best other route cost the same; None if not defined.
        fallback: the route comes from the configured fallback because there was too little to go on.
        propensity: chance that this route was drawn (1 where nothing was random).
        label_propensity: known chance that the call is sent for grading.
        sampled_for_label: this call was drawn for grading.
        draw: the recorded uniform random number behind every random choice.
    """

    id: str = Field(default_factory=lambda: new_id("dec"))
    call_id: str
    run_id: str
    round: int = Field(ge=0)
    stage: Stage
    mode: Mode
    route: Route
    target: str | None = None
    reason: str
    confidence: Confidence | None
    threshold: float | None = None
    expected_costs: tuple[ExpectedCost, ...] = ()
    fallback: bool = False
    guarantee: Guarantee | None = None
    artefact_id: str | None = None
    policy_id: str
    propensity: float = Field(default=1.0, gt=0.0, le=1.0)
    label_propensity: float = Field(default=0.0, ge=0.0, le=1.0)
    sampled_for_label: bool = False
    draw: float = Field(ge=0.0, lt=1.0)
    decided_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
