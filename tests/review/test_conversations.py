"""A conversation is one entry of the queue: claimed, kept, given back and counted as one, decided call by call."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from demur.core.call import Call
from demur.core.clock import SystemClock
from demur.core.database import Database
from demur.core.database.tables import review_items as items
from demur.core.database.tables import runs
from demur.core.decision import Mode, Route
from demur.core.errors import BadInput, LeaseLost, StaleItem
from demur.core.review_item import Resolution, ReviewItem, ReviewState, Verdict
from demur.core.run import Result, Run, RunState
from demur.core.turn import TurnKind
from demur.review import queue as queue_module
from demur.review.queue import ReviewQueue

OPEN, CLAIMED = ReviewState.OPEN, ReviewState.CLAIMED


def approve(reviewer="ada"):
    return Resolution(verdict=Verdict.APPROVE, reviewer=reviewer)


@pytest.fixture
def put(queue, make_item, clock):
    """put(number, conversation, ...): an item in the queue, a second later than the one before."""

    def make(number, conversation=None, *, tenant="default", task="default", **changes):
        call = Call.ask(f"question {number}", conversation_id=conversation, tenant=tenant, task=task)
        queue.enqueue(make_item(number, call=call, **changes))
        clock.advance(1)
        return f"rev_{number}"

    return make


def states(queue):
    return {item.id: (item.state, item.lease_owner) for item in queue.list()}


def test_a_claim_takes_the_whole_conversation_and_gives_the_most_urgent(queue, put):
    put(1, "c"), put(2, "c", priority=5), put(3, "c"), put(4, "d", priority=1), put(5)
    assert queue.claim("ada").id == "rev_2"
    assert states(queue) == {
        "rev_1": (CLAIMED, "ada"),
        "rev_2": (CLAIMED, "ada"),
        "rev_3": (CLAIMED, "ada"),
        "rev_4": (OPEN, None),
        "rev_5": (OPEN, None),
    }
    assert [queue.claim("bob") and queue.claim("bob", item_id="rev_4").id, queue.claim("bob").id] == ["rev_4", "rev_5"]
    assert queue.claim("bob") is None
    assert queue.claim("bob", item_id="rev_1") is None


def test_the_conversation_of_another_tenant_is_another_one(queue, put):
    put(1, "c", tenant="a"), put(2, "c", tenant="b")
    assert queue.claim("ada").id == "rev_1"
    assert queue.claim("bob").id == "rev_2"
    assert queue.waiting() == 2


def test_a_claim_for_one_task_leases_the_conversation_s_other_tasks_too(queue, put):
    put(1, "c", task="x"), put(2, "c", task="y", priority=9)
    assert queue.claim("ada", task="x").id == "rev_1"
    assert queue.claim("bob", task="y") is None
    assert queue.get("rev_2").lease_owner == "ada"


def test_each_call_gets_its_own_verdict(queue, put):
    put(1, "c"), put(2, "c")
    first = queue.claim("ada")
    assert queue.resolve(first.id, approve(), version=first.version).state is ReviewState.RESOLVED
    assert queue.get("rev_2").state is CLAIMED
    assert queue.claim("bob") is None
    second = queue.get("rev_2")
    reject = Resolution(verdict=Verdict.REJECT, reviewer="ada")
    assert queue.resolve("rev_2", reject, version=second.version).resolution.verdict is Verdict.REJECT
    assert queue.waiting() == 0


def test_heartbeat_and_release_are_the_conversation_s(queue, put, clock):
    put(1, "c"), put(2, "c"), put(3)
    queue.claim("ada")
    versions = {item.id: item.version for item in queue.list()}
    clock.advance(50)
    queue.heartbeat("rev_2", "ada")
    assert {item.id: item.version for item in queue.list()} == versions
    clock.advance(50)
    assert queue.claim("bob").id == "rev_3"
    queue.release("rev_1", "ada")
    assert states(queue)["rev_2"] == (OPEN, None)
    assert queue.claim("bob").id == "rev_1"
    assert queue.get("rev_2").lease_owner == "bob"


def test_what_arrives_meanwhile_joins_the_lease(queue, put, clock):
    put(1, "c")
    item = queue.claim("ada")
    put(2, "c", priority=100)
    joined = queue.get("rev_2")
    assert (joined.state, joined.lease_owner, joined.lease_expires_at) == (CLAIMED, "ada", item.lease_expires_at)
    assert queue.claim("bob") is None
    assert queue.resolve("rev_2", approve(), version=joined.version).state is ReviewState.RESOLVED
    queue.release("rev_1", "ada")
    put(3, "c")
    assert queue.get("rev_3").state is OPEN


def test_what_arrives_after_the_lease_ran_out_is_free_with_the_rest(queue, put, clock):
    put(1, "c")
    item = queue.claim("ada")
    clock.advance(60)
    put(2, "c")
    assert queue.get("rev_2").state is OPEN
    assert queue.claim("bob", item_id="rev_2").lease_owner == "bob"
    assert queue.get("rev_1").lease_owner == "bob"
    for attempt in (
        lambda: queue.heartbeat("rev_1", "ada"),
        lambda: queue.release("rev_1", "ada"),
        lambda: queue.resolve("rev_1", approve(), version=item.version),
    ):
        with pytest.raises(LeaseLost):
            attempt()


def test_an_open_sibling_of_a_leased_item_is_its_holder_s_only(queue, put, database, make_item):
    """On PostgreSQL an item may arrive at the moment of a claim and join no lease."""
    put(1, "c"), put(2, "c")
    queue.claim("ada")
    with database.transaction() as connection:
        connection.exec_driver_sql(
            "UPDATE review_items SET state = 'open', lease_owner = NULL, lease_expires_at = NULL WHERE id = 'rev_2'"
        )
    assert queue.claim("bob") is None
    assert queue.claim("bob", item_id="rev_2") is None
    queue.heartbeat("rev_1", "ada")
    assert states(queue)["rev_2"] == (CLAIMED, "ada")


def test_one_sibling_expires_and_the_others_stay_leased(queue, put, clock):
    put(1, "c", due_at=clock.now() + timedelta(seconds=30)), put(2, "c")
    first = queue.claim("ada")
    assert first.id == "rev_1"
    clock.advance(40)
    with pytest.raises(StaleItem, match="time of review item"):
        queue.resolve("rev_1", approve(), version=first.version)
    assert [item.id for item in queue.expire_due()] == ["rev_1"]
    second = queue.get("rev_2")
    assert (second.state, second.lease_owner) == (CLAIMED, "ada")
    assert queue.resolve("rev_2", approve(), version=second.version).state is ReviewState.RESOLVED


def test_a_conversation_counts_once_and_single_calls_count_each(queue, put):
    for number in range(3):
        put(number, "c")
    put(3, "d"), put(4), put(5)
    assert queue.waiting() == 4
    assert sum(queue.counts().values()) == 6
    assert queue.waits("default", "c")
    assert not queue.waits("default", "e")
    assert not queue.waits("other", "c")
    assert not queue.waits("default", None)


def test_entries_are_conversations_with_their_items(queue, put, clock):
    due = clock.now() + timedelta(seconds=900)
    put(1, "c"), put(2), put(3, "c", priority=7, due_at=due), put(4, "d"), put(5, "c")
    entries = queue.entries()
    assert [[item.id for item in entry.items] for entry in entries] == [
        ["rev_1", "rev_3", "rev_5"],
        ["rev_2"],
        ["rev_4"],
    ]
    whole = entries[0]
    assert (whole.id, whole.conversation_id, whole.tenant) == ("rev_1", "c", "default")
    assert (whole.priority, whole.due_at, whole.lease_owner) == (7.0, due, None)
    assert entries[1].conversation_id is None
    claimed = queue.claim("ada", item_id="rev_5")
    queue.resolve("rev_5", approve(), version=claimed.version)
    assert [entry.id for entry in queue.entries(ReviewState.RESOLVED)] == ["rev_5"]
    assert [[item.id for item in entry.items] for entry in queue.entries()] == [
        ["rev_1", "rev_3"],
        ["rev_2"],
        ["rev_4"],
        ["rev_5"],
    ]
    assert queue.entries()[0].lease_owner == "ada"


def test_entries_are_filtered_and_paged(queue, put):
    for number in range(12):
        put(number, f"c{number % 4}" if number % 3 else None, task="xy"[number % 2], tenant="ab"[number % 2])
    seen, after = [], None
    while page := queue.entries(limit=2, after=after):
        seen += [item.id for entry in page for item in entry.items]
        after = page[-1].id
    assert sorted(seen) == sorted(item.id for item in queue.list())
    assert len(seen) == len(set(seen)) == 12
    for entry in queue.entries(task="x"):
        assert any(item.call.task == "x" for item in entry.items)
    assert {entry.tenant for entry in queue.entries(tenant="b")} == {"b"}
    with pytest.raises(BadInput, match="limit=0"):
        queue.entries(limit=0)
    with pytest.raises(BadInput, match="no review item"):
        queue.entries(after="rev_none")


def test_an_entry_found_by_its_task_is_shown_whole(queue, put):
    put(1, "c", task="x"), put(2, "c", task="y")
    (entry,) = queue.entries(task="y")
    assert [item.id for item in entry.items] == ["rev_1", "rev_2"]


def test_conversation_gives_what_is_undecided(queue, put):
    put(1, "c"), put(2, "c"), put(3)
    item = queue.claim("ada")
    assert [each.id for each in queue.conversation(item)] == ["rev_1", "rev_2"]
    queue.resolve(item.id, approve(), version=item.version)
    assert [each.id for each in queue.conversation(item)] == ["rev_2"]
    alone = queue.claim("ada", item_id="rev_3")
    assert [each.id for each in queue.conversation(alone)] == ["rev_3"]
    queue.resolve("rev_3", approve(), version=alone.version)
    assert queue.conversation(alone) == []


async def test_async_twins_read_the_same(queue, put):
    put(1, "c"), put(2, "c")
    item = await queue.aget("rev_1")
    assert await queue.aentries() == queue.entries()
    assert await queue.aconversation(item) == queue.conversation(item)
    assert await queue.awaiting() == queue.waiting() == 1
    assert await queue.awaits("default", "c") is True
    assert await queue.acontext(item) == queue.context(item)


@pytest.mark.parametrize("text", ["%", "c' OR '1'='1", "\x1b[2J", "ä" * 200, "🙂\U0010ffff", " "])
def test_any_text_is_a_conversation_s_id(queue, put, text):
    put(1, text), put(2, text), put(3, "c")
    assert queue.claim("ada").id == "rev_1"
    assert queue.get("rev_2").lease_owner == "ada"
    assert queue.claim("bob").id == "rev_3"


def test_the_turns_before_are_told(queue, log, clock, defer, database):
    def said(question, answer=None, route=Route.ANSWER, tenant="default", conversation="c"):
        clock.advance(1)
        call = Call.ask(question, conversation_id=conversation, tenant=tenant)
        run = log.start(Run(call=call, created_at=clock.now()), Mode.ENFORCE, "elsewhere/1/1.00")
        result = Result(value=answer, route=route, recommended=route, mode=Mode.ENFORCE, confidence=None, run_id=run.id)
        log.finish(run.id, RunState.DONE, result)

    said("first", "one"), said("of others", "no", tenant="t"), said("elsewhere", "no", conversation="d")
    said("second", route=Route.ABSTAIN), said("third", "three")
    clock.advance(1)
    run_id, item_id, _ = defer(Call.ask("now", conversation_id="c"))
    with database.transaction() as connection:  # that run is dated by the real clock
        connection.execute(runs.update().where(runs.c.id == run_id).values(created_at=clock.now()))
    clock.advance(1)
    said("later", "no")
    context = queue.context(queue.get(item_id))
    assert [(turn.question, turn.answer, turn.ending) for turn in context.earlier] == [
        ("first", "one", "answer"),
        ("second", None, "abstain"),
        ("third", "three", "answer"),
    ]
    assert not context.left_off
    short = queue.context(queue.get(item_id), limit=2)
    assert [turn.question for turn in short.earlier] == ["second", "third"]
    assert short.left_off


def test_the_kind_of_turn_is_that_of_the_response_that_waits(queue, defer, database, log):
    run_id, item_id, _ = defer()
    assert queue.context(queue.get(item_id)).turn is None  # logged before there were kinds
    with database.transaction() as connection:
        connection.exec_driver_sql("UPDATE rounds SET turn = 'refusal'")
    assert queue.context(queue.get(item_id)).turn is TurnKind.REFUSAL
    claimed = queue.claim("ada")
    queue.resolve(item_id, approve(), version=claimed.version)
    assert log.get(run_id).result.turn is TurnKind.REFUSAL


def test_a_damaged_turn_does_not_hide_the_item(queue, log, clock, defer, database):
    run = log.start(Run(call=Call.ask("q", conversation_id="c"), created_at=clock.now()), Mode.ENFORCE, "x/1/1.00")
    _, item_id, _ = defer(Call.ask("now", conversation_id="c"))
    with database.transaction() as connection:
        long_ago = clock.now() - timedelta(days=9999)
        connection.execute(runs.update().where(runs.c.id == run.id).values(call="{", created_at=long_ago))
    (turn,) = queue.context(queue.get(item_id)).earlier
    assert "damaged" in turn.question


def test_threads_never_share_a_conversation(tmp_path):
    """Six reviewers, twenty conversations of four: each conversation is worked through by one at a time."""
    queue = ReviewQueue(Database(tmp_path / "demur.db"), SystemClock(), lease_seconds=600)
    with queue.database.transaction() as connection:
        for number in range(80):
            call = Call.ask("?", conversation_id=f"c{number % 20}")
            item = ReviewItem(id=f"rev_{number}", run_id=f"run_{number}", call=call, proposed="!", reason="-")
            queue.enqueue(item.model_copy(update={"priority": float(number % 7)}), connection)
    worked, busy, faults, lock = [], {}, [], threading.Lock()

    def work(name):
        while (item := queue.claim(name)) is not None:
            key = item.call.conversation_id
            with lock:
                if busy.setdefault(key, name) != name:
                    faults.append((key, name, busy[key]))
            for each in queue.conversation(item):
                if each.lease_owner != name:
                    faults.append((each.id, name, each.lease_owner))
                queue.resolve(each.id, approve(name), version=each.version)
                with lock:
                    worked.append(each.id)
            with lock:
                busy.pop(key, None)

    threads = [threading.Thread(target=work, args=(f"thread {number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert sorted(worked) == sorted(f"rev_{number}" for number in range(80))


def test_who_looked_before_another_claimed_gets_the_next_entry(queue, put, monkeypatch):
    """As on PostgreSQL, where the look-up takes no lock: by the time of the lock, the sibling was leased."""
    put(1, "c", priority=9), put(2, "c"), put(3)
    look_up, stale = queue_module.most_urgent, ["rev_2"]

    def late(connection, *given):
        return stale.pop() if stale else look_up(connection, *given)

    queue.claim("ada", item_id="rev_1")
    with queue.database.transaction() as connection:
        open_again = items.update().where(items.c.id == "rev_2")
        connection.execute(open_again.values(state="open", lease_owner=None, lease_expires_at=None))
    monkeypatch.setattr(queue_module, "most_urgent", late)
    assert queue.claim("bob").id == "rev_3"
    assert queue.get("rev_2").state is OPEN
