"""A process that acts on a waiting run and kills itself at a chosen point.

    main(DATABASE, COUNTER, RUN_ID, POINT, ACT)

POINT is "none", "tool" (inside the tool, after its effect), "before:N" or "after:N" (the Nth commit). ACT is "resume",
"wait" (which also ends what dead processes left), "approve" (claim and resolve) or "expire".
"""

import os
import signal

from demur import Router, Settings
from demur.core.clock import SystemClock
from demur.core.database import Database
from demur.core.errors import DemurError, StillWaiting
from demur.core.review_item import Resolution, Verdict
from demur.review.queue import ReviewQueue
from demur.router.site import Tool

TOOLS = ("refund", "lookup", "delete")


def settings():
    tools = {"refund": {"side_effects": "irreversible"}, "delete": {"side_effects": "irreversible"}, "lookup": {}}
    policy = {"fallback_answers": "defer"}
    return Settings(mode="enforce", tools=tools, policy=policy, waiting={"poll_first": 0.01, "poll_longest": 0.05})


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def increment(path):
    """The effect on the world: one more byte in a file, on disk when this returns."""
    with open(path, "ab") as file:
        file.write(b"x")
        file.flush()
        os.fsync(file.fileno())


def router_of(database, counter, point="none"):
    """A router with its tools, all of which have the same effect."""
    router = Router(settings=settings(), database=database, seed=1)

    def tool(**arguments):
        increment(counter)
        if point == "tool":
            die()
        return {"used": arguments}

    for name in TOOLS:
        router.register_tool(Tool(name, run=tool))
    return router


def approve(database, run_id):
    queue = ReviewQueue(database, SystemClock())
    (item,) = [each for each in queue.of_run(run_id) if each.resolution is None]
    claimed = queue.claim("ada", item_id=item.id)
    if claimed is None:
        return "not mine"
    queue.resolve(item.id, Resolution(verdict=Verdict.APPROVE, reviewer="ada"), version=claimed.version)
    return "resolved"


def act_on(database, counter, run_id, point, act):
    if act == "approve":
        return approve(database, run_id)
    if act == "expire":
        return len(ReviewQueue(database, SystemClock()).expire_due())
    router = router_of(database, counter, point)
    result = router.resume(run_id) if act == "resume" else router.wait(run_id, timeout=60)
    return result.state.value


def main(path, counter, run_id, point, act, barrier=None):
    database = Database(path)
    count_commits(database, point)
    if barrier is not None:
        barrier.wait()
    try:
        return act_on(database, counter, run_id, point, act)
    except StillWaiting:
        return "still waiting"
    except DemurError as error:
        return type(error).__name__


def count_commits(database, point):
    """Die before or after the Nth commit that writes something."""
    dialect, commit, commits = database.engine.dialect, database.engine.dialect.do_commit, 0
    with database.reading() as connection:  # what was done on this connection so far is not counted
        driver = connection.connection.driver_connection
        seen = {id(driver): driver.total_changes}

    def counted_commit(connection):
        nonlocal commits
        driver = connection.driver_connection
        if not driver.total_changes > seen.get(id(driver), 0):
            commit(connection)
            return
        seen[id(driver)] = driver.total_changes
        commits += 1
        if point == f"before:{commits}":
            die()
        commit(connection)
        if point == f"after:{commits}":
            die()

    dialect.do_commit = counted_commit
