"""The evidence cache: what goes in comes out; what is damaged is collected again; a full disk leaves nothing half."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.core.errors import StoreError
from demur.router.pipelines.evidence_cache import CollectedRow, EvidenceCache


def row(
    name: str, *, response: str = "A", values: Any = (1.0, 2.0), signal: float | None = 0.123456789
) -> CollectedRow:
    return CollectedRow(
        id=name,
        question=f"Q {name}",
        response=response,
        signals={"token.mean_logprob": signal, "lost": None},
        hidden={"answer_mean.L1": np.asarray(values, np.float32)},
        tokens_in=3,
        tokens_out=2,
        seconds=0.123456,
    )


def assert_same(first: CollectedRow, second: CollectedRow) -> None:
    plain = ("id", "question", "response", "tokens_in", "tokens_out", "seconds")
    assert [getattr(first, name) for name in plain] == [getattr(second, name) for name in plain]
    assert list(first.signals.items()) == list(second.signals.items())
    assert first.hidden.keys() == second.hidden.keys()
    for name, vector in first.hidden.items():
        assert vector.dtype == second.hidden[name].dtype == np.float32
        assert vector.tobytes() == second.hidden[name].tobytes()


text = st.text(st.characters(exclude_categories=()), max_size=20)
number = st.floats(allow_nan=False, allow_infinity=False, width=32)


@settings(max_examples=40, deadline=None)
@given(
    response=text,
    name=st.text(min_size=1, max_size=10),
    signal=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    values=st.lists(number, min_size=1, max_size=4),
    half=st.booleans(),
)
def test_what_append_returns_is_what_load_gives(
    tmp_path_factory: pytest.TempPathFactory,
    response: str,
    name: str,
    signal: float | None,
    values: list[float],
    half: bool,
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    cache = EvidenceCache(folder, {"a": 1}, float16=half)
    (kept,) = cache.append([row(name, response=response, values=values, signal=signal)])
    loaded = EvidenceCache(folder, {"a": 1}, float16=half).load()
    assert list(loaded) == [name]
    assert_same(loaded[name], kept)


def test_line_separators_in_a_response_do_not_lose_the_shard(tmp_path: Path) -> None:
    cache = EvidenceCache(tmp_path, {})
    cache.append([row("a", response="one\u2028two\u0085three\x1efour"), row("b")])
    assert cache.load()["a"].response == "one\u2028two\u0085three\x1efour"
    assert set(cache.load()) == {"a", "b"}


def test_the_key_is_stable_and_settings_never_mix(tmp_path: Path) -> None:
    """The literal key (sha256sum of the canonical JSON) guards what is on users' disks."""
    cache = EvidenceCache(tmp_path, {"arm": "answer", "format": 1})
    assert cache.key == "5acca8e1d2b8589a"
    cache.append([row("a")])
    assert EvidenceCache(tmp_path, {"arm": "retrieve", "format": 1}).load() == {}


def test_rows_without_some_vector_keep_the_others_apart(tmp_path: Path) -> None:
    cache = EvidenceCache(tmp_path, {})
    bare = CollectedRow(id="bare", question="Q", response="", signals={})
    cache.append([row("a", values=(1.0, 2.0)), bare, row("b", values=(3.0, 4.0))])
    loaded = cache.load()
    assert loaded["bare"].hidden == {}
    assert loaded["b"].hidden["answer_mean.L1"].tolist() == [3.0, 4.0]


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".npz"])
@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 no archive", None])
def test_a_damaged_shard_is_left_out(tmp_path: Path, suffix: str, damage: bytes | None) -> None:
    cache = EvidenceCache(tmp_path, {})
    cache.append([row("a")])
    cache.append([row("b")])
    path = next(cache.folder.glob(f"shard-00000-*{suffix}"))
    if damage is None:
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
    else:
        path.write_bytes(damage)
    assert set(cache.load()) == {"b"}


def test_a_shard_whose_vectors_are_gone_is_left_out(tmp_path: Path) -> None:
    cache = EvidenceCache(tmp_path, {})
    cache.append([row("a")])
    next(cache.folder.glob("*.npz")).unlink()
    assert cache.load() == {}


def test_a_shard_of_pickles_is_never_opened(tmp_path: Path) -> None:
    cache = EvidenceCache(tmp_path, {})
    cache.append([row("a")])
    with next(cache.folder.glob("*.npz")).open("wb") as file:
        np.savez(file, **{"answer_mean.L1": np.array([{"not": "numbers"}], dtype=object)})  # pyright: ignore
    assert cache.load() == {}


@pytest.mark.parametrize("at", [0, 1])
def test_a_full_disk_leaves_nothing_of_the_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    cache = EvidenceCache(tmp_path, {})
    cache.append([row("before")])
    others = cache.folder / "shard-00001-ffffffff.tmp.npz"
    others.write_bytes(b"another process is writing this")
    there = sorted(path.name for path in cache.folder.iterdir())
    real, calls = os.replace, []

    def full(source: Any, target: Any) -> None:
        calls.append(target)
        if len(calls) - 1 == at:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(StoreError, match="No space left"):
        cache.append([row("lost")])
    monkeypatch.undo()
    assert sorted(path.name for path in cache.folder.iterdir()) == there
    assert set(cache.load()) == {"before"}


def test_a_place_that_cannot_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        EvidenceCache(tmp_path / "file", {})


def test_appending_nothing_writes_nothing(tmp_path: Path) -> None:
    cache = EvidenceCache(tmp_path, {})
    assert cache.append([]) == []
    assert [path.name for path in cache.folder.iterdir()] == ["settings.json"]
