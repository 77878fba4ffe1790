"""VectorIndex: exact, deterministic, and opened only when it is the file that was written."""

from __future__ import annotations

import hashlib
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.core.errors import BadInput, ConfigurationError, SnapshotMismatch, StoreError
from demur.memory.vector_index import VectorIndex


def random_rows(count, width=8, seed=0):
    return np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)


def test_finds_by_cosine_not_by_length():
    index = VectorIndex(2)
    index.add([10, 20, 30], [[100.0, 100.0], [0.0, 0.5], [3.0, 0.0]])
    hits = index.search([2.0, 0.0], 3)
    assert [hit.id for hit in hits] == [30, 10, 20]
    assert [hit.score for hit in hits] == pytest.approx([1.0, np.sqrt(0.5), 0.0], abs=1e-6)


def test_fewer_than_k_and_none_at_all():
    index = VectorIndex(3)
    assert index.search([1.0, 0.0, 0.0], 5) == ()
    index.add([], np.empty((0, 3)))
    assert len(index) == 0
    index.add([7], [[1.0, 0.0, 0.0]])
    assert [hit.id for hit in index.search([0.0, 1.0, 0.0], 1000)] == [7]


def test_equal_scores_are_ordered_by_id_also_at_the_cut():
    index = VectorIndex(4)
    ids = np.random.default_rng(1).permutation(200)
    index.add(ids, np.tile([0.3, 0.1, 0.2, 0.9], (200, 1)))
    index.add([500], [[0.9, 0.1, 0.2, 0.3]])
    assert [hit.id for hit in index.search([0.3, 0.1, 0.2, 0.9], 5)] == [0, 1, 2, 3, 4]
    assert [hit.id for hit in index.search([0.9, 0.1, 0.2, 0.3], 3)] == [500, 0, 1]


