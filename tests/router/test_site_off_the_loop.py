"""What a run works with is put together off the event loop: the first fingerprint of a model reads its weight files."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest

from demur import Call
from demur.core.errors import ConfigurationError
from demur.core.protocols import Generation
from demur.core.response import Response, TokenTrace
from demur.core.run import RunState
from demur.router.site import Tool
from demur.testing import Reviewer

SETTINGS = {"tools": {"refund": {"side_effects": "irreversible"}, "wire": {"side_effects": "irreversible"}}}


class Waits:
    """Stands for a slow read: it ends when the event loop has had a turn."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.threads: list[threading.Thread] = []

    def __call__(self) -> None:
        turn = threading.Event()
        self.loop.call_soon_threadsafe(turn.set)
        assert turn.wait(30.0), "the event loop stood still meanwhile"
        self.threads.append(threading.current_thread())


async def test_a_fingerprint_is_taken_while_the_loop_goes_on(make_router, scripted):
    router = make_router(scripted())
    waits = Waits()

    class Slow(scripted):
        def fingerprint(self):
            waits()
            return super().fingerprint()

    result = await router.arun(Call.ask("Capital of France?"), model=Slow())
    assert result.delivered
    assert waits.threads and threading.current_thread() not in waits.threads


def slow_site(router, waits):
    """The router's `site`, which takes its time."""
    site = router.site

    def slow(*given, **options):
        waits()
        return site(*given, **options)

    return slow


@pytest.mark.parametrize("edit", [None, {"arguments": {"n": 1}}, {"tool_name": "wire", "arguments": {"n": 1}}])
async def test_resuming_keeps_the_loop_going(make_router, scripted, monkeypatch, edit):
    router = make_router(scripted(), settings=SETTINGS)
    tools = {name: Tool(name, lambda **arguments: "done") for name in ("refund", "wire")}
    for tool in tools.values():
        router.register_tool(tool)
    unsure = Generation(Response(trace=TokenTrace(logprobs=(-3.0,))))
    call = Call(kind="tool", tool_name="refund", arguments={"order": "A"})
    waits = Waits()
    monkeypatch.setattr(router, "site", slow_site(router, waits))
    waiting = await router.arun(call, tool=tools["refund"], proposal=unsure)
    assert waiting.state is RunState.WAITING
    reviewer = Reviewer(router)
    _ = reviewer.approve() if edit is None else reviewer.edit(**edit)
    result = await router.aresume(waiting.run_id)
    assert result.state is (RunState.WAITING if edit and "tool_name" in edit else RunState.DONE)
    assert len(waits.threads) >= 2 and threading.current_thread() not in waits.threads


def test_what_a_resumed_run_works_with_is_known_before_it_is_taken(make_router, scripted, monkeypatch):
    router = make_router(scripted(), settings=SETTINGS)
    uses: list[dict] = []
    tool = Tool("refund", lambda **arguments: uses.append(arguments))
    call = Call(kind="tool", tool_name="refund", arguments={"order": "A"})
    unsure = Generation(Response(trace=TokenTrace(logprobs=(-3.0,))))
    waiting = router.run(call, tool=tool, proposal=unsure)
    Reviewer(router).edit(arguments={"order": "B"})

    def refused(*given, **options):
        raise ConfigurationError("no site")

    with monkeypatch.context() as patched:
        patched.setattr(router, "site", refused)
        with pytest.raises(ConfigurationError, match="no site"):
            router.resume(waiting.run_id, tool=replace(tool))
    assert router.log.get(waiting.run_id).state is RunState.WAITING
    assert router.resume(waiting.run_id, tool=tool).state is RunState.DONE
    assert uses == [{"order": "B"}]
