"""Random use of the queue with conversations, against a model: nothing is held by two, no conversation is split."""

from __future__ import annotations

import shutil
import tempfile
from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from demur.core.call import Call
from demur.core.clock import ManualClock
from demur.core.database import Database
from demur.core.errors import LeaseLost, StaleItem
from demur.core.review_item import Resolution, ReviewItem, Verdict
from demur.review.queue import ReviewQueue

LEASE = timedelta(seconds=10)
UNDECIDED = ("open", "claimed")


class ConversationMachine(RuleBasedStateMachine):
    """The model keeps (key, state, owner, lease end, due, version) of every item."""

    reviewers = st.sampled_from(["ada", "bob", "cyn"])
    numbers = st.integers(0, 50)

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

    def due(self, item):
        return item["due"] is not None and item["due"] <= self.clock.now()

    def held(self, item):
        """By whom, if by anybody."""
        running = item["state"] == "claimed" and item["until"] > self.clock.now()
        return item["owner"] if running and not self.due(item) else None

    def free(self, item):
        return item["state"] in UNDECIDED and not self.held(item) and not self.due(item)

    def entry(self, name):
        key = self.model[name]["key"]
        return [
            each
            for other, each in self.model.items()
            if other == name or (key[1] is not None and each["key"] == key and each["state"] in UNDECIDED)
        ]

    def of_another(self, name, reviewer):
        return any(self.held(each) not in (None, reviewer) for each in self.entry(name))

    @rule(
        conversation=st.sampled_from([None, "c", "c", "d"]),
        tenant=st.sampled_from(["t", "t", "u"]),
        priority=st.sampled_from([0.0, 1.0]),
        due=st.sampled_from([None, None, 3, 15]),
    )
    def enqueue(self, conversation, tenant, priority, due):
        number, now = len(self.model), self.clock.now()
        due_at = None if due is None else now + timedelta(seconds=due)
        call = Call.ask("?", conversation_id=conversation, tenant=tenant)
        item = ReviewItem(id=f"rev_{number:03}", run_id=f"run_{number}", call=call, proposed="!", reason="-")
        self.queue.enqueue(item.model_copy(update={"priority": priority, "due_at": due_at, "created_at": now}))
        entry = {"key": (tenant, conversation), "state": "open", "owner": None, "until": None, "due": due_at}
        entry |= {"version": 0, "order": (-priority, now, item.id), "made": (now, item.id)}
        self.model[item.id] = entry
        standing = [each for each in self.entry(item.id) if self.held(each)]
        if standing:
            entry.update(state="claimed", owner=standing[0]["owner"], until=standing[0]["until"])

    @rule(index=numbers, priority=st.sampled_from([0.0, 1.0]), due=st.sampled_from([None, 3]))
    def enqueue_beside(self, index, priority, due):
        """Another item in the conversation of one that is there."""
        if (name := self.pick(index)) is not None:
            tenant, conversation = self.model[name]["key"]
            self.enqueue(conversation, tenant, priority, due)

    @rule(seconds=st.sampled_from([1, 4, 10]))
    def wait(self, seconds):
        self.clock.advance(seconds)

    def lease(self, name, reviewer):
        until = self.clock.now() + LEASE
        for each in self.entry(name):
            if self.free(each) or each is self.model[name]:
                each.update(state="claimed", owner=reviewer, until=until, version=each["version"] + 1)
            elif self.held(each):
                each["until"] = until

    @rule(reviewer=reviewers, tenant=st.sampled_from([None, "t"]))
    def claim(self, reviewer, tenant):
        candidates = [
            (item["order"], name)
            for name, item in self.model.items()
            if self.free(item) and not self.of_another(name, reviewer) and tenant in (None, item["key"][0])
        ]
        claimed = self.queue.claim(reviewer, tenant=tenant)
        assert (claimed and claimed.id) == (min(candidates)[1] if candidates else None)
        if claimed:
            self.lease(claimed.id, reviewer)

    @rule(index=numbers, reviewer=reviewers)
    def claim_one(self, index, reviewer):
        if (name := self.pick(index)) is None:
            return
        item = self.model[name]
        own = item["state"] == "claimed" and item["owner"] == reviewer and not self.due(item)
        allowed = (own or self.free(item)) and not self.of_another(name, reviewer)
        claimed = self.queue.claim(reviewer, item_id=name)
        assert (claimed is not None) == allowed
        if allowed:
            self.lease(name, reviewer)

    @rule(index=numbers, reviewer=reviewers)
    def heartbeat(self, index, reviewer):
        if (name := self.pick(index)) is None:
            return
        allowed = self.held(self.model[name]) == reviewer
        try:
            self.queue.heartbeat(name, reviewer)
            assert allowed
            until = self.clock.now() + LEASE
            for each in self.entry(name):
                if self.held(each) == reviewer:
                    each["until"] = until
                elif self.free(each):
                    each.update(state="claimed", owner=reviewer, until=until, version=each["version"] + 1)
        except (LeaseLost, StaleItem):
            assert not allowed

    @rule(index=numbers, reviewer=reviewers)
    def release(self, index, reviewer):
        if (name := self.pick(index)) is None:
            return
        allowed = self.held(self.model[name]) == reviewer
        try:
            self.queue.release(name, reviewer)
            assert allowed
            for each in [each for each in self.entry(name) if self.held(each) == reviewer]:
                each.update(state="open", owner=None, until=None, version=each["version"] + 1)
        except (LeaseLost, StaleItem):
            assert not allowed

    @rule(index=numbers, reviewer=reviewers, old=st.booleans())
    def resolve(self, index, reviewer, old):
        if (name := self.pick(index)) is None:
            return
        item = self.model[name]
        again = item["state"] == "resolved" and item["by"] == reviewer
        allowed = again or (self.held(item) == reviewer and not old)
        try:
            said = Resolution(verdict=Verdict.APPROVE, reviewer=reviewer)
            self.queue.resolve(name, said, version=item["version"] - old)
            assert allowed
            if not again:
                item.update(state="resolved", owner=None, until=None, version=item["version"] + 1, by=reviewer)
        except (LeaseLost, StaleItem):
            assert not allowed

    @rule()
    def expire(self):
        due = {name for name, item in self.model.items() if item["state"] in UNDECIDED and self.due(item)}
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

    @invariant()
    def no_conversation_is_split(self):
        if not hasattr(self, "queue"):
            return
        holders = {}
        for item in self.queue.list(limit=1000):
            now = self.clock.now()
            running = item.lease_expires_at is not None and item.lease_expires_at > now
            if item.state.value == "claimed" and running and not (item.due_at is not None and item.due_at <= now):
                key = (item.call.tenant, item.call.conversation_id or item.id)
                holders.setdefault(key, set()).add((item.lease_owner, item.lease_expires_at))
        assert all(len(each) == 1 for each in holders.values()), holders

    @invariant()
    def entries_and_counts_agree(self):
        if not hasattr(self, "queue"):
            return
        undecided = [item for item in self.model.values() if item["state"] in UNDECIDED]
        keys = {item["key"] if item["key"][1] is not None else item["made"] for item in undecided}
        assert self.queue.waiting() == len(keys)
        entries = self.queue.entries(limit=1000)
        assert sorted(item.id for entry in entries for item in entry.items) == sorted(self.model)
        assert len(entries) == len(keys) + len(self.model) - len(undecided)


TestConversationMachine = ConversationMachine.TestCase
TestConversationMachine.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
