"""The part of the router that waits for humans and carries out what they let through, as its users call it."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

from ..core.run import Result
from ..review.queue import ReviewQueue
from .log import RunLog
from .resumer import Resumer
from .settings import Settings
from .site import Tool
from .waiting_texts import message_for


class ResumingRouter:
    """Registers tools, resumes what was let through, and waits for it."""

    log: RunLog
    queue: ReviewQueue
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
        policy; where that asks for a human, the result waits anew under another review. A run that has ended gives its
        stored result.

        Args:
            tool: what to run, where it is not registered.

        Raises:
            StillWaiting: nobody has decided yet, or it is being carried out right now.
            ConfigurationError: the tool is not here; the run keeps waiting.
            BadInput: there is no such run, or its arguments were no JSON and are not in the log.
            Exception: whatever the tool raised.
        """
        return self.resumer.resume(run_id, tool)

    async def aresume(self, run_id: str, *, tool: Tool | None = None) -> Result[Any]:
        """`resume`, without blocking the event loop."""
        return await self.resumer.aresume(run_id, tool)

    def poll(self, run_id: str, *, tool: Tool | None = None, resume: bool = True) -> Result[Any] | None:
        """The result of a waiting run, resumed where it was let through; None while it waits.

        Args:
            resume: False only looks, where another program carries the tools out.

        Raises:
            Exception: as `resume` raises, but for StillWaiting.
        """
        return self.resumer.poll(run_id, tool, resume)

    async def apoll(self, run_id: str, *, tool: Tool | None = None, resume: bool = True) -> Result[Any] | None:
        """`poll`, without blocking the event loop."""
        return await self.resumer.apoll(run_id, tool, resume)

    def wait(
        self,
        run_id: str,
        timeout: float | None = None,
        *,
        tool: Tool | None = None,
        poll: float | None = None,
        resume: bool = True,
    ) -> Result[Any]:
        """Block until a waiting run has ended, by a human or by its time being up; resume it where it was let through.

        What is decided in this process is seen at once, what others decide by looking now and then.

        Args:
            timeout: seconds; None: for ever.
            tool: what to run, where it is not registered.
            poll: seconds between two looks; by default growing from `[waiting] poll_first` to `poll_longest`.
            resume: False only looks, where another program carries the tools out.

        Raises:
            StillWaiting: not within `timeout` seconds.
            Exception: as `resume` raises.
        """
        return self.resumer.wait(run_id, timeout, tool, poll, resume)

    async def await_result(
        self,
        run_id: str,
        timeout: float | None = None,
        *,
        tool: Tool | None = None,
        poll: float | None = None,
        resume: bool = True,
    ) -> Result[Any]:
        """`wait`, without blocking the event loop."""
        return await self.resumer.await_result(run_id, timeout, tool, poll, resume)

    def future(self, run_id: str) -> Future[Result[Any]]:
        """A future of a waiting run's result; one thread looks after all of them and runs registered tools."""
        return self.resumer.future(run_id)

    def resume_all(self) -> dict[str, Result[Any]]:
        """Carry out everything that was let through while no program was there, as far as its tools are known here.

        Returns:
            by run id, what ended; where the tool raised, the failed result. What still waits is left out.
        """
        return self.resumer.resume_all()

    async def aresume_all(self) -> dict[str, Result[Any]]:
        """`resume_all`, without blocking the event loop."""
        return await self.resumer.aresume_all()

    def message_for(self, result: Result[Any]) -> str | None:
        """What the end user is told where nothing is delivered (`[waiting]` in the settings).

        None where something is delivered, and where the call failed: then there is an error to tell of.
        """
        run = self.log.get(result.run_id)
        texts = self.settings.waiting_for("default" if run is None else run.call.task)
        return message_for(result, texts, self.queue)

    async def amessage_for(self, result: Result[Any]) -> str | None:
        """`message_for`, without blocking the event loop."""
        return await asyncio.to_thread(self.message_for, result)
