"""EpisodeStore: idempotent, graded late, never between tenants."""

from __future__ import annotations

import inspect
import threading
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from sqlalchemy import text

from demur.core.database import Database
from demur.core.errors import BadInput, StoreError
from demur.memory.episode import Episode
from demur.memory.episode_store import NO_EPISODES, EpisodeStore


@pytest.mark.parametrize(
    "wrong",
    [
        {"stated_confidence": 1.2},
        {"stated_confidence": float("nan")},
        {"confidence": -0.1},
        {"tenant": ""},
        {"model": ""},
        {"id": "x" * 65},
        {"created_at": datetime(2026, 1, 1)},
        {"graded_at": datetime(2026, 1, 1)},
        {"surprise": 1},
    ],
)
def test_episodes_that_make_no_sense_are_refused(make_episode, wrong):
    with pytest.raises(ValidationError):
        make_episode(**wrong)


def test_everything_survives(store, make_episode):
    episode = make_episode(
        response_id="resp_1",
        task="refunds",
        tenant="acme",
        self_reflection="I guessed\u0000 – and <b>hoped</b>.",
        stated_confidence=0.9,
        confidence=0.25,
        tool_name="refund",
        arguments={"amount": 12.5, "to": ["a", None], "nested": {"x": True}},
        created_at=datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    )
    number = store.add(episode)
    assert store.get(episode.id) == episode.model_copy(update={"number": number})
    assert store.get("nobody") is None


def test_nul_in_a_question_is_kept(store, make_episode):
    episode = make_episode("a\x00b")
    store.add(episode)
    found = store.get(episode.id)
    assert found is not None and found.question == "a\x00b"


def test_adding_twice_changes_nothing(store, make_episode):
    episode = make_episode()
    number = store.add(episode)
    store.grade(True, id=episode.id)
    assert store.add(episode) == number
    assert store.count(tenant=None) == 1
    found = store.get(episode.id)
    assert found is not None and found.is_right is True


def test_one_id_cannot_mean_two_episodes(store, make_episode):
    episode = make_episode(id="e1")
    store.add(episode)
    with pytest.raises(BadInput, match="'e1' is taken"):
        store.add(episode.model_copy(update={"tenant": "thief"}))
    assert store.count(tenant="thief") == 0


def test_a_batch_is_written_whole_or_not_at_all(store, make_episode):
    store.add(make_episode(id="e1"))
    with pytest.raises(BadInput):
        store.add_many([make_episode(id="e2"), make_episode("Other", id="e1")])
    assert store.count(tenant=None) == 1


def test_grades_find_episodes_by_id_or_response(store, make_episode, clock):
    store.add_many([make_episode(id="e1", response_id="r1"), make_episode(id="e2", response_id="r2")])
    clock.advance(60)
    assert store.grade(False, response_id="r1", lesson="Check the date.") == 1
    first, second = store.get("e1"), store.get("e2")
    assert (first.is_right, first.lesson, first.graded_at) == (False, "Check the date.", clock.now())
    assert second.is_right is None and second.graded_at is None
    clock.advance(60)
    assert store.grade(True, id="e1") == 1
    again = store.get("e1")
    assert (again.is_right, again.lesson, again.graded_at) == (True, "Check the date.", clock.now())
    assert store.grade(True, response_id="unknown") == 0


def test_an_episode_that_comes_graded_gets_the_time(store, make_episode, clock):
    store.add(make_episode(id="e1", is_right=True))
    then = clock.now() - timedelta(days=1)
    store.add(make_episode(id="e2", is_right=False, graded_at=then))
    assert store.get("e1").graded_at == clock.now()
    assert store.get("e2").graded_at == then


@pytest.mark.parametrize("which", [{}, {"id": "a", "response_id": "b"}])
def test_a_grade_needs_one_address(store, which):
    with pytest.raises(BadInput, match="one of them"):
        store.grade(True, **which)


def test_lists_in_counter_order_with_filters(store, make_episode):
    store.add_many(
        [
            make_episode(id="a", tenant="t1", task="x"),
            make_episode(id="b", tenant="t2", task="x"),
            make_episode(id="c", tenant="t1", task="y", is_right=True),
            make_episode(id="d", tenant="t1", task="x", model="qwen"),
        ]
    )

    def ids(**filters):
        return [episode.id for episode in store.list(**filters)]

    assert ids(tenant=None) == ["a", "b", "c", "d"]
    assert ids(tenant="t1") == ["a", "c", "d"]
    assert ids(tenant="t1", task="x") == ["a", "d"]
    assert ids(tenant="t1", task="x", model="qwen") == ["d"]
    assert ids(tenant="t1", graded_only=True) == ["c"]
    assert store.count(tenant="t1", task="x") == 2
    assert store.count(tenant=None, graded_only=True) == 1
    first = store.list(tenant="t1", limit=1)[0]
    assert ids(tenant="t1", after_number=first.number, limit=2) == ["c", "d"]
    assert list(store.members(tenant="t1")) == ["a", "c", "d"]
    with pytest.raises(BadInput, match="limit 0"):
        store.list(tenant="t1", limit=0)


def test_all_tenants_has_to_be_said(store):
    with pytest.raises(TypeError):
        store.list()


def test_delete_forgets_one_tenant_only(store, make_episode):
    store.add_many([make_episode(id="a", tenant="t1"), make_episode(id="b", tenant="t2"), make_episode(id="c")])
    assert store.delete(tenant="t2", id="a") == 0
    assert store.delete(tenant="t1") == 1
    assert store.delete(tenant="t1") == 0
    assert [episode.id for episode in store.list(tenant=None)] == ["b", "c"]


