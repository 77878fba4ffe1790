"""EpisodeIndex: a cache that is checked, rebuilt from SQL, and never crosses tenants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.core.database import Database
from demur.core.database.tables import index_snapshots
from demur.core.errors import BadInput, StoreError
from demur.integrations.retrieval.embedders import HashingEmbedder
from demur.memory.episode import Episode
from demur.memory.episode_index import EpisodeIndex
from demur.memory.episode_store import EpisodeStore
from demur.memory.snapshot_log import SnapshotLog


class CountingEmbedder(HashingEmbedder):
    """Remembers what it was asked to embed."""

    def __init__(self, width=64):
        super().__init__(width)
        self.seen = []

    def embed(self, texts):
        self.seen.extend(texts)
        return super().embed(texts)


@pytest.fixture
def embedder():
    return CountingEmbedder()


@pytest.fixture
def filled(store, make_episode):
    """Three graded episodes of `mine`, one ungraded, one of `theirs`."""
    store.add_many(
        [
            make_episode("Who wrote Emma?", id="emma", tenant="mine", is_right=True),
            make_episode("Who wrote Persuasion?", id="persuasion", tenant="mine", is_right=False, task="books"),
            make_episode("What is the boiling point of water?", id="water", tenant="mine", is_right=True, model="qwen"),
            make_episode("Who wrote Emma, then?", id="pending", tenant="mine"),
            make_episode("Who wrote Emma?", id="theirs", tenant="theirs", is_right=True),
        ]
    )
    return store


def ids(neighbours):
    return [neighbour.episode.id for neighbour in neighbours]


def found_in(index, question="Who wrote Emma?", tenant="mine"):
    """Ids and similarities, rounded to where sums in another order agree."""
    return [(one.episode.id, round(one.similarity, 4)) for one in index.search(question, tenant=tenant)]


def by_brute_force(store, embedder, question="Who wrote Emma?", tenant="mine"):
    """The same without any index."""
    asked = embedder.embed([question])[0]
    graded = store.list(tenant=tenant, graded_only=True)
    scored = [(one.id, round(float(embedder.embed([one.question])[0] @ asked), 4)) for one in graded]
    return sorted(scored, key=lambda pair: -pair[1])


def test_nearest_first_and_only_the_tenants_own_graded_ones(filled, embedder, tmp_path):
    index = EpisodeIndex(filled, embedder, tmp_path)
    found = index.search("Who wrote Emma?", tenant="mine")
    assert ids(found) == ["emma", "persuasion", "water"]
    assert found[0].similarity == pytest.approx(1.0, abs=1e-6)
    assert found[0].episode == filled.get("emma")
    assert ids(index.search("Who wrote Emma?", tenant="theirs")) == ["theirs"]
    assert index.search("Who wrote Emma?", tenant="nobody") == ()


def test_filters_and_limit(filled, embedder):
    index = EpisodeIndex(filled, embedder, None)
    assert ids(index.search("Who wrote Emma?", tenant="mine", limit=1)) == ["emma"]
    assert ids(index.search("Who wrote Emma?", tenant="mine", task="books")) == ["persuasion"]
    assert ids(index.search("Who wrote Emma?", tenant="mine", model="qwen")) == ["water"]
    assert "pending" in ids(index.search("Who wrote Emma?", tenant="mine", graded_only=False))
    with pytest.raises(BadInput, match="k 0"):
        index.search("Who wrote Emma?", tenant="mine", limit=0)


async def test_asynchronous_search_is_the_same(filled, embedder, tmp_path):
    index = EpisodeIndex(filled, embedder, tmp_path)
    assert (await index.aopen()).how == "rebuilt"
    assert await index.asearch("Who wrote Emma?", tenant="mine") == index.search("Who wrote Emma?", tenant="mine")
    assert await index.arefresh() == 0


def test_a_snapshot_is_opened_without_embedding_anything(filled, embedder, tmp_path):
    first = EpisodeIndex(filled, embedder, tmp_path)
    assert first.open()[:2] == ("rebuilt", 5)
    embedder.seen.clear()
    second = EpisodeIndex(filled, embedder, tmp_path)
    assert second.open()[:2] == ("snapshot", 0)
    assert embedder.seen == []
    question = "Who wrote Persuasion?"
    assert second.search(question, tenant="mine") == first.search(question, tenant="mine")


def test_an_old_snapshot_is_topped_up(filled, embedder, make_episode, tmp_path):
    EpisodeIndex(filled, embedder, tmp_path).open()
    filled.add(make_episode("Who wrote Middlemarch?", id="new", tenant="mine", is_right=True))
    filled.delete(tenant="theirs")
    embedder.seen.clear()
    index = EpisodeIndex(filled, embedder, tmp_path)
    opened = index.open()
    assert opened.how == "topped up" and "1 episodes were new and 1 gone" in opened.reason
    assert embedder.seen == ["Who wrote Middlemarch?"]
    assert len(index) == 5
    assert EpisodeIndex(filled, embedder, tmp_path).open().how == "snapshot"


@pytest.mark.parametrize("damage", ["flip", "truncate", "delete", "row", "swap", "stranger"])
def test_a_damaged_snapshot_is_rebuilt(filled, embedder, tmp_path, damage):
    EpisodeIndex(filled, embedder, tmp_path).open()
    (snapshot,) = tmp_path.glob("*.faiss")
    data = snapshot.read_bytes()
    if damage == "flip":
        snapshot.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif damage == "truncate":
        snapshot.write_bytes(data[:-10])
    elif damage == "delete":
        snapshot.unlink()
    elif damage == "stranger":
        snapshot.rename(tmp_path / "episodes-of somebody else.faiss")
    else:
        with filled.database.transaction() as connection:
            if damage == "row":
                connection.execute(index_snapshots.delete())
            else:
                connection.execute(index_snapshots.update().values(sha256="0" * 64))
    index = EpisodeIndex(filled, embedder, tmp_path)
    opened = index.open()
    assert (opened.how, opened.embedded) == ("rebuilt", 5)
    assert found_in(index) == by_brute_force(filled, embedder)
    assert EpisodeIndex(filled, embedder, tmp_path).open().how == "snapshot"


@pytest.mark.parametrize("change", [{"name": "another model"}, {"width": 32}])
def test_another_embedder_rebuilds(filled, embedder, tmp_path, change):
    EpisodeIndex(filled, embedder, tmp_path).open()
    other = CountingEmbedder(change.get("width", 64))
    other.name = change.get("name", embedder.name)
    opened = EpisodeIndex(filled, other, tmp_path).open()
    assert opened.how == "rebuilt" and "was embedded by" in opened.reason


def test_new_episodes_of_another_process_are_seen_at_once(filled, embedder, make_episode, tmp_path):
    here = EpisodeIndex(filled, embedder, tmp_path)
    here.open()
    elsewhere = Database(filled.database.url)
    EpisodeStore(elsewhere).add(make_episode("Who wrote Ulysses?", id="far", tenant="mine", is_right=True))
    assert ids(here.search("Who wrote Ulysses?", tenant="mine", limit=1)) == ["far"]
    elsewhere.close()


def test_deleted_episodes_are_gone_even_when_their_number_is_given_away(store, embedder, make_episode):
    store.add(make_episode("Secret plan of t1", id="secret", tenant="t1", is_right=True))
    index = EpisodeIndex(store, embedder, None)
    index.search("Secret plan of t1", tenant="t1")
    store.delete(tenant="t1")
    store.add(make_episode("Where is Oslo?", id="oslo", tenant="t2", is_right=True))
    assert index.search("Secret plan of t1", tenant="t1") == ()
    (found,) = index.search("Where is Oslo?", tenant="t2")
    assert found.episode.id == "oslo" and found.similarity == pytest.approx(1.0, abs=1e-6)
    assert index.refresh() == 1
    assert len(index) == 1


def test_two_processes_saving_in_turn_leave_a_pair_that_opens(filled, embedder, make_episode, tmp_path):
    first, second = EpisodeIndex(filled, embedder, tmp_path), EpisodeIndex(filled, embedder, tmp_path)
    first.open()
    second.open()
    filled.add(make_episode("New", id="new", tenant="mine"))
    assert first.refresh() == 1
    assert second.refresh() == 1
    assert len(list(tmp_path.glob("*.faiss"))) == 1
    assert EpisodeIndex(filled, embedder, tmp_path).open().how == "snapshot"


def test_processes_with_folders_of_their_own_share_a_database(filled, embedder, tmp_path):
    for folder in ("one", "two"):
        assert EpisodeIndex(filled, embedder, tmp_path / folder).open().how == "rebuilt"
    for folder in ("one", "two"):
        assert EpisodeIndex(filled, embedder, tmp_path / folder).open().how == "snapshot"
        assert len(list((tmp_path / folder).iterdir())) == 1


def test_a_kill_between_file_and_row_leaves_the_old_pair(filled, embedder, make_episode, tmp_path, monkeypatch):
    index = EpisodeIndex(filled, embedder, tmp_path)
    index.open()
    filled.add(make_episode("New", id="new", tenant="mine", is_right=True))

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(SnapshotLog, "add", killed)
    with pytest.raises(KeyboardInterrupt):
        index.refresh()
    monkeypatch.undo()
    assert len(list(tmp_path.glob("*.faiss"))) == 2
    again = EpisodeIndex(filled, embedder, tmp_path)
    assert again.open()[:2] == ("topped up", 1)
    assert found_in(again) == by_brute_force(filled, embedder)
    assert len(list(tmp_path.glob("*.faiss"))) == 1
    assert ids(again.search("New", tenant="mine", limit=1)) == ["new"]


def test_a_full_disk_keeps_the_old_pair(filled, embedder, make_episode, tmp_path, monkeypatch):
    index = EpisodeIndex(filled, embedder, tmp_path)
    index.open()
    before = sorted(file.name for file in tmp_path.iterdir())
    filled.add(make_episode("New", id="new", tenant="mine"))

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("demur.memory.vector_index.os.fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        index.refresh()
    monkeypatch.undo()
    assert sorted(file.name for file in tmp_path.iterdir()) == before
    assert EpisodeIndex(filled, embedder, tmp_path).open()[:2] == ("topped up", 1)


def test_vectors_are_those_of_the_questions_and_are_saved_as_they_grow(
    filled, embedder, make_episode, tmp_path, monkeypatch
):
    """Who only asks for vectors, as recall does, leaves a snapshot that the next process need not make again."""
    monkeypatch.setattr("demur.memory.episode_index.SAVE_EVERY", 3)
    index = EpisodeIndex(filled, embedder, tmp_path)
    index.open()
    filled.add_many([make_episode(f"number {n}", id=f"n{n}", tenant="mine") for n in range(4)])
    embedder.seen.clear()
    known = filled.list(tenant="mine")
    assert index.vectors(known) == pytest.approx(embedder.embed([one.question for one in known]), abs=1e-6)
    assert embedder.seen[:4] == [f"number {n}" for n in range(4)]
    assert EpisodeIndex(filled, embedder, tmp_path).open()[:2] == ("snapshot", 0)
    assert index.vectors([]).shape == (0, 64)
    filled.delete(tenant="mine")
    assert len(index.vectors(known)) == len(known)  # read before they were deleted: no error
    with pytest.raises(BadInput, match="has no number"):
        index.vectors([make_episode("not stored")])


def test_rebuild_embeds_everything_again(filled, embedder, tmp_path):
    index = EpisodeIndex(filled, embedder, tmp_path)
    index.open()
    embedder.seen.clear()
    assert index.rebuild() == 5
    assert len(embedder.seen) == 5


def test_an_embedder_that_gives_nan_is_a_typed_error(filled, embedder):
    embedder.embed = lambda texts: np.full((len(texts), 64), np.nan, dtype=np.float32)
    with pytest.raises(BadInput, match="NaN"):
        EpisodeIndex(filled, embedder, None).open()


@pytest.mark.parametrize(("seconds", "shown"), [(1.5, True), (0.1, False)])
def test_a_progress_bar_only_for_long_rebuilds(store, make_episode, clock, capsys, monkeypatch, seconds, shown):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TERM", "xterm")
    store.add_many([make_episode(f"question {i}") for i in range(130)])
    embedder = CountingEmbedder()
    plain = embedder.embed

    def slow(texts):
        clock.advance(seconds)
        return plain(texts)

    embedder.embed = slow
    assert EpisodeIndex(store, embedder, None).open().embedded == 130
    captured = capsys.readouterr()
    assert ("Embedding episodes" in captured.err) is shown
    assert captured.out == ""
    assert EpisodeIndex(store, embedder, None, progress=False).open().embedded == 130
    monkeypatch.setenv("TTY_COMPATIBLE", "0")
    assert EpisodeIndex(store, embedder, None).open().embedded == 130
    assert capsys.readouterr().err == ""


@settings(max_examples=15, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.sampled_from(["t1", "t2", "t3"]), st.text("abc ", max_size=8), st.booleans()), max_size=30
    ),
    deleted=st.sampled_from(["t1", "none"]),
    tenant=st.sampled_from(["t1", "t2", "t3"]),
    limit=st.integers(1, 10),
)
def test_no_foreign_row_ever(rows, deleted, tenant, limit):
    database = Database(":memory:")
    store = EpisodeStore(database)
    index = EpisodeIndex(store, HashingEmbedder(32), None)
    batch = [
        Episode(tenant=owner, model="m", question=question, answer="a", is_right=graded or None)
        for owner, question, graded in rows
    ]
    store.add_many(batch[::2])
    index.open()
    store.delete(tenant=deleted)
    store.add_many(batch[1::2])
    found = index.search("ab c", tenant=tenant, limit=limit)
    mine = {e.id for e in store.list(tenant=tenant, graded_only=True)}
    assert {n.episode.id for n in found} <= mine
    assert len(found) == min(limit, len(mine))
    similarities = [n.similarity for n in found]
    assert similarities == sorted(similarities, reverse=True)
    database.close()
