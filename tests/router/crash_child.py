"""A process that runs one tool call and kills itself at a chosen point.

    python crash_child.py DATABASE COUNTER KEY POINT TOOL [KIND]

POINT is "none", "tool" (inside the tool, after its effect), "before:N" or "after:N" (the Nth commit).
KIND says through what it goes: "logs" (the logs alone), "router" (a tool call of the router), "answer" (a model call,
where the "tool" is the model).
"""

import os
import signal
import sys
from datetime import UTC, datetime
from functools import cache

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


@cache
def artefact():
    """Calls answers of log-probability -0.02 right."""
    import numpy as np

    from demur.core.protocols import Fingerprint
    from demur.probes.artefact import Artefact
    from demur.probes.binding import Binding, ModelBinding
    from demur.probes.fit_head import fit_head
    from demur.probes.signal_table import SignalTable

    logprobs = -np.linspace(0.0, 3.0, 60)
    right = (np.arange(60) < 30) ^ (np.arange(60) % 20 == 0)
    table = SignalTable(("token.mean_logprob",), logprobs[:, None])
    head = fit_head(table, right.astype(float), groups=None, arm="answer", stage=Stage.AFTER, replicas=10)
    model = ModelBinding.of(Fingerprint("m", "m", True, "", ""))
    facts = {"task": "default", "extractor": "whole", "grader": "alias", "grader_version": "1", "data": "d"}
    return Artefact({"answer/after": head}, Binding(model=model, **facts))


def _house(database):
    """A router, and a generation that it is sure of."""
    from demur import Router, Settings
    from demur.core.protocols import Generation
    from demur.core.response import TokenTrace

    response = Response(text="Paris", trace=TokenTrace(logprobs=(-0.02,)))
    settings = Settings(mode="enforce", costs={"wrong": 1.0, "abstain": 0.9, "review": 0.85})
    return Router(settings=settings, artefacts=[artefact()], database=database, seed=1), Generation(response)


def routed_call(database, key, tool, tool_name, *, idempotent=False):
    """The same through the router: judged by its proposal, decided, stored, run."""
    from demur.router.site import Tool

    router, proposal = _house(database)
    call = Call(
        kind=CallKind.TOOL,
        tool_name=tool_name,
        arguments={"n": 1},
        idempotency_key=key,
        side_effects=SideEffects.IRREVERSIBLE,
    )
    given = Tool(tool_name, run=lambda n: tool(), idempotent=idempotent)
    result = router.run(call, tool=given, proposal=proposal)
    return result.value if result.delivered else result.state.value


def answered_call(database, key, tool, tool_name, *, idempotent=False):
    """A model call through the router; asking the model is what may be cut off."""
    from demur.core.protocols import Fingerprint

    router, generation = _house(database)

    class Model:
        name, provides = "m", frozenset()

        def fingerprint(self):
            return Fingerprint("m", "m", True, "", "")

        def generate(self, call, **options):
            tool()
            return generation

    result = router.run(Call.ask("Capital?", idempotency_key=key), model=Model())
    return result.value if result.delivered else result.state.value


KINDS = {"logs": one_call, "router": routed_call, "answer": answered_call}


def main(path, counter, key, point, tool_name, kind="logs"):
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

    # What creating the tables changed on this connection is not one of the counted commits.
    with database.reading() as connection:
        driver = connection.connection.driver_connection
        seen = {id(driver): driver.total_changes}
    dialect.do_commit = counted_commit

    def tool():
        increment(counter)
        if point == "tool":
            die()
        return {"ok": True, "n": 1}

    value = KINDS[kind](database, key, tool, tool_name, idempotent=tool_name == "set_value")
    return commits, value


if __name__ == "__main__":
    print(*main(*sys.argv[1:]))
