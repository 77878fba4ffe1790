"""Many reviewers at once: no item is given out twice, none is lost; and the state machine under random use."""

import multiprocessing
import shutil
import tempfile
import threading
from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from demur.core.call import Call
from demur.core.clock import ManualClock, SystemClock
from demur.core.database import Database
from demur.core.errors import LeaseLost, StaleItem
from demur.core.review_item import Resolution, ReviewItem, ReviewState, Verdict
from demur.review.queue import ReviewQueue

ITEMS = 200


def work_through(queue, name):
    """Claim and approve until there is nothing left; gives the ids."""
    mine = []
    while (item := queue.claim(name)) is not None:
        mine.append(item.id)
        queue.resolve(item.id, Resolution(verdict=Verdict.APPROVE, reviewer=name), version=item.version)
    return mine


def filled(path):
    queue = ReviewQueue(Database(path), SystemClock(), lease_seconds=600)
    with queue.database.transaction() as connection:
        for number in range(ITEMS):
            item = ReviewItem(
                id=f"rev_{number}",
                run_id=f"run_{number}",
                response_id=f"resp_{number}",
                call=Call.ask("?"),
                proposed="!",
                reason="-",
                priority=float(number % 3),
            )
            queue.enqueue(item, connection)
    return queue


def check(queue, claimed):
    assert len(claimed) == ITEMS
    assert set(claimed) == {f"rev_{number}" for number in range(ITEMS)}
    assert queue.counts()[ReviewState.RESOLVED] == ITEMS
    assert queue.outcomes.counts().right == ITEMS


def test_eight_threads_share_the_items_out(tmp_path):
    queue, claimed, lock = filled(tmp_path / "demur.db"), [], threading.Lock()

    def work(number):
        mine = work_through(queue, f"thread {number}")
        with lock:
            claimed.extend(mine)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(queue, claimed)


def _work_in_a_process(path, number, barrier, answers):
    queue = ReviewQueue(Database(path), SystemClock(), lease_seconds=600)
    barrier.wait()
    answers.put(work_through(queue, f"process {number}"))


def test_four_processes_share_the_items_out(tmp_path):
    path = tmp_path / "demur.db"
    queue, context = filled(path), multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(4), context.Queue()
    children = [
        context.Process(target=_work_in_a_process, args=(path, number, barrier, answers)) for number in range(4)
    ]
    for child in children:
        child.start()
    claimed = [item_id for _ in children for item_id in answers.get(timeout=120)]
    for child in children:
        child.join()
    check(queue, claimed)


class QueueMachine(RuleBasedStateMachine):
    """Compares the store with a model that keeps (state, owner, lease end, due, version) of every item."""

    reviewers = st.sampled_from(["ada", "bob"])

    @initialize()
    def open(self):
        self.folder = tempfile.mkdtemp()
        self.clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.queue = ReviewQueue(Database(f"{self.folder}/demur.db"), self.clock, lease_seconds=10)
        self.model = {}

    def teardown(self):
        if hasattr(self, "queue"):
            self.queue.database.close()
            shutil.rmtree(self.folder)

    def pick(self, index):
        return sorted(self.model)[index % len(self.model)] if self.model else None

    @rule(priority=st.sampled_from([0.0, 1.0]), due=st.sampled_from([None, 3, 15]))
    def enqueue(self, priority, due):
        number = len(self.model)
        due_at = None if due is None else self.clock.now() + timedelta(seconds=due)
        item = ReviewItem(
            id=f"rev_{number:03}",
            run_id=f"run_{number}",
            call=Call.ask("?"),
            proposed="!",
            reason="-",
            priority=priority,
            due_at=due_at,
            created_at=self.clock.now(),
        )
        self.queue.enqueue(item)
        made = self.clock.now()
        order = (-priority, made, item.id)
        self.model[item.id] = {
            "state": "open",
            "owner": None,
            "until": None,
            "due": due_at,
            "version": 0,
            "order": order,
        }

    @rule(seconds=st.sampled_from([1, 4, 10]))
    def wait(self, seconds):
        self.clock.advance(seconds)

    def free(self, item):
        now = self.clock.now()
        lapsed = item["state"] == "claimed" and item["until"] <= now
        return (item["state"] == "open" or lapsed) and (item["due"] is None or item["due"] > now)

    @rule(reviewer=reviewers)
    def claim(self, reviewer):
        candidates = sorted((item["order"], name) for name, item in self.model.items() if self.free(item))
        claimed = self.queue.claim(reviewer)
        assert (claimed and claimed.id) == (candidates[0][1] if candidates else None)
        if claimed:
            item = self.model[claimed.id]
            until = self.clock.now() + timedelta(seconds=10)
            item.update(state="claimed", owner=reviewer, until=until, version=item["version"] + 1)

    def held(self, item, reviewer):
        now = self.clock.now()
        mine = item["state"] == "claimed" and item["owner"] == reviewer and item["until"] > now
        return mine and (item["due"] is None or item["due"] > now)

    @rule(index=st.integers(0, 50), reviewer=reviewers)
    def heartbeat(self, index, reviewer):
        if (name := self.pick(index)) is None:
            return
        item = self.model[name]
        try:
            self.queue.heartbeat(name, reviewer)
            assert self.held(item, reviewer)
            item["until"] = self.clock.now() + timedelta(seconds=10)
        except (LeaseLost, StaleItem):
            assert not self.held(item, reviewer)

    @rule(index=st.integers(0, 50), reviewer=reviewers)
    def release(self, index, reviewer):
        if (name := self.pick(index)) is None:
            return
        item = self.model[name]
        try:
            self.queue.release(name, reviewer)
            assert self.held(item, reviewer)
            item.update(state="open", owner=None, until=None, version=item["version"] + 1)
        except (LeaseLost, StaleItem):
            assert not self.held(item, reviewer)

    @rule(
        index=st.integers(0, 50), reviewer=reviewers, verdict=st.sampled_from(["approve", "reject"]), old=st.booleans()
    )
    def resolve(self, index, reviewer, verdict, old):
        if (name := self.pick(index)) is None:
            return
        item = self.model[name]
        again = item["state"] == "resolved" and item["said"] == (verdict, reviewer)
        allowed = again or (self.held(item, reviewer) and not old)
        try:
            self.queue.resolve(
                name, Resolution(verdict=Verdict(verdict), reviewer=reviewer), version=item["version"] - old
            )
            assert allowed
            if not again:
                item.update(
                    state="resolved", owner=None, until=None, version=item["version"] + 1, said=(verdict, reviewer)
                )
        except (LeaseLost, StaleItem):
            assert not allowed

    @rule()
    def expire(self):
        now = self.clock.now()
        due = {
            name
            for name, item in self.model.items()
            if item["state"] in ("open", "claimed") and item["due"] is not None and item["due"] <= now
        }
        assert {item.id for item in self.queue.expire_due()} == due
        for name in due:
            self.model[name].update(state="expired", owner=None, until=None, version=self.model[name]["version"] + 1)

    @invariant()
    def the_store_agrees_with_the_model(self):
        if not hasattr(self, "queue"):
            return
        stored = {
            item.id: (item.state.value, item.lease_owner, item.lease_expires_at, item.version)
            for item in self.queue.list(limit=1000)
        }
        assert stored == {
            name: (item["state"], item["owner"], item["until"], item["version"]) for name, item in self.model.items()
        }


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
