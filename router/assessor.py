"""From evidence to signals to one confidence, cheapest first, with a note of what did not run and why."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ..core.call import CallKind
from ..core.clock import SystemClock
from ..core.confidence import Confidence, Interval, Probability
from ..core.decision import Stage
from ..core.errors import ConfigurationError
from ..core.evidence import CaptureRequest, Evidence, Need
from ..core.protocols import Clock, Probe
from ..core.signal import Signal, Unavailable
from ..core.success_chance import SuccessChance
from ..core.text import said
from ..core.turn import TurnKind
from ..evaluation.turn_kind import turn_kind
from ..probes.calibration.base import logit
from .called_tool import tool_of
from .learning.relearn import ARTEFACT_SCORE

if TYPE_CHECKING:
    from ..probes.artefact import Artefact
    from ..probes.head import Head
    from ..probes.signal_table import Hidden
    from .learning.learned_head import LearnedHead
    from .learning.learning import Learning

logger = logging.getLogger("demur")


@dataclass(frozen=True)
class Assessment:
    """What is known about one response (or about the prompt alone).

    Attributes:
        confidence: None where there is too little to go on; `why_not` then says what is missing.
        not_run: probe name → reason.
        turn: which kind of turn the response is; None before generation.
    """

    signals: tuple[Signal, ...]
    confidence: Confidence | None
    why_not: str = ""
    not_run: Mapping[str, str] = field(default_factory=dict)
    turn: TurnKind | None = None


class Assessor:
    """Runs the probes that the access allows and asks the artefact's head what they amount to.

    Args:
        probes: with unique names and unique signal names.
        artefact: None on the first day; there is then no confidence, only signals.
        learning: what was learned from outcomes since; None: nothing is.
        refusal: what the task's models are told to say where they cannot answer.

    Raises:
        ConfigurationError: two probes share a name or a signal name.
    """

    def __init__(
        self,
        probes: Sequence[Probe],
        artefact: Artefact | None,
        *,
        clock: Clock | None = None,
        learning: Learning | None = None,
        refusal: str | None = None,
    ) -> None:
        self.probes = tuple(sorted(probes, key=lambda probe: probe.cost_rank))
        self.artefact = artefact
        self._clock = clock or SystemClock()
        self._learning = learning
        self._refusal = refusal
        seen: dict[str, str] = {}
        for probe in self.probes:
            for name in (f"probe {probe.name}", *probe.signal_names):
                if name in seen:
                    raise ConfigurationError(
                        f"{name!r} comes from two probes: {seen[name]} and {probe.name}; rename one"
                    )
                seen[name] = probe.name

    def can_judge(self, arm: str, stage: Stage = Stage.AFTER) -> bool:
        """Is there anything fitted that turns this arm's evidence into a confidence?"""
        return self.artefact is not None and bool(self.artefact.heads_for(arm, stage))

    def capture_request(self, arm: str) -> CaptureRequest:
        """What must be read off the model for this arm's heads, worked out once for all probes."""
        return self.artefact.needed_capture(arm) if self.artefact is not None else CaptureRequest()

    def assess(self, evidence: Evidence, stage: Stage, *, deadline: datetime | None = None) -> Assessment:
        """Measure and judge. Never raises for what a probe does: a crashing probe is a missing signal (rule 1).

        The confidence is that of the artefact's head (where there are several, of the first that has enough to go on),
        or of one that was learned from the log since, moved by what outcomes taught about that head. What recalls
        experience runs last, at the confidence of all the rest.
        """
        turn = self._turn(evidence) if stage is Stage.AFTER else None
        fitted = self.artefact.heads_for(evidence.arm, stage) if self.artefact is not None else ()
        learned = self._learned(evidence, stage)
        heads = [*fitted, *([learned.head] if learned is not None else [])]
        wanted = {name for head in heads for name in head.signal_names} if heads else None
        signals: list[Signal] = []
        not_run: dict[str, str] = {}
        recalls: list[RecallingProbe] = []
        for probe in self.probes:
            reason = self._reason_not_to_run(probe, evidence, stage, wanted, deadline)
            if reason is not None:
                if stage is Stage.AFTER or probe.stage is Stage.BEFORE:
                    not_run[probe.name] = reason
            elif isinstance(probe, RecallingProbe):
                recalls.append(probe)
            else:
                signals.extend(measure(probe, evidence))
        if stage is Stage.AFTER and evidence.response is not None and evidence.response.stopped_early:
            # Unfinished: whatever its signals say, there is no answer to be confident of (rule 1).
            reason = f"the answer was stopped early: {evidence.response.stopped_early}"
            return Assessment(tuple(signals), None, reason, not_run, turn)
        tool = tool_of(evidence)
        hidden = evidence.captured.hidden if evidence.captured is not None else {}
        judged: Confidence | Unavailable = Unavailable(reason=f"nothing is fitted for '{evidence.arm}/{stage.value}'")
        if fitted:
            judged = self._by_first(fitted, signals, hidden, tool)
            if self._learning is not None and stage is Stage.AFTER:
                signals.extend(scores_of(fitted[0], judged, hidden))
        elif learned is not None:
            judged = learned.head.predict(signals, hidden, calibrator=learned.calibrator)
        for probe in recalls:
            at = judged.value if isinstance(judged, Confidence) else None
            signals.extend(measure_by(probe, lambda probe=probe, at=at: probe.measure_at(evidence, at)))
        if learned is not None:
            judged = learned.head.predict(signals, hidden, calibrator=learned.calibrator)
        elif recalls and fitted:
            judged = self._by_first(fitted, signals, hidden, tool)
        if isinstance(judged, Unavailable):
            return Assessment(tuple(signals), None, judged.reason, not_run, turn)
        if self._learning is not None and turn is not None:
            judged = self._learning.adjusted(evidence.call.tenant, evidence.call.task, turn, judged)
        return Assessment(tuple(signals), judged, "", not_run, turn)

    def _by_first(
        self, heads: Sequence[Head], signals: Sequence[Signal], hidden: Hidden, tool: str | None
    ) -> Confidence | Unavailable:
        """The confidence of the first head that has enough to go on and sees something that the next one cannot; else
        of the last that has enough; else what the first one misses."""
        told: list[Confidence | Unavailable] = []
        for head in heads:
            name = head.key if self.artefact is None else self.artefact.calibrator_id(head.arm, head.stage, head.access)
            judged = head.predict(signals, hidden, calibrator=name, tool=tool)
            if isinstance(judged, Confidence) and head.sees_own(judged):
                return judged
            told.append(judged)
        return next((judged for judged in reversed(told) if isinstance(judged, Confidence)), told[0])

    def _turn(self, evidence: Evidence) -> TurnKind | None:
        """A proposed tool call is one, however little of what proposed it is at hand."""
        if evidence.response is None:
            return None
        if evidence.call.kind is CallKind.TOOL:
            return TurnKind.TOOL_CALL
        return turn_kind(evidence.response, self._refusal)

    def _learned(self, evidence: Evidence, stage: Stage) -> LearnedHead | None:
        """The head learned from the log for this model's responses, once everything that is known is learned."""
        if self._learning is None or stage is not Stage.AFTER or evidence.response is None:
            return None
        self._learning.keep_up()
        if evidence.model is None:
            return None
        call = evidence.call
        return self._learning.head(call.tenant, call.task, evidence.arm, evidence.model.fingerprint().identity)

    def _reason_not_to_run(
        self, probe: Probe, evidence: Evidence, stage: Stage, wanted: set[str] | None, deadline: datetime | None
    ) -> str | None:
        if stage is Stage.BEFORE and probe.stage is Stage.AFTER:
            return "runs after generation"
        missing = probe.needs - _given(evidence)
        if missing:
            return f"needs {', '.join(sorted(need.value for need in missing))}"
        if probe.cost_rank > 0:
            if deadline is not None and self._clock.now() >= deadline:
                return "the deadline has passed"
            # A signal that no fitted head reads cannot change the decision: do not pay for it.
            if isinstance(probe, RecallingProbe):
                return None
            if wanted is None or not wanted.intersection(probe.signal_names):
                return "no fitted head reads its signals: it cannot change the decision"
        return None


