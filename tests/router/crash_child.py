"""A process that runs one tool call and kills itself at a chosen point.

    python crash_child.py DATABASE COUNTER KEY POINT TOOL

POINT is "none", "tool" (inside the tool, after its effect), "before:N" or "after:N" (the Nth commit).
What is run is `one_call(database_path, key, tool, name)`; anything with that signature can take its place.
"""

import os
import signal
import sys
from datetime import UTC, datetime

from demur.core.call import Call, CallKind, SideEffects
from demur.core.clock import SystemClock
from demur.core.database import Database
from demur.core.decision import Decision, Mode, Route, Stage
from demur.core.response import Cost, Response, ToolCall
from demur.core.run import Result, Round, Run, RunState
from demur.core.signal import Signal
from demur.router.effects import EffectLog
from demur.router.log import RunLog
from demur.router.owner import this_process


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def increment(path):
    """The effect on the world: one more byte in a file, on disk when this returns."""
    with open(path, "ab") as file:
        file.write(b"x")
        file.flush()
        os.fsync(file.fileno())


def one_call(database, key, tool, tool_name, *, idempotent=False):
    """A whole tool run through the logs; returns its stored result's value."""
    clock = SystemClock()
    log, effects = RunLog(database, clock), EffectLog(database, clock)
    call = Call(
        kind=CallKind.TOOL,
        tool_name=tool_name,
        arguments={"n": 1},
        idempotency_key=key,
        side_effects=SideEffects.IRREVERSIBLE,
    )
    mine = Run(call=call)
    run = log.start(mine, Mode.ENFORCE, this_process())
    if run.id != mine.id:
        return run.result.value if run.result else run.state.value
    response = Response(tool_calls=(ToolCall(name=tool_name, arguments={"n": 1}),))
    decision = Decision(
        call_id=call.id,
        run_id=run.id,
        round=0,
        stage=Stage.AFTER,
        mode=Mode.ENFORCE,
        route=Route.ANSWER,
        reason="sure enough",
        confidence=None,
        policy_id="policy",
        draw=0.5,
        decided_at=datetime.now(UTC),
    )
    signals = (Signal.of("mean_logprob", -0.1),)
    log.record_round(
        run.id,
        Round(number=0, arm="answer", response=response, signals=signals, confidence=None, decision=decision),
    )
    value = effects.run_once(key, run.id, tool_name, call.arguments, tool, idempotent=idempotent)
    result = Result(
        value=value,
        route=Route.ANSWER,
        recommended=Route.ANSWER,
        mode=Mode.ENFORCE,
        confidence=None,
        run_id=run.id,
        response_id=response.id,
    )
    log.finish(run.id, RunState.DONE, result, Cost(seconds=0.1))
    return value


def main(path, counter, key, point, tool_name):
    database = Database(path)
    dialect, commit, commits = database.engine.dialect, database.engine.dialect.do_commit, 0

    def counted_commit(connection):
        nonlocal commits
        # Views that only read are ended by a commit too; they change nothing and are not counted.
        if not connection.driver_connection.total_changes > seen.get(id(connection.driver_connection), 0):
            commit(connection)
            return
        seen[id(connection.driver_connection)] = connection.driver_connection.total_changes
        commits += 1
        if point == f"before:{commits}":
            die()
        commit(connection)
        if point == f"after:{commits}":
            die()

    seen = {}
    dialect.do_commit = counted_commit

    def tool():
        increment(counter)
        if point == "tool":
            die()
        return {"ok": True, "n": 1}

    value = one_call(database, key, tool, tool_name, idempotent=tool_name == "set_value")
    return commits, value


if __name__ == "__main__":
    print(*main(*sys.argv[1:]))
