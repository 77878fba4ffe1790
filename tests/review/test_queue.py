"""The queue's rules, one by one."""

from datetime import timedelta

import pytest

from demur.core.call import Call
from demur.core.errors import BadInput, ConfigurationError, LeaseLost, StaleItem
from demur.core.review_item import Resolution, ReviewKind, ReviewState, Verdict
from demur.review.queue import ReviewQueue


def approve(reviewer="ada", **changes):
    return Resolution(verdict=Verdict.APPROVE, reviewer=reviewer, **changes)


def test_an_item_comes_back_as_it_was_put_in(queue, make_item):
    item = make_item(priority=2.5, response_id="resp_1", decision_id="dec_1")
    assert queue.enqueue(item) == item.id
    assert queue.get(item.id) == item
    assert queue.of_run(item.run_id) == [item]
    assert queue.get("rev_none") is None


def test_enqueueing_is_idempotent_per_run_and_kind(queue, make_item):
    first = make_item(1, decision_id="dec_1")
    assert queue.enqueue(first) == "rev_1"
    assert queue.enqueue(first.model_copy(update={"id": "rev_again"})) == "rev_1"
    assert queue.enqueue(first.model_copy(update={"id": "rev_label", "kind": ReviewKind.LABEL})) == "rev_label"
    assert sum(queue.counts().values()) == 2


def test_another_decision_of_the_same_run_is_not_swallowed(queue, make_item):
    queue.enqueue(make_item(1, decision_id="dec_1"))
    with pytest.raises(StaleItem, match="dec_2"):
        queue.enqueue(make_item(1, id="rev_2", decision_id="dec_2"))


def test_enqueueing_in_a_transaction_is_undone_with_it(queue, database, make_item):
    def enqueue_and_fail():
        with database.transaction() as connection:
            queue.enqueue(make_item(1), connection)
            raise KeyError

    with pytest.raises(KeyError):
        enqueue_and_fail()
    assert queue.get("rev_1") is None


def test_the_most_urgent_comes_first_and_among_equals_the_oldest(queue, make_item, clock):
    for number, priority in enumerate([0.0, 5.0, 5.0, -1.0]):
        queue.enqueue(make_item(number, priority=priority))
        clock.advance(1)
    claimed = [queue.claim("ada") for _ in range(5)]
    assert [item and item.id for item in claimed] == ["rev_1", "rev_2", "rev_0", "rev_3", None]


def test_claims_keep_to_tenant_and_task(queue, make_item):
    queue.enqueue(make_item(1, call=Call.ask("?", tenant="a", task="x")))
    queue.enqueue(make_item(2, call=Call.ask("?", tenant="b", task="x")))
    queue.enqueue(make_item(3, call=Call.ask("?", tenant="b", task="y")))
    assert queue.claim("ada", tenant="c") is None
    assert queue.claim("ada", tenant="b", task="y").id == "rev_3"
    assert queue.claim("ada", tenant="b").id == "rev_2"
    assert queue.counts(tenant="b") == {
        ReviewState.OPEN: 0,
        ReviewState.CLAIMED: 2,
        ReviewState.RESOLVED: 0,
        ReviewState.EXPIRED: 0,
    }


def test_a_lease_holds_until_it_runs_out(queue, make_item, clock):
    queue.enqueue(make_item())
    item = queue.claim("ada")
    assert (item.state, item.lease_owner, item.version) == (ReviewState.CLAIMED, "ada", 1)
    assert item.lease_expires_at == clock.now() + timedelta(seconds=60)
    clock.advance(59.999)
    assert queue.claim("bob") is None
    clock.advance(0.001)
    assert queue.claim("bob").lease_owner == "bob"
    with pytest.raises(LeaseLost, match="not leased to 'ada'"):
        queue.resolve(item.id, approve("ada"), version=item.version)


def test_a_heartbeat_makes_the_lease_last(queue, make_item, clock):
    queue.enqueue(make_item())
    item = queue.claim("ada")
    clock.advance(50)
    assert queue.heartbeat(item.id, "ada").version == item.version
    clock.advance(50)
    assert queue.claim("bob") is None
    assert queue.resolve(item.id, approve(), version=item.version).state is ReviewState.RESOLVED


def test_a_lease_that_ran_out_is_lost_even_if_nobody_else_took_it(queue, make_item, clock):
    queue.enqueue(make_item())
    item = queue.claim("ada")
    clock.advance(60)
    for attempt in (
        lambda: queue.heartbeat(item.id, "ada"),
        lambda: queue.release(item.id, "ada"),
        lambda: queue.resolve(item.id, approve(), version=item.version),
    ):
        with pytest.raises(LeaseLost, match="ran out"):
            attempt()
    again = queue.claim("ada", item_id=item.id)
    assert queue.resolve(item.id, approve(), version=again.version).resolution == approve(
        resolved_at=queue.get(item.id).resolution.resolved_at
    )


def test_one_item_can_be_claimed_by_its_id_but_not_from_another(queue, make_item):
    queue.enqueue(make_item(1, priority=9))
    queue.enqueue(make_item(2))
    assert queue.claim("ada", item_id="rev_2").id == "rev_2"
    assert queue.claim("ada", item_id="rev_2").version == 2
    assert queue.claim("bob", item_id="rev_2") is None
    assert queue.claim("bob", item_id="rev_none") is None


