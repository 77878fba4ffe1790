"""Carrying out what a human let through, exactly once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..core.call import Call, SideEffects
from ..core.decision import Mode, Route
from ..core.errors import BadInput, ConfigurationError, StaleItem, StillWaiting
from ..core.response import Cost
from ..core.review_item import ReviewState, Verdict
from ..core.run import Result, Run, RunState
from ..review.queue import ReviewQueue
from .edited_course import EditedCourse
from .ended import result_of
from .log import RunLog
from .owner import this_process
from .resumption import Resumption
from .site import Site, Tool
from .steps import Plan, blocking
from .tool_plan import ToolCourse

_UNDECIDED = (ReviewState.OPEN, ReviewState.CLAIMED)


@dataclass
class ApprovedCourse(ToolCourse):
    """The course of a call that a human let through: nothing is judged again, only the deadline still counts."""

    through: Resumption | None = None

    def plan(self) -> Plan[Result[Any]]:
        if self.site.past_deadline(self.call):
            late = f"it was let through by a reviewer, but not carried out before its deadline {self.call.deadline}"
            return self._ended(Route.ABSTAIN, None, late)
        started = self.site.clock.monotonic()
        try:
            value = yield self.execution()
        finally:
            self.spent = self.spent + Cost(seconds=self.site.clock.monotonic() - started)
        assert self.through is not None and self.through.item.resolution is not None
        resolution = self.through.item.resolution
        how = "edited" if resolution.verdict is Verdict.EDIT else "approved"
        return self._ended(Route.ANSWER, value, f"{how} by {resolution.reviewer}")

    def _ended(self, route: Route, value: Any, reason: str) -> Result[Any]:
        assert self.through is not None
        run, item = self.through.run, self.through.item
        newest = run.rounds[-1] if run.rounds else None
        return Result[Any](
            value=value,
            route=route,
            recommended=Route.DEFER if newest is None else newest.decision.route,
            mode=Mode.ENFORCE if newest is None else newest.decision.mode,
            confidence=item.confidence,
            run_id=run.id,
            response_id=item.response_id,
            review_id=item.id,
            turn=None if newest is None else newest.turn,
            reason=reason,
            cost=self.spent,
        )


@dataclass(frozen=True)
class Resuming:
    """One router's way of carrying out waiting runs.

    Attributes:
        site: everything that a call's run works with.
        tools: what can be carried out, by name.
        carry: follows a course to its end and stores it (`Router.carry_through`).
        break_off: ends a run that raised (`Router.break_off`).
        recover: ends the run of this id if its process died.
        draw: the next recorded random number.
    """

    log: RunLog
    queue: ReviewQueue
    tools: Mapping[str, Tool]
    site: Callable[[Call], Site]
    carry: Callable[[str, ToolCourse], Plan[Result[Any]]]
    break_off: Callable[[str, BaseException], Plan[None]]
    recover: Callable[[str], object]
    draw: Callable[[], float]

    def plan(self, run_id: str, given: Tool | None, *, act: bool = True) -> Plan[Result[Any]]:
        """The result of a run, carrying it out where that is still to do.

        Where that made another call of it, which a human has to look at, the result says so: it waits anew.

        Args:
            given: the tool, where it is not among `tools`.
            act: False: only look; somebody else carries it out.

        Raises:
            StillWaiting: nobody has decided, or somebody is carrying it out right now.
            ConfigurationError: the tool is not here; the run keeps waiting.
            BadInput: there is no such run, or its arguments cannot be had from the log; then it keeps waiting.
            Exception: whatever the tool raised.
        """
        run = yield from self._brought_up(run_id)
        if run.state is not RunState.WAITING:
            return result_of(run)
        through: Resumption | None = yield blocking(self.log.let_through, run_id)
        if through is None:
            # It may have been decided in this very moment.
            run = yield from self._brought_up(run_id)
            if run.state is not RunState.WAITING:
                return result_of(run)
            raise StillWaiting(run_id, _review_of(run))
        child: Run | None = (yield blocking(self.log.child_of, run_id)) if through.tool_changed else None
        if child is not None and child.state is not RunState.FAILED:
            return (yield from self._as_child(run, child.id, given, act))
        if not act:
            raise StillWaiting(run_id, through.item.id, "let through, and waits to be carried out")
        tool = self._tool(through, given)
        if through.tool_changed:
            return (yield from self._changed(run, through, tool))
        return (yield from self._approved(through, tool))

    def _brought_up(self, run_id: str) -> Plan[Run]:
        """The run, after what time and crashes have done to it."""
        run: Run | None = yield blocking(self.log.get, run_id)
        if run is None:
            raise BadInput(f"there is no run {run_id!r}; hand in Result.run_id")
        if run.state is RunState.WAITING and (yield blocking(self._is_due, run_id)):
            yield blocking(self.queue.expire_due)
        elif run.state is RunState.OPEN:
            yield blocking(self.recover, run_id)
        else:
            return run
        now: Run | None = yield blocking(self.log.get, run_id)
        assert now is not None
        if now.state is RunState.OPEN:
            raise StillWaiting(run_id, _review_of(now), "at work right now")
        return now

    def _is_due(self, run_id: str) -> bool:
        now = self.queue.clock.now()
        items = self.queue.of_run(run_id)
        return any(each.state in _UNDECIDED and each.due_at is not None and each.due_at <= now for each in items)

    def _tool(self, through: Resumption, given: Tool | None) -> Tool:
        """The tool to run. Nothing is taken before it is known that it can be."""
        run_id, name = through.run.id, through.tool_name
        tool = given if given is not None and given.name == name else self.tools.get(name)
        if tool is None:
            known = ", ".join(sorted(self.tools)) or "none"
            raise ConfigurationError(
                f"run {run_id!r} is approved as a call of {name!r}, and no tool of that name is here (registered: "
                f"{known}); guard the function before resuming, or router.register_tool(...). The run keeps waiting"
            )
        refused = None if tool.refuses is None else tool.refuses(through.arguments)
        if refused is not None:
            raise BadInput(f"run {run_id!r} of {name!r} cannot be carried out from the log, and waits: {refused}")
        return tool

    def _approved(self, through: Resumption, tool: Tool) -> Plan[Result[Any]]:
        """Take the run, then run the tool: the effect is keyed as the call was, whoever resumes it."""
        run_id, taken = through.run.id, []
        call = through.run.call.model_copy(update={"arguments": through.arguments})
        site: Site = yield blocking(self.site, call)  # before it is taken: if this fails, the run keeps waiting
        try:
            yield blocking(lambda: taken.append(self.log.resume(run_id, this_process())))
        except StaleItem:
            # Another one was faster: what it made of it is the result.
            now = yield from self._brought_up(run_id)
            if now.state is RunState.WAITING:
                raise StillWaiting(run_id, _review_of(now), "in another's hands right now") from None
            return result_of(now)
        except BaseException as error:
            if taken:  # cut off when it was ours already
                yield from self.break_off(run_id, error)
            raise
        mine: Resumption = taken[0]
        course = ApprovedCourse(site, call, run_id, 0.0, tool, spent=mine.run.cost, through=mine)
        return (yield from self.carry(run_id, course))

    def _changed(self, run: Run, through: Resumption, tool: Tool) -> Plan[Result[Any]]:
        """The edited call is a run of its own, gated by its own policy; this run waits until that one ends."""
        effects: SideEffects = yield blocking(self._effects, run.call, through.tool_name, tool)
        became = run.call.model_copy(
            update={
                "tool_name": through.tool_name,
                "arguments": through.arguments,
                # The same edit is the same call, however often it is tried and by whom.
                "idempotency_key": f"edited:{run.id}",
                "side_effects": effects,
            }
        )
        site: Site = yield blocking(self.site, became)
        child = Run(call=became, parent_id=run.id, created_at=self.log.clock.now())
        try:
            started: Run = yield blocking(self.log.start, child, site.mode, site.owner)
        except Exception:
            raise  # nothing was stored
        except BaseException as error:
            yield from self.break_off(child.id, error)
            raise
        if started.id != child.id:
            return (yield from self._as_child(run, started.id, None, False))
        course = EditedCourse(site, became, child.id, self.draw(), tool, edited_from=through.item)
        yield from self.carry(child.id, course)
        now: Run | None = yield blocking(self.log.get, run.id)
        assert now is not None
        return result_of(now)

    def _as_child(self, run: Run, child_id: str, given: Tool | None, act: bool) -> Plan[Result[Any]]:
        """Carry the child on, if it was let through; the parent was brought to where it stands with it."""
        try:
            ended: Result[Any] = yield from self.plan(child_id, given, act=act)
        except StillWaiting as error:
            raise StillWaiting(run.id, error.review_id, error.why) from None
        now: Run | None = yield blocking(self.log.get, run.id)
        assert now is not None
        if now.state is RunState.WAITING and ended.state is not RunState.WAITING:  # it failed before it did anything
            raise StillWaiting(run.id, _review_of(now), "let through, and waits to be carried out")
        return result_of(now)

    def _effects(self, asked: Call, name: str, tool: Tool) -> SideEffects:
        """What the other tool does to the world, as far as its own declaration says; the settings' are added to it.

        Of a tool of which nobody has said anything, the gravest is assumed that the first one could do.
        """
        if tool.side_effects is not None:
            return tool.side_effects
        site = self.site(asked)
        declared = name in site.policy.tools or "*" in site.policy.tools
        return SideEffects.NONE if declared else site.policy.effects_of(asked)


def _review_of(run: Run) -> str | None:
    return None if run.result is None else run.result.review_id