def _given(evidence: Evidence) -> frozenset[Need]:
    """What this evidence holds, in the terms in which probes ask."""
    given = {Need.TEXT}
    if evidence.response is not None and evidence.response.trace is not None:
        given.add(Need.LOGPROBS)
    if evidence.captured is not None:
        given.add(Need.HIDDEN_STATES)
    if evidence.samples:
        given.add(Need.SAMPLES)
    if evidence.documents:
        given.add(Need.DOCUMENTS)
    if evidence.episodes:
        given.add(Need.MEMORY)
    if evidence.model is not None:
        given.add(Need.MODEL)
    return frozenset(given)


@runtime_checkable
class RecallingProbe(Probe, Protocol):
    """A probe that compares the call with graded experience, at the confidence of the call's own signals.

    It is measured before any head reads it: a head can learn from it only where it was logged.
    """

    def measure_at(self, evidence: Evidence, confidence: float | None) -> Sequence[Signal]: ...


def scores_of(head: Head, judged: Confidence | Unavailable, hidden: Hidden) -> list[Signal]:
    """What a fitted head made of the call, as signals that a head learned from the log can read."""
    scores = [probe.signal(hidden) for probe in head.probes.values()]
    value = float(logit(judged.value)) if isinstance(judged, Confidence) else None
    missing = judged.reason if isinstance(judged, Unavailable) else ""
    return [*scores, Signal.of(ARTEFACT_SCORE, value, missing=missing)]


