"""From evidence to signals to one confidence, cheapest first, with a note of what did not run and why."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from ..core.clock import SystemClock
from ..core.confidence import Confidence, Interval, Probability
from ..core.decision import Stage
from ..core.errors import ConfigurationError
from ..core.evidence import CaptureRequest, Evidence, Need
from ..core.protocols import Clock, Probe
from ..core.signal import Signal, Unavailable
from ..core.success_chance import SuccessChance
from ..core.text import said

if TYPE_CHECKING:
    from ..probes.artefact import Artefact

logger = logging.getLogger("demur")


@dataclass(frozen=True)
class Assessment:
    """What is known about one response (or about the prompt alone).

    Attributes:
        confidence: None where there is too little to go on; `why_not` then says what is missing.
        not_run: probe name → reason.
    """

    signals: tuple[Signal, ...]
    confidence: Confidence | None
    why_not: str = ""
    not_run: Mapping[str, str] = field(default_factory=dict)


class Assessor:
    """Runs the probes that the access allows and asks the artefact's head what they amount to.

    Args:
        probes: with unique names and unique signal names.
        artefact: None on the first day; there is then no confidence, only signals.

    Raises:
        ConfigurationError: two probes share a name or a signal name.
    """

    def __init__(self, probes: Sequence[Probe], artefact: Artefact | None, *, clock: Clock | None = None) -> None:
        self.probes = tuple(sorted(probes, key=lambda probe: probe.cost_rank))
        self.artefact = artefact
        self._clock = clock or SystemClock()
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
        return self.artefact is not None and self.artefact.head(arm, stage) is not None

    def capture_request(self, arm: str) -> CaptureRequest:
        """What must be read off the model for this arm's heads, worked out once for all probes."""
        return self.artefact.needed_capture(arm) if self.artefact is not None else CaptureRequest()

    def assess(self, evidence: Evidence, stage: Stage, *, deadline: datetime | None = None) -> Assessment:
        """Measure and judge. Never raises for what a probe does: a crashing probe is a missing signal (rule 1)."""
        head = self.artefact.head(evidence.arm, stage) if self.artefact is not None else None
        wanted = set(head.signal_names) if head is not None else None
        signals: list[Signal] = []
        not_run: dict[str, str] = {}
        for probe in self.probes:
            reason = self._reason_not_to_run(probe, evidence, stage, wanted, deadline)
            if reason is None:
                signals.extend(measure(probe, evidence))
            elif stage is Stage.AFTER or probe.stage is Stage.BEFORE:
                not_run[probe.name] = reason
        if head is None or self.artefact is None:
            why = f"nothing is fitted for '{evidence.arm}/{stage.value}'"
            return Assessment(tuple(signals), None, why, not_run)
        hidden = evidence.captured.hidden if evidence.captured is not None else {}
        judged = head.predict(signals, hidden, calibrator=self.artefact.calibrator_id(evidence.arm, stage))
        if isinstance(judged, Unavailable):
            return Assessment(tuple(signals), None, judged.reason, not_run)
        return Assessment(tuple(signals), judged, "", not_run)

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


def measure(probe: Probe, evidence: Evidence) -> list[Signal]:
    """The probe's signals; every one of them missing, with the reason, where it raised or kept one back."""
    try:
        measured = {signal.name: signal for signal in probe.measure(evidence)}
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
