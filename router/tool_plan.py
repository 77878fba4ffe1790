"""The course of one tool call: judge what proposed it, decide, record, and only then run it, at most once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..core.call import Call
from ..core.decision import Decision, Mode, Route, Stage
from ..core.evidence import Evidence
from ..core.protocols import Generation
from ..core.response import Cost
from ..core.review_item import ReviewItem, ReviewKind
from ..core.run import Result, Round, RunState
from ..core.turn import TurnKind
from ..probes.calibration.prior import PriorCalibrator
from .answer_plan import ANSWER_ARM
from .assessor import Assessment
from .decide import Options, build_decision
from .reissue import rejections
from .scored import ScoredGeneration
from .site import Site, Tool
from .steps import Plan, Step, blocking


@dataclass
class ToolCourse:
    """The state of one tool run.

    Args:
        proposal: the generation that proposed the call, to judge it by; None where there is none (then there is too
            little to go on, and the configured fallback acts).
    """

    site: Site
    call: Call
    run_id: str
    draw: float
    tool: Tool
    proposal: Generation | None = None
    excluded: Mapping[str, str] = field(default_factory=dict)
    spent: Cost = field(default_factory=Cost)
    review_id: str | None = None

    def plan(self) -> Plan[Result[Any]]:
        rejected = (yield blocking(self._rejected)) if self.site.mode is Mode.ENFORCE else None
        if rejected is not None:
            return (yield blocking(self._cut, rejected))
        decision = yield blocking(self._judge)
        if decision.route is not Route.ANSWER and decision.mode is Mode.ENFORCE:
            state = RunState.WAITING if decision.route is Route.DEFER else RunState.DONE
            return self._result(decision, decision.route, state, None)
        started = self.site.clock.monotonic()
        try:
            value = yield self.execution()
        finally:
            self.spent = self.spent + Cost(seconds=self.site.clock.monotonic() - started)
        return self._result(decision, Route.ANSWER, RunState.DONE, value)

    def execution(self) -> Step[Any]:
        """Rule 5: `started` is committed before the effect, `done` after it."""
        call, tool, effects = self.call, self.tool, self.site.effects
        key = call.idempotency_key or self.run_id
        arguments = (key, self.run_id, call.tool_name or tool.name, call.arguments)
        idempotent = tool.idempotent or self.site.policy.tool_policy(call).idempotent
        options = {"idempotent": idempotent, "tenant": call.tenant}
        run, arun = tool.run, tool.arun

        def once() -> Any:
            return effects.run_once(*arguments, lambda: run(**call.arguments), **options)

        async def call_tool() -> Any:
            # A sync tool goes to a thread: nothing blocks the event loop.
            if arun is None:
                return await asyncio.to_thread(run, **call.arguments)
            return await arun(**call.arguments)

        async def aonce() -> Any:
            return await effects.arun_once(*arguments, call_tool, **options)

        return Step(run=once, arun=aonce)

    def _rejected(self) -> ReviewItem | None:
        """The newest rejection of this very call in its conversation, where that settles the matter."""
        found = rejections(self.site.log.database, self.call)
        return found[0] if len(found) >= self.site.review.max_rejections else None

    def _cut(self, rejected: ReviewItem) -> Result[Any]:
        """The model asks again for what was rejected: the answer is the same, and nobody is asked again."""
        site, resolution = self.site, rejected.resolution
        if resolution is None:
            reason = f"nobody decided in time on this very call in this conversation (review {rejected.id})"
        else:
            reason = f"a reviewer rejected this very call in this conversation (review {rejected.id})"
            reason += f": {resolution.note}" if resolution.note else ""
        artefact = site.assessor.artefact
        response = self.proposal.response if self.proposal is not None else None
        decision = Decision(
            call_id=self.call.id,
            run_id=self.run_id,
            round=0,
            stage=Stage.AFTER,
            mode=site.mode,
            route=Route.ABSTAIN,
            reason=f"Not run, and nobody is asked again: {reason}",
            confidence=PriorCalibrator().confidence(),
            policy_id=site.policy.id,
            artefact_id=artefact.id if artefact is not None else None,
            draw=self.draw,
            decided_at=site.clock.now(),
        )
        recorded = Round(
            number=0,
            arm=ANSWER_ARM,
            response=response,
            turn=TurnKind.TOOL_CALL if response is not None else None,
            fingerprint=site.fingerprint_of(site.model) if response is not None else None,
            signals=(),
            confidence=None,
            decision=decision,
        )
        site.log.record_round(self.run_id, recorded)
        self.review_id = rejected.id
        return self._result(decision, Route.ABSTAIN, RunState.DONE, None)

    def _judge(self) -> Decision:
        site, call = self.site, self.call
        response = self.proposal.response if self.proposal is not None else None
        captured = self.proposal.captured if self.proposal is not None else None
        if response is None:
            assessment = Assessment((), None, "nothing is known of what proposed this call")
        elif isinstance(self.proposal, ScoredGeneration):
            assessment = self.proposal.assessment
            self.spent = self.spent + response.cost  # no other run counts the turn that proposed it
        else:
            evidence = Evidence(call=call, response=response, captured=captured, arm=ANSWER_ARM, model=site.model)
            assessment = site.assessor.assess(evidence, Stage.AFTER, deadline=call.deadline)
        options = Options({}, None, generations=0, draw=self.draw, excluded=self.excluded)
        decision = build_decision(site, call, self.run_id, 0, Stage.AFTER, assessment, options)
        review = site.review_for(call, decision, response)
        recorded = Round(
            number=0,
            arm=ANSWER_ARM,
            response=response,
            turn=TurnKind.TOOL_CALL if response is not None else None,
            fingerprint=site.fingerprint_of(site.model) if response is not None else None,
            signals=assessment.signals,
            confidence=assessment.confidence,
            decision=decision,
            not_run=dict(assessment.not_run),
        )
        site.log.record_round(self.run_id, recorded, review=review)
        self.review_id = review.id if review is not None and review.kind is ReviewKind.DEFERRED else None
        return decision

    def _result(self, decision: Decision, route: Route, state: RunState, value: Any) -> Result[Any]:
        return Result[Any](
            value=value,
            route=route,
            recommended=decision.route,
            mode=self.site.mode,
            confidence=decision.confidence,
            run_id=self.run_id,
            response_id=self.proposal.response.id if self.proposal is not None else None,
            review_id=self.review_id,
            turn=TurnKind.TOOL_CALL,
            state=state,
            reason=decision.reason,
            cost=self.spent,
        )
