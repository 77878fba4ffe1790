"""Carries out a router's waiting runs, and waits for them."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Iterator
from concurrent.futures import Future
from itertools import repeat
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ..core.errors import BadInput, ConfigurationError, StillWaiting
from ..core.run import Result, Run, RunState
from ..review.bell import bell
from .ended import result_of
from .recovery import recover
from .resume_plan import Resuming
from .site import Tool
from .steps import Plan, adrive, blocking, drive
from .waiting import Futures, await_result, pauses, wait

if TYPE_CHECKING:
    from .router import Router

logger = logging.getLogger("demur")


class Resumer:
    """Resumes and waits for a router's runs. The router's methods of the same names say more.

    Attributes:
        tools: what can be carried out, by name.
    """

    def __init__(self, router: Router) -> None:
        self._router = router
        self.tools: dict[str, Tool] = {}
        self._ambiguous: set[str] = set()
        self._futures = Futures(lambda run_id: self._look(run_id, None, True), self._between)

    def register(self, tool: Tool, *, strict: bool = True) -> None:
        """Make a tool known, so that approved calls of it can be carried out later.

        Args:
            strict: False: of two tools with one name neither is known, instead of an error; approved calls then wait.

        Raises:
            ConfigurationError: no tool, or another function has this name already (the same one, defined again at the
                same place of a module, takes its place).
        """
        if not isinstance(tool, Tool) or not isinstance(tool.name, str) or not tool.name:
            raise ConfigurationError(f"tool={tool!r} cannot be used: use Tool(name, run)")
        if tool.name in self._ambiguous:
            return
        known = self.tools.get(tool.name)
        if known is not None and not _is_same(known, tool):
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

    def poll(self, run_id: str, tool: Tool | None, act: bool) -> Result[Any] | None:
        found = self._look(run_id, tool, act)
        return None if isinstance(found, StillWaiting) else found

    async def apoll(self, run_id: str, tool: Tool | None, act: bool) -> Result[Any] | None:
        found = await self._alook(run_id, tool, act)
        return None if isinstance(found, StillWaiting) else found

    def wait(
        self, run_id: str, timeout: float | None, tool: Tool | None, every: float | None, act: bool
    ) -> Result[Any]:
        return wait(lambda: self._look(run_id, tool, act), timeout, self._between(every))

    async def await_result(
        self, run_id: str, timeout: float | None, tool: Tool | None, every: float | None, act: bool
    ) -> Result[Any]:
        return await await_result(lambda: self._alook(run_id, tool, act), timeout, self._between(every))

    def future(self, run_id: str) -> Future[Result[Any]]:
        return self._futures.of(run_id)

    def resume_all(self) -> dict[str, Result[Any]]:
        """Everything that was let through and whose tool is here. One that fails does not keep the others."""
        ended: dict[str, Result[Any]] = {}
        for run_id in self._ready():
            try:
                self._ended(self.resume(run_id, None), ended)
            except Exception as error:  # noqa: BLE001 - a tool may raise anything; it is in the log
                self._failed(run_id, error, self._router.log.get(run_id), ended)
        return ended

    async def aresume_all(self) -> dict[str, Result[Any]]:
        """`resume_all`, without blocking the event loop; one after the other."""
        ended: dict[str, Result[Any]] = {}
        for run_id in await asyncio.to_thread(self._ready):
            try:
                self._ended(await self.aresume(run_id, None), ended)
            except Exception as error:  # noqa: BLE001 - a tool may raise anything; it is in the log
                self._failed(run_id, error, await self._router.log.aget(run_id), ended)
        return ended

    def again(self, run: Run, tool: Tool | None) -> Plan[Result[Any]]:
        """The call that made this run is made once more: carried out where a human let it through meanwhile."""
        if run.state is RunState.WAITING and tool is not None:
            try:
                return (yield from self._plan(run.id, tool))
            except StillWaiting:
                run = (yield blocking(self._router.log.get, run.id)) or run
        return result_of(run)

    def close(self) -> None:
        self._futures.close()

    def _ready(self) -> list[str]:
        """Ids of runs that could be carried out here."""
        found = []
        for run_id in self._router.log.resumable(limit=100_000):
            through = self._router.log.let_through(run_id)
            if through is not None and through.tool_name in self.tools:
                found.append(run_id)
        return found

    @staticmethod
    def _ended(result: Result[Any], ended: dict[str, Result[Any]]) -> None:
        if result.state is not RunState.WAITING:  # an edit that another human looks at
            ended[result.run_id] = result

    @staticmethod
    def _failed(run_id: str, error: Exception, run: Run | None, ended: dict[str, Result[Any]]) -> None:
        if isinstance(error, StillWaiting):  # it is in another's hands
            return
        logger.warning("run %s was let through, and could not be carried out: %s", run_id, error)
        if run is not None and run.state not in (RunState.OPEN, RunState.WAITING):
            ended[run_id] = result_of(run)

    def _look(self, run_id: str, tool: Tool | None, act: bool) -> Result[Any] | StillWaiting:
        """The result, carrying out what was let through; or that it still waits."""
        try:
            return _or_waits(drive(self._plan(run_id, tool, act=act)))
        except StillWaiting as error:
            return error

    async def _alook(self, run_id: str, tool: Tool | None, act: bool) -> Result[Any] | StillWaiting:
        try:
            return _or_waits(await adrive(self._plan(run_id, tool, act=act)))
        except StillWaiting as error:
            return error

    def _between(self, every: float | None = None) -> Iterator[float]:
        if every is None:
            waiting = self._router.settings.waiting
            return pauses(waiting.poll_first, waiting.poll_longest)
        if isinstance(every, bool) or not isinstance(every, int | float) or not every > 0.0:
            raise ConfigurationError(f"poll={every!r} must be seconds above 0, or None for those of the settings")
        return repeat(float(every))

    def _plan(self, run_id: str, tool: Tool | None, *, act: bool = True) -> Plan[Result[Any]]:
        router = self._router
        if not isinstance(run_id, str):
            raise BadInput(f"run_id={run_id!r} is no run's id; hand in Result.run_id")
        if tool is not None and not isinstance(tool, Tool):
            raise ConfigurationError(f"tool={tool!r} cannot be used: use Tool(name, run)")
        resuming = Resuming(
            log=router.log,
            queue=router.queue,
            tools=self.tools,
            site=router.site,
            carry=self._carry,
            break_off=router.break_off,
            recover=self._recover,
            draw=router.draw,
        )
        return (yield from resuming.plan(run_id, tool, act=act))

    def _carry(self, run_id: str, course: Any) -> Plan[Result[Any]]:
        try:
            return (yield from self._router.carry_through(run_id, course))
        finally:
            bell.ring()  # others may wait for the same run

    def _recover(self, run_id: str) -> None:
        """Nobody ends the run of a process that died over it but who looks."""
        router = self._router
        idempotent = [name for name, tool in router.settings.tools.items() if tool.idempotent]
        recover(router.database, router.clock, idempotent_tools=idempotent, only=run_id)


def _or_waits(result: Result[Any]) -> Result[Any] | StillWaiting:
    """A result that waits anew has not ended."""
    return StillWaiting(result.run_id, result.review_id) if result.state is RunState.WAITING else result


def _is_same(one: Tool, other: Tool) -> bool:
    """Is it the same function? One defined again at the same place of a module is: a notebook does that.

    Functions made inside functions share their place: they are the same with the same code and what it closes over.
    """
    first, second = one.source or one.run, other.source or other.run
    if first == second:
        return True
    if not (inspect.isfunction(first) and inspect.isfunction(second)):
        return False
    if (first.__module__, first.__qualname__) != (second.__module__, second.__qualname__):
        return False
    return "<" not in first.__qualname__ or _inside(first) == _inside(second)


def _inside(function: FunctionType) -> tuple[Any, ...]:
    closed = {name: id(value) for name, value in inspect.getclosurevars(function).nonlocals.items()}
    return function.__code__, closed, function.__defaults__, function.__kwdefaults__
