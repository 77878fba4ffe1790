"""Carrying out what a human let through, exactly once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..core.call import Call, SideEffects
from ..core.decision import Decision, Mode, Route, Stage
from ..core.errors import BadInput, ConfigurationError, StaleItem, StillWaiting
from ..core.response import Cost
from ..core.review_item import ReviewItem, Verdict
from ..core.run import Result, Round, Run, RunState
from ..probes.calibration.prior import PriorCalibrator
from .resumption import Resumption
from .site import Site, Tool
from .steps import Plan, blocking
from .tool_plan import ToolCourse


@dataclass
class EditedCourse(ToolCourse):
    """The course of a call that a reviewer's edit turned into a use of another tool.

    Nothing that the model said speaks about it, so no confidence is computed: a human wrote it, and what decides is
    the policy of the tool that it became. Where that asks for review, or the tool cannot be undone, somebody looks at
    it as it now stands.
    """

    edited_from: ReviewItem | None = None

    def _judge(self) -> Decision:
        site, call = self.site, self.call
        assert self.edited_from is not None and self.edited_from.resolution is not None
        who, was = self.edited_from.resolution.reviewer, self.edited_from.call.tool_name
        demanded = site.policy.tool_policy(call).review_demanded(call)
        if demanded is None and site.policy.effects_of(call) is SideEffects.IRREVERSIBLE:
            demanded = "it cannot be undone"
        route = Route.ANSWER if demanded is None else Route.DEFER
        reason = f"{who} edited a call of {was} into this one"
        reason += "; its own policy lets it run." if demanded is None else f"; a human looks again: {demanded}."
        artefact = site.assessor.artefact
        decision = Decision(
            call_id=call.id,
            run_id=self.run_id,
            round=0,
            stage=Stage.AFTER,
            mode=Mode.ENFORCE,
            route=route,
            reason=reason,
            confidence=PriorCalibrator().confidence(),
            label_propensity=0.0,
            policy_id=site.policy.id,
            artefact_id=artefact.id if artefact is not None else None,
            draw=self.draw,
            decided_at=site.clock.now(),
        )
        review = site.review_for(call, decision, None)
        recorded = Round(number=0, arm="answer", response=None, signals=(), confidence=None, decision=decision)
        site.log.record_round(self.run_id, recorded, review=review)
        self.review_id = review.id if review is not None else None
        return decision


@dataclass
class Resuming:
    """One try at carrying out a run that waited.

    Attributes:
        start: makes, or finds, the run of an edited call and carries it through.
    """

    site: Callable[[Call], Site]
    tools: Mapping[str, Tool]
    run_id: str
    owner: str
    start: Callable[[Call, Tool, Resumption], Plan[Result[Any]]]
    spent: Cost = field(default_factory=Cost)

    def plan(self, site: Site, given: Tool | None) -> Plan[Result[Any]]:
        """The result, carrying the call out where that is still to do."""
        log = site.log
        run: Run | None = yield blocking(log.get, self.run_id)
        if run is None:
            raise BadInput(f"there is no run {self.run_id!r}; hand in Result.run_id")
        if run.state is not RunState.WAITING:
            return _ended(run)
        child = yield blocking(log.child_of, self.run_id)
        if child is None or child.state is not RunState.WAITING:
            let_through: Resumption | None = yield blocking(log.let_through, self.run_id)
            if let_through is None:
                raise StillWaiting(self.run_id, None if run.result is None else run.result.review_id)
            tool = self._tool(let_through.tool_name, given)
        else:
            tool, let_through = None, None
        if child is not None and child.state is RunState.WAITING:
            deeper = Resuming(self.site, self.tools, child.id, self.owner, self.start)
            yield from deeper.plan(site, given)  # raises StillWaiting while nobody has decided about it either
        try:
            mine: Resumption = yield blocking(log.resume, self.run_id, self.owner)
        except StaleItem:
            # Another process was faster: what it made of it is the result.
            now: Run | None = yield blocking(log.get, self.run_id)
            if now is None or now.state is RunState.WAITING:
                raise
            return _ended(now)
        if mine.tool_changed:
            assert tool is not None or child is not None
            return (yield from self._changed(log, mine, tool or self._tool(mine.tool_name, given)))
        assert tool is not None
        return (yield from self._run(log, mine, tool))

    def _tool(self, name: str, given: Tool | None) -> Tool:
        tool = given if given is not None and given.name == name else self.tools.get(name)
        if tool is None:
            known = ", ".join(sorted(self.tools)) or "none"
            raise ConfigurationError(
                f"run {self.run_id!r} is approved as a call of {name!r}, and no tool of that name is here (registered: "
                f"{known}); guard the function before resuming, or router.register_tool(...). The run keeps waiting"
            )
        return tool

    def _run(self, log: Any, mine: Resumption, tool: Tool) -> Plan[Result[Any]]:
        """Once: the effect is keyed as the call was, whoever resumes it."""
        call = mine.run.call.model_copy(update={"arguments": mine.arguments})
        site = self.site(call)
        course = ToolCourse(site, call, mine.run.id, 0.0, tool)
        started = site.clock.monotonic()
        try:
            value = yield course.execution()
        finally:
            self.spent = mine.run.cost + Cost(seconds=site.clock.monotonic() - started)
        assert mine.item.resolution is not None
        how = "edited" if mine.item.resolution.verdict is Verdict.EDIT else "approved"
        result = _result(mine, value, RunState.DONE, f"{how} by {mine.item.resolution.reviewer}", self.spent)
        yield blocking(log.finish, mine.run.id, RunState.DONE, result)
        return result

    def _changed(self, log: Any, mine: Resumption, tool: Tool) -> Plan[Result[Any]]:
        """The edited call is a run of its own, gated by its own policy; this run ends as that one does."""
        call = mine.run.call
        became = call.model_copy(
            update={
                "id": f"{call.id}-edited"[:64],
                "tool_name": mine.tool_name,
                "arguments": mine.arguments,
                # The same edit is the same call, however often it is tried.
                "idempotency_key": f"edited:{mine.run.id}",
                "side_effects": SideEffects.NONE,
            }
        )
        ended = yield from self.start(became, tool, mine)
        cost = mine.run.cost + ended.cost
        result = ended.model_copy(update={"run_id": mine.run.id, "response_id": mine.item.response_id, "cost": cost})
        yield blocking(log.finish, mine.run.id, ended.state, result)
        return result


def _ended(run: Run) -> Result[Any]:
    if run.result is not None and run.state is not RunState.OPEN:
        return run.result
    if run.state is RunState.OPEN:
        raise StillWaiting(run.id, None)
    return Result[Any](
        value=None,
        route=Route.DEFER if run.state is RunState.UNKNOWN else Route.ABSTAIN,
        recommended=Route.DEFER,
        mode=Mode.ENFORCE,
        confidence=run.rounds[-1].confidence if run.rounds else None,
        run_id=run.id,
        state=run.state,
        reason=run.error or f"the run is {run.state}",
        cost=run.cost,
    )


def _result(mine: Resumption, value: Any, state: RunState, reason: str, cost: Cost) -> Result[Any]:
    return Result[Any](
        value=value,
        route=Route.ANSWER,
        recommended=Route.DEFER,
        mode=mine.run.rounds[-1].decision.mode if mine.run.rounds else Mode.ENFORCE,
        confidence=mine.item.confidence,
        run_id=mine.run.id,
        response_id=mine.item.response_id,
        review_id=mine.item.id,
        turn=mine.run.rounds[-1].turn if mine.run.rounds else None,
        state=state,
        reason=reason,
        cost=cost,
    )