def test_a_released_item_is_free_again(queue, make_item):
    queue.enqueue(make_item())
    item = queue.claim("ada")
    with pytest.raises(LeaseLost):
        queue.release(item.id, "bob")
    assert queue.release(item.id, "ada").state is ReviewState.OPEN
    with pytest.raises(LeaseLost):
        queue.release(item.id, "ada")
    assert queue.claim("bob").version == 3


def test_nothing_is_resolved_unclaimed_or_unread(queue, make_item):
    queue.enqueue(make_item())
    with pytest.raises(LeaseLost, match="claim it first"):
        queue.resolve("rev_0", approve(), version=0)
    item = queue.claim("ada")
    with pytest.raises(StaleItem, match="version 1, not 0"):
        queue.resolve(item.id, approve(), version=0)
    with pytest.raises(BadInput, match="no review item"):
        queue.resolve("rev_none", approve(), version=0)


def test_the_same_decision_twice_is_one_and_another_one_is_refused(queue, make_item, clock):
    queue.enqueue(make_item())
    item = queue.claim("ada")
    first = queue.resolve(item.id, approve(), version=item.version)
    clock.advance(1000)
    assert queue.resolve(item.id, approve(resolved_at=clock.now()), version=item.version) == first
    for other in (approve("bob"), approve(note="hm"), Resolution(verdict=Verdict.REJECT, reviewer="ada")):
        with pytest.raises(StaleItem, match="already resolved"):
            queue.resolve(item.id, other, version=first.version)
    assert queue.claim("bob") is None


def test_what_is_due_expires_leased_or_not(queue, make_item, clock):
    due = clock.now() + timedelta(seconds=30)
    queue.enqueue(make_item(1, due_at=due))
    queue.enqueue(make_item(2, due_at=due, priority=1))
    queue.enqueue(make_item(3))
    leased = queue.claim("ada")
    assert leased.id == "rev_2"
    assert queue.expire_due() == []
    clock.advance(30)
    assert queue.claim("bob").id == "rev_3"
    with pytest.raises(StaleItem, match="time of review item"):
        queue.resolve("rev_2", approve(), version=leased.version)
    assert [(item.id, item.state) for item in queue.expire_due()] == [
        ("rev_1", ReviewState.EXPIRED),
        ("rev_2", ReviewState.EXPIRED),
    ]
    assert queue.expire_due() == []
    with pytest.raises(StaleItem, match="already expired"):
        queue.resolve("rev_2", approve(), version=leased.version)


def test_pages_give_every_item_once_in_order(queue, make_item, clock):
    for number in range(7):
        queue.enqueue(make_item(number))
        clock.advance(number % 2)  # some were made at the same moment
    seen, after = [], None
    while page := queue.list(limit=3, after=after):
        seen += [item.id for item in page]
        after = page[-1].id
    assert seen == [f"rev_{number}" for number in range(7)]
    queue.claim("ada")
    assert [item.id for item in queue.list(ReviewState.CLAIMED)] == ["rev_0"]
    with pytest.raises(BadInput, match="limit=0"):
        queue.list(limit=0)
    with pytest.raises(BadInput, match="no review item"):
        queue.list(after="rev_none")


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_lease_is_a_finite_time(database, clock, seconds):
    with pytest.raises(ConfigurationError, match="lease_seconds"):
        ReviewQueue(database, clock, lease_seconds=seconds)


@pytest.mark.parametrize("name", ["", "x" * 201])
def test_a_reviewer_has_a_name(queue, name):
    with pytest.raises(BadInput, match="name"):
        queue.claim(name)


HOSTILE = {
    "terminal": "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x00\r\b",
    "markup": "[bold red]<script>alert(1)</script>[/bold red] {{ 7*7 }} '; DROP TABLE runs; --",
    "right_to_left": "\u202egnp.exe\u2066 שלום مرحبا \u2069\u200b\ufeff",
    "megabyte": "ä" * 1_000_000,
    "empty": "",
    "beyond_the_plane": "🙂\U000e0041\U0010ffff",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_stored_and_returned_unchanged(queue, make_item, text):
    item = make_item(call=Call.ask(text, metadata={"note": text}), proposed=text, reason=text)
    queue.enqueue(item)
    assert queue.get(item.id) == item
    claimed = queue.claim(f"ada {text[:100]}")
    said = Resolution(verdict=Verdict.EDIT, answer=text, note=text[:20_000], reviewer=claimed.lease_owner)
    queue.resolve(item.id, said, version=claimed.version)
    assert queue.get(item.id).resolution == said


async def test_async_twins_do_the_same(queue, make_item, clock):
    await queue.aenqueue(make_item(1, due_at=clock.now() + timedelta(seconds=900)))
    await queue.aenqueue(make_item(2, priority=1))
    item = await queue.aclaim("ada", tenant="default", task="default")
    assert item == await queue.aget("rev_2") == queue.get("rev_2")
    assert (await queue.aheartbeat(item.id, "ada")).version == item.version
    assert (await queue.arelease(item.id, "ada")).state is ReviewState.OPEN
    item = await queue.aclaim("ada", item_id="rev_2")
    decided = await queue.aresolve(item.id, approve(), version=item.version)
    assert await queue.alist(ReviewState.RESOLVED) == [decided] == await queue.aof_run(item.run_id)
    clock.advance(1000)
    assert [each.id for each in await queue.aexpire_due()] == ["rev_1"]
    assert await queue.acounts() == queue.counts()