def test_only_allowed_ids_are_found():
    index = VectorIndex(2)
    index.add([1, 2, 3], [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    assert [hit.id for hit in index.search([1.0, 0.0], 3, allowed=[3, 2, 99])] == [2, 3]
    assert index.search([1.0, 0.0], 3, allowed=[]) == ()


def test_removed_ids_are_gone_and_can_come_back():
    index = VectorIndex(2)
    index.add([1, 2], [[1.0, 0.0], [0.0, 1.0]])
    assert index.remove([1, 5]) == 1
    assert len(index) == 1 and 1 not in index
    assert [hit.id for hit in index.search([1.0, 0.0], 2)] == [2]
    index.add([1], [[0.0, -1.0]])
    assert [(hit.id, hit.score) for hit in index.search([0.0, -1.0], 1)] == [(1, 1.0)]
    assert index.ids.tolist() == [1, 2]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_agrees_with_brute_force(data):
    count = data.draw(st.integers(1, 60))
    rows = random_rows(count, seed=data.draw(st.integers(0, 10_000)))
    ids = data.draw(st.lists(st.integers(0, 2**63 - 1), min_size=count, max_size=count, unique=True))
    removed = set(data.draw(st.lists(st.sampled_from(ids))))
    allowed = data.draw(st.none() | st.lists(st.sampled_from(ids)))
    k = data.draw(st.integers(1, 70))
    index = VectorIndex(8)
    index.add(ids, rows)
    index.remove(removed)
    query = random_rows(1, seed=99)[0]
    cosine = (rows @ query) / np.linalg.norm(rows, axis=1) / np.linalg.norm(query)
    left = {
        id: score
        for id, score in zip(ids, cosine, strict=True)
        if id not in removed and (allowed is None or id in allowed)
    }
    hits = index.search(query, k, allowed=allowed)
    assert len(hits) == min(k, len(left))
    assert {hit.id for hit in hits} <= set(left)
    assert [hit.score for hit in hits] == pytest.approx(sorted(left.values(), reverse=True)[:k], abs=1e-5)
    assert [hit.score for hit in hits] == pytest.approx([left[hit.id] for hit in hits], abs=1e-5)


@pytest.mark.parametrize(
    ("ids", "vectors", "says"),
    [
        ([1], [[1.0, 2.0, 3.0]], "width 2"),
        ([1], [1.0, 2.0], "width 2"),
        ([1, 2], [[1.0, 2.0]], "2 ids for 1 vectors"),
        ([1], [[float("nan"), 1.0]], "row 0 holds NaN"),
        ([1, 2], [[1.0, 1.0], [float("inf"), 1.0]], "row 1 holds NaN"),
        ([1], [[0.0, 0.0]], "all zeros"),
        ([1, 1], [[1.0, 0.0], [0.0, 1.0]], "given twice"),
        ([5], [[1.0, 0.0]], "id 5 is in the index already"),
        ([-1], [[1.0, 0.0]], "id -1 must lie in"),
    ],
)
def test_bad_vectors_and_ids_are_refused_and_change_nothing(ids, vectors, says):
    index = VectorIndex(2)
    index.add([5], [[1.0, 0.0]])
    with pytest.raises(BadInput, match=says):
        index.add(ids, vectors)
    assert index.ids.tolist() == [5]


def test_bad_searches_are_refused():
    index = VectorIndex(2)
    with pytest.raises(BadInput, match="k 0"):
        index.search([1.0, 0.0], 0)
    with pytest.raises(BadInput, match="width 2"):
        index.search([1.0, 0.0, 0.0], 1)
    with pytest.raises(BadInput, match="all zeros"):
        index.search([0.0, 0.0], 1)
    with pytest.raises(ConfigurationError, match="width 0"):
        VectorIndex(0)


def test_snapshot_returns_its_sha256_and_opens_to_the_same_index(tmp_path):
    index = VectorIndex(8)
    index.add(range(100, 150), random_rows(50))
    index.remove([101, 149])
    path = tmp_path / "deep" / "index.faiss"
    sha256 = index.save(path)
    assert sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert [file.name for file in path.parent.iterdir()] == ["index.faiss"]
    again = VectorIndex.open(path, sha256)
    assert again.ids.tolist() == index.ids.tolist() and again.width == 8
    query = random_rows(1, seed=3)[0]
    assert again.search(query, 48) == index.search(query, 48)
    again.add([101], random_rows(1, seed=4))
    again.remove([100])
    assert len(again) == 48
    assert again.search(random_rows(1, seed=4)[0], 1)[0].id == 101


def test_an_empty_index_survives_its_snapshot(tmp_path):
    sha256 = VectorIndex(4).save(tmp_path / "empty")
    assert len(VectorIndex.open(tmp_path / "empty", sha256)) == 0


def test_equal_content_gives_equal_snapshots(tmp_path):
    with_tombstone, without = VectorIndex(8), VectorIndex(8)
    rows = random_rows(3)
    with_tombstone.add([1, 2, 3], rows)
    with_tombstone.remove([2])
    without.add([1, 3], rows[[0, 2]])
    assert with_tombstone.save(tmp_path / "a") == without.save(tmp_path / "b")


def test_faiss_never_sees_bytes_whose_hash_is_wrong(tmp_path, monkeypatch):
    import faiss

    index = VectorIndex(8)
    index.add([1], random_rows(1))
    path = tmp_path / "index"
    sha256 = index.save(path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    parsed = []
    monkeypatch.setattr(faiss, "deserialize_index", parsed.append)
    monkeypatch.setattr(faiss, "read_index", parsed.append)
    with pytest.raises(SnapshotMismatch, match="rebuild"):
        VectorIndex.open(path, sha256)
    assert parsed == []


def test_missing_foreign_and_wrong_snapshots_are_refused(tmp_path):
    import faiss

    with pytest.raises(SnapshotMismatch, match="cannot be read"):
        VectorIndex.open(tmp_path / "nothing", "0" * 64)
    (tmp_path / "noise").write_bytes(b"not an index")
    with pytest.raises(SnapshotMismatch, match="no FAISS index"):
        VectorIndex.open(tmp_path / "noise", hashlib.sha256(b"not an index").hexdigest())
    other = faiss.serialize_index(faiss.IndexFlatL2(3)).tobytes()
    (tmp_path / "other").write_bytes(other)
    with pytest.raises(SnapshotMismatch, match="no flat inner-product"):
        VectorIndex.open(tmp_path / "other", hashlib.sha256(other).hexdigest())


def test_a_snapshot_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "index"
    index = VectorIndex(8)
    index.add([1], random_rows(1))
    sha256 = index.save(path)
    index.add([2], random_rows(1, seed=1))

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        index.save(path)
    monkeypatch.undo()
    assert VectorIndex.open(path, sha256).ids.tolist() == [1]
    assert [file.name for file in tmp_path.iterdir()] == ["index"]


def test_threads_share_one_index():
    index = VectorIndex(8)
    rows = random_rows(400)
    problems = []

    def work(part):
        try:
            for id in range(part * 100, part * 100 + 100):
                index.add([id], rows[[id]])
                assert index.search(rows[id], 1)[0].id == id
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(index) == 400