def measure(probe: Probe, evidence: Evidence) -> list[Signal]:
    """The probe's signals; every one of them missing, with the reason, where it raised or kept one back."""
    return measure_by(probe, lambda: probe.measure(evidence))


def measure_by(probe: Probe, act: Callable[[], Sequence[Signal]]) -> list[Signal]:
    """The same, however the probe is asked."""
    try:
        measured = {signal.name: signal for signal in act()}
    except Exception as error:  # noqa: BLE001 - rule 1: a crashing probe is a missing signal
        logger.warning("probe %s raised %s", probe.name, said(error))
        reason = f"probe raised {said(error, 200)}"
        return [Signal.missing(name, reason) for name in probe.signal_names]
    return [measured.get(name) or Signal.missing(name, "the probe gave no such signal") for name in probe.signal_names]


def confidence_from_chance(chance: SuccessChance, probability: float, fitted_at: datetime | None) -> Confidence | None:
    """P(right) after a later route that has a learned success chance but no head of its own.

    Its interval is that of the average chance, moved in log-odds to where this call stands. None where the chance was
    only stated by the user: a stated number is not a calibrated one (rule 2).
    """
    if chance.labels == 0:
        return None
    value = chance.at(probability)
    middle = _log_odds((chance.low + chance.high) / 2.0)
    ends = [_sigmoid(_log_odds(value) + _log_odds(end) - middle) for end in (chance.low, chance.high)]
    return Confidence(
        probability=Probability(value=value),
        interval=Interval(low=min(ends[0], value), high=max(ends[1], value), level=chance.level),
        calibrator=f"success chance of {chance.route}{f':{chance.target}' if chance.target else ''}",
        labels=chance.labels,
        fitted_at=fitted_at,
    )


def _log_odds(probability: float) -> float:
    clipped = min(max(probability, 1e-6), 1.0 - 1e-6)
    return math.log(clipped / (1.0 - clipped))


def _sigmoid(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value))
