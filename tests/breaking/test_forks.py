"""A router that was made before a fork works in both processes, and each answers for its own runs."""

from __future__ import annotations

import os
import signal

import pytest

from demur import Call
from demur.core.clock import SystemClock
from demur.core.errors import EffectBusy
from demur.core.run import RunState
from demur.router.recovery import recover
from demur.router.site import Tool


def _in_child(router, call, told: int, wait: int) -> int:
    """A child whose tool says that it has begun, and then waits."""
    child = os.fork()
    if child == 0:

        def tool() -> int:
            os.write(told, b"x")
            os.read(wait, 1)
            return 1

        try:
            router.run(call, tool=Tool("t", tool))
        finally:
            os._exit(0)
    return child


def test_a_child_killed_inside_a_tool_is_told_from_its_living_parent(router):
    made = router(mode="shadow")
    call = Call(kind="tool", tool_name="t", idempotency_key="k")
    begun, told = os.pipe()
    wait, _ = os.pipe()
    child = _in_child(made, call, told, wait)
    try:
        os.read(begun, 1)
        assert recover(made.database, SystemClock()).left, "the child lives"
        with pytest.raises(EffectBusy):
            made.run(call.model_copy(update={"id": "call_2"}), tool=Tool("t", lambda: 2))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert len(recover(made.database, SystemClock()).unknown) == 1
    ran = []
    result = made.run(call.model_copy(update={"id": "call_3"}), tool=Tool("t", lambda: ran.append(1)))
    assert (result.state, ran) == (RunState.UNKNOWN, [])
