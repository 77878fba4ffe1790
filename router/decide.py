"""From an assessment to a decision: which routes there are, what the policy chooses, and the frozen record of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..core.call import Call, CallKind
from ..core.confidence import Confidence
from ..core.decision import Decision, Route, Stage
from ..core.signal import Unavailable
from ..policies.expected_cost import Chance
from ..policies.policy import PolicyInput
from ..probes.calibration.prior import PriorCalibrator
from .assessor import Assessment
from .site import Site


@dataclass(frozen=True)
class AtBase:
    """A success chance seen from the first draft's confidence, on which it was fitted, whatever came since."""

    chance: Chance
    base: float

    @property
    def labels(self) -> int:
        return self.chance.labels

    def at(self, p: float) -> float:
        return self.chance.at(self.base)


@dataclass(frozen=True)
class Options:
    """What the course of the run leaves open.

    Attributes:
        tried: arm → why it can no longer be taken.
        base: the confidence of the first draft, or of the prompt.
        generations: responses so far.
        draw: the run's recorded random number.
        excluded: arm or route → why this caller cannot take it.
    """

    tried: Mapping[str, str]
    base: Confidence | None
    generations: int
    draw: float
    excluded: Mapping[str, str] = field(default_factory=dict)


def build_decision(
    site: Site, call: Call, run_id: str, number: int, stage: Stage, assessment: Assessment, options: Options
) -> Decision:
    """Ask the policy, and write down everything that its choice rested on."""
    confidence: Confidence | Unavailable = assessment.confidence or Unavailable(reason=assessment.why_not or "none")
    choice = site.policy.choose(
        PolicyInput(
            call=call,
            stage=stage,
            confidence=confidence,
            draw=options.draw,
            available=_available(site, call, stage, options),
            chances=_chances(site, options.base),
            rounds=options.generations,
            mode=site.mode,
            turn=assessment.turn,
        )
    )
    artefact = site.assessor.artefact
    return Decision(
        call_id=call.id,
        run_id=run_id,
        round=number,
        stage=stage,
        mode=site.mode,
        confidence=assessment.confidence or PriorCalibrator().confidence(),
        artefact_id=artefact.id if artefact is not None else None,
        draw=options.draw,
        decided_at=site.clock.now(),
        **{name: getattr(choice, name) for name in type(choice).model_fields},
    )


def _chances(site: Site, base: Confidence | None) -> dict[str, Chance]:
    artefact = site.assessor.artefact
    if artefact is None:
        return {}
    if base is None:
        return dict(artefact.chances)
    return {arm: AtBase(chance, base.value) for arm, chance in artefact.chances.items()}


def _available(site: Site, call: Call, stage: Stage, options: Options) -> dict[str, str | None]:
    """Every arm that exists, with the reason where it cannot be taken."""
    late = site.past_deadline(call)
    arms: dict[str, str | None] = {
        (Route.GENERATE if stage is Stage.BEFORE else Route.ANSWER).value: None,
        Route.DEFER.value: site.queue_closed(call),
    }
    if call.kind is CallKind.LLM:
        arms[Route.RETRIEVE.value] = "no retriever is set" if site.retriever is None else _unjudged(site, "retrieve")
        for name in site.larger:
            arm = f"{Route.ESCALATE.value}:{name}"
            arms[arm] = _unjudged(site, arm)
    for arm in arms:
        excluded = options.excluded.get(arm) or options.excluded.get(arm.partition(":")[0])
        if late:  # a human's answer comes too late as well
            arms[arm] = "the deadline has passed"
        elif arm in options.tried:
            arms[arm] = options.tried[arm]
        elif excluded is not None:
            arms[arm] = excluded
    return arms


def _unjudged(site: Site, arm: str) -> str | None:
    """Why the result of a later route could not be judged: an answer that nothing vouches for is not delivered."""
    artefact = site.assessor.artefact
    if artefact is None:
        return "nothing is fitted yet"
    chance = artefact.chances.get(arm)
    if chance is None:
        return f"no success chance is known for {arm}; fit it on graded rows"
    if chance.labels == 0 and not site.assessor.can_judge(arm):
        return f"the success chance of {arm} was stated, not measured, and nothing is fitted to judge its answers"
    return None
