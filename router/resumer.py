"""Carries out a router's waiting runs, and waits for them."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from ..core.call import Call
from ..core.decision import Mode
from ..core.errors import ConfigurationError, StillWaiting
from ..core.run import Result, Run, RunState
from .owner import this_process
from .resume_plan import EditedCourse, Resuming
from .resumption import Resumption
from .site import Site, Tool
from .steps import Plan, adrive, blocking, drive
from .waiting import Futures, await_result, wait

if TYPE_CHECKING:
    from collections.abc import Generator

    from .router import Router


class Resumer:
    """Resumes and waits for a router's runs.

    Attributes:
        tools: what can be carried out, by name.
    """

    def __init__(self, router: Router) -> None:
        self._router = router
        self.tools: dict[str, Tool] = {}
        self._ambiguous: set[str] = set()
        self._futures = Futures(self.poll)

    def register(self, tool: Tool, *, strict: bool = True) -> None:
        """Make a tool known, so that approved calls of it can be carried out later.

        Args:
            strict: False: of two tools with one name neither is known, instead of an error; approved calls then wait.

        Raises:
            ConfigurationError: another function has this name already (the same one, defined again, takes its place).
        """
        known = self.tools.get(tool.name)
        if tool.name in self._ambiguous:
            return
        if known is not None and _place(known) != _place(tool):
            if not strict:
                del self.tools[tool.name]
                self._ambiguous.add(tool.name)
                return
            raise ConfigurationError(
                f"two tools are called {tool.name!r}; a reviewer could not tell which of them runs. Rename one: "
                "guard(name=...)"
            )
        self.tools[tool.name] = tool

    def resume(self, run_id: str, tool: Tool | None) -> Result[Any]:
        return drive(self._plan(run_id, tool))

    async def aresume(self, run_id: str, tool: Tool | None) -> Result[Any]:
        return await adrive(self._plan(run_id, tool))

    def poll(self, run_id: str) -> Result[Any] | None:
        """The result, carrying out what was let through; None while nobody has decided."""
        self._router.queue.expire_due()
        try:
            return self.resume(run_id, None)
        except StillWaiting:
            return None

    async def apoll(self, run_id: str) -> Result[Any] | None:
        await asyncio.to_thread(self._router.queue.expire_due)
        try:
            return await self.aresume(run_id, None)
        except StillWaiting:
            return None

    def wait(self, run_id: str, timeout: float | None) -> Result[Any]:
        return wait(self.poll, run_id, timeout)

    async def await_result(self, run_id: str, timeout: float | None) -> Result[Any]:
        return await await_result(self.apoll, run_id, timeout)

    def future(self, run_id: str) -> Future[Result[Any]]:
        return self._futures.of(run_id)

    def resume_all(self) -> dict[str, Result[Any]]:
        """Everything that was approved and whose tool is here."""
        done: dict[str, Result[Any]] = {}
        for run_id in self._router.log.resumable():
            let_through = self._router.log.let_through(run_id)
            if let_through is not None and let_through.tool_name in self.tools:
                done[run_id] = self.resume(run_id, None)
        return done

    def close(self) -> None:
        self._futures.close()

    def _plan(self, run_id: str, tool: Tool | None) -> Generator[Any, Any, Result[Any]]:
        router = self._router
        run: Run | None = yield blocking(router.log.get, run_id)
        site = self._site(run.call) if run is not None else self._site(Call.ask("?"))
        resuming = Resuming(self._site, self.tools, run_id, this_process(), self._start)
        try:
            return (yield from resuming.plan(site, tool))
        except StillWaiting:
            raise
        except BaseException as error:
            if run is not None and run.state is RunState.WAITING:
                yield from router.break_off(run_id, error, resuming.spent)
            raise

    def _site(self, call: Call) -> Site:
        # A human let it through: the mode can only be the one in which humans are asked.
        return self._router.site(call, mode=Mode.ENFORCE)

    def _start(self, call: Call, tool: Tool, mine: Resumption) -> Plan[Result[Any]]:
        """The run of an edited call: made once, found again after a crash."""
        router, site = self._router, self._site(call)
        run = Run(call=call, parent_id=mine.run.id, created_at=router.clock.now())
        started: Run = yield blocking(router.log.start, run, site.mode, site.owner, model=None)
        if started.id != run.id:
            return router.result_of(started)
        course = EditedCourse(site, call, run.id, router.draw(), tool, edited_from=mine.item)
        return (yield from router.carry_through(run.id, course))


def _place(tool: Tool) -> tuple[str, str]:
    """Where a tool's function was written down: a notebook defines the same one again."""
    function = tool.source or tool.run
    return str(getattr(function, "__module__", "")), str(getattr(function, "__qualname__", id(function)))
