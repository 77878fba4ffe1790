"""A run: one call from end to end, round by round, and what came of it."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar

from pydantic import ConfigDict, Field, JsonValue

from .call import Call
from .confidence import Confidence
from .decision import Decision, Mode, Route
from .record import Record, new_id
from .response import Cost, Response
from .signal import Signal
from .turn import TurnKind

T = TypeVar("T")


class RunState(StrEnum):
    """Where a run stands. `unknown` means that an effect may or may not have happened: a review says what is known."""

    OPEN = "open"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"


class EffectState(StrEnum):
    """Where an effect stands (rule 5)."""

    INTENDED = "intended"
    STARTED = "started"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"


class NotStored(Record):
    """Stands where a value was that JSON cannot hold: the value itself is gone, its text is kept for people.

    Attributes:
        type_name: the type of the value that was there.
        text: its `repr`, length-limited.
    """

    type_name: str
    text: str


class Effect(Record):
    """One use of a tool, keyed (within a tenant) so that it never happens twice.

    Attributes:
        result: what the tool returned; where that was not JSON, its text, and `result_type` names its type.
        may_run_again: it is known that the effect did not happen, so the same key may run it.
    """

    idempotency_key: str
    run_id: str
    tool_name: str
    arguments: dict[str, JsonValue]
    state: EffectState
    result: JsonValue = None
    result_type: str | None = None
    error: str | None = None
    may_run_again: bool = False
    updated_at: datetime = Field(default_factory=lambda: datetime.now(UTC))


class Round(Record):
    """One pass: a response (or the prompt alone), the signals read off it, the confidence, the decision.

    Attributes:
        turn: which kind of turn the response is; None before generation.
        fingerprint: of the model that responded, as JSON text; None where it is not known.
    """

    number: int = Field(ge=0)
    arm: str
    response: Response | None
    turn: TurnKind | None = None
    fingerprint: str | None = None
    signals: tuple[Signal, ...]
    confidence: Confidence | None
    decision: Decision
    not_run: dict[str, str] = Field(default_factory=dict)


class Result(Record, Generic[T]):
    """What the caller gets.

    Attributes:
        value: the answer, tool result or edited value; None unless the route delivered one.
        route: the route that was carried out (in shadow mode `answer` although the decision says otherwise).
        recommended: what the policy chose; differs from `route` in shadow and advise mode.
        review_id: the queue item, where one was made.
        confidence: None only when the run failed before there was one.
        turn: which kind of turn the delivered (or withheld) response is; None where there was none.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    value: T | None
    route: Route
    recommended: Route
    mode: Mode
    confidence: Confidence | None
    run_id: str
    response_id: str | None = None
    review_id: str | None = None
    turn: TurnKind | None = None
    state: RunState = RunState.DONE
    reason: str = ""
    cost: Cost = Cost()

    @property
    def delivered(self) -> bool:
        """True when `value` is an answer or tool result that the policy (or its mode) let through."""
        return self.state is RunState.DONE and self.route in (Route.ANSWER, Route.RETRIEVE, Route.ESCALATE)


class Run(Record):
    """Everything about one call, as stored.

    Attributes:
        parent_id: the run whose reviewer edited its call into this one.
    """

    id: str = Field(default_factory=lambda: new_id("run"))
    call: Call
    parent_id: str | None = None
    state: RunState = RunState.OPEN
    rounds: tuple[Round, ...] = ()
    result: Result[Any] | None = None
    cost: Cost = Cost()
    error: str | None = None
    created_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