def test_fetch_takes_more_numbers_than_a_query_may_have(store, make_episode):
    numbers = store.add_many([make_episode(f"q{i}", id=f"e{i}") for i in range(1100)])
    found = store.fetch([*numbers, 10**9])
    assert len(found) == 1100 and found["e1099"].question == "q1099"


def test_text_that_is_no_unicode_is_refused(store, make_episode):
    with pytest.raises(BadInput, match="'odd'"):
        store.add(make_episode("\ud800", id="odd"))
    store.add(make_episode(id="even"))
    with pytest.raises(BadInput, match="'even'"):
        store.grade(True, id="even", lesson="\ud800")
    assert store.get("even").is_right is None and store.count(tenant=None) == 1


def test_a_damaged_row_is_a_typed_error(store, make_episode, database):
    store.add(make_episode(id="a"))
    with database.transaction() as connection:
        connection.execute(text("UPDATE episodes SET episode = '{' WHERE id = 'a'"))
    with pytest.raises(StoreError, match="'a'"):
        store.get("a")


async def test_asynchronous_twins_do_the_same(store, make_episode):
    episode = make_episode(id="a", response_id="r", tenant="t")
    number = await store.aadd(episode)
    assert number == store.add(episode)
    assert await store.aadd_many([episode]) == (number,)
    assert await store.agrade(True, response_id="r", lesson="Good.") == 1
    assert await store.aget("a") == store.get("a")
    assert await store.acount(tenant="t") == store.count(tenant="t") == 1
    assert await store.alist(tenant="t", graded_only=True) == store.list(tenant="t", graded_only=True)
    assert await store.adelete(tenant="t", id="a") == 1
    assert store.get("a") is None


@pytest.mark.parametrize("name", ["add", "add_many", "grade", "get", "count", "list", "delete"])
def test_twins_take_the_same_arguments(name):
    sync, twin = getattr(EpisodeStore, name), getattr(EpisodeStore, f"a{name}")
    assert inspect.iscoroutinefunction(twin)
    assert inspect.signature(sync) == inspect.signature(twin)


def test_writers_in_many_threads_lose_nothing(store, make_episode):
    batches = [[make_episode(f"q{i}", id=f"e{i}") for i in range(part, 60, 3)] for part in range(3)]
    batches.append(batches[0])  # two threads race with the same episodes
    problems = []

    def work(batch):
        try:
            for episode in batch:
                store.add(episode)
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(batch,)) for batch in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert {episode.id for episode in store.list(tenant=None)} == {f"e{i}" for i in range(60)}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 5), st.sampled_from(["t1", "t2"])),
            st.tuples(st.just("grade"), st.integers(0, 5), st.booleans()),
            st.tuples(st.just("delete"), st.sampled_from(["t1", "t2"]), st.none()),
        ),
        max_size=25,
    )
)
def test_behaves_like_a_dictionary(steps):
    database = Database(":memory:")
    store = EpisodeStore(database)
    created = datetime(2026, 1, 1, tzinfo=UTC)
    model: dict[str, tuple[str, bool | None]] = {}
    for step, first, second in steps:
        if step == "add":
            id = f"{second}-{first}"
            store.add(Episode(id=id, tenant=second, model="m", question="q", answer="a", created_at=created))
            model.setdefault(id, (second, None))
        elif step == "grade":
            id = f"t1-{first}"
            assert store.grade(second, id=id) == (1 if id in model else 0)
            if id in model:
                model[id] = ("t1", second)
        else:
            assert store.delete(tenant=first) == sum(tenant == first for tenant, _ in model.values())
            model = {id: value for id, value in model.items() if value[0] != first}
    assert {e.id: (e.tenant, e.is_right) for e in store.list(tenant=None)} == model
    for tenant in ("t1", "t2"):
        assert store.count(tenant=tenant) == sum(owner == tenant for owner, _ in model.values())
    numbers = [e.number for e in store.list(tenant=None)]
    assert numbers == sorted(set(numbers))
    database.close()


def test_the_state_of_a_bank_changes_with_its_grades_and_members_alone(store, make_episode):
    bank = {"tenant": "default", "task": "default", "model": "gemma"}
    assert store.state_of_bank(**bank) == NO_EPISODES
    store.add_many([make_episode(id=id, is_right=right) for id, right in (("a", True), ("b", True), ("c", False))])
    before = store.state_of_bank(**bank)
    assert before[:2] == (3, 3)
    store.add(make_episode(id="pending"))
    store.add(make_episode(id="theirs", tenant="other", is_right=True))
    assert store.state_of_bank(**bank) == before
    assert store.grades(**bank) == {"a": (1, True), "b": (2, True), "c": (3, False)}
    store.grade(False, id="a")
    store.grade(False, id="b")
    store.grade(True, id="c")  # a sum over numbers would not see it: 1 + 2 - 3 = -1 - 2 + 3
    assert store.state_of_bank(**bank) != before
    for id, right in (("a", True), ("b", True), ("c", False)):
        store.grade(right, id=id)
    assert store.state_of_bank(**bank) == before
    store.grade(True, id="pending")
    assert store.state_of_bank(**bank) != before
    assert store.state_of_bank(**bank, through=3) == before
    store.delete(tenant="default", id="pending")
    store.delete(tenant="default", id="c")
    assert store.state_of_bank(**bank)[:2] == (2, 2)
    assert store.state_of_bank(**bank) != before
