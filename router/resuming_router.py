"""The part of the router that waits for humans and carries out what they let through, as its users call it."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from ..core.run import Result
from .log import RunLog
from .resumer import Resumer
from .settings import Settings
from .site import Tool


class ResumingRouter:
    """Registers tools, resumes what was let through, and waits for it."""

    log: RunLog
    settings: Settings
    resumer: Resumer

    def register_tool(self, tool: Tool) -> None:
        """Make a tool known, so that `resume` can carry out an approved call of it. Guarded functions are known.

        Raises:
            ConfigurationError: another function has this name already.
        """
        self.resumer.register(tool)

    def resume(self, run_id: str, *, tool: Tool | None = None) -> Result[Any]:
        """Carry out what a human let through, exactly once, whoever asks and however often.

        An edit of the arguments runs as edited. An edit into another tool is a call of its own, gated by that tool's
        policy. A run that has ended gives its stored result.

        Args:
            tool: what to run, where it is not registered.

        Raises:
            StillWaiting: nobody has decided yet.
            ConfigurationError: the tool is not here; the run keeps waiting.
            BadInput: there is no such run.
            Exception: whatever the tool raised.
        """
        return self.resumer.resume(run_id, tool)

    async def aresume(self, run_id: str, *, tool: Tool | None = None) -> Result[Any]:
        """`resume`, without blocking the event loop."""
        return await self.resumer.aresume(run_id, tool)

    def poll(self, run_id: str) -> Result[Any] | None:
        """The result of a waiting run, resumed where it was let through; None while nobody has decided."""
        return self.resumer.poll(run_id)

    async def apoll(self, run_id: str) -> Result[Any] | None:
        return await self.resumer.apoll(run_id)

    def wait(self, run_id: str, timeout: float | None = None) -> Result[Any]:
        """Block until a waiting run has ended, by a human or by its time being up.

        Raises:
            StillWaiting: not within `timeout` seconds.
        """
        return self.resumer.wait(run_id, timeout)

    async def await_result(self, run_id: str, timeout: float | None = None) -> Result[Any]:
        """`wait`, without blocking the event loop."""
        return await self.resumer.await_result(run_id, timeout)

    def future(self, run_id: str) -> Future[Result[Any]]:
        """A future of a waiting run's result."""
        return self.resumer.future(run_id)

    def resume_all(self) -> dict[str, Result[Any]]:
        """Carry out everything that was approved while no program was there, as far as its tools are known here."""
        return self.resumer.resume_all()

    def message_for(self, result: Result[Any]) -> str | None:
        """What the end user is told where nothing is delivered (`[waiting]` in the settings); None where it is."""
        return self.settings.message_for(result, self._task_of(result.run_id))

    def _task_of(self, run_id: str) -> str:
        run = self.log.get(run_id)
        return "default" if run is None else run.call.task
