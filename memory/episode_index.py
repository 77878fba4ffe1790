"""Nearest episodes by the question: a cache of vectors that is checked when opened and rebuilt from SQL (rule 6)."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.errors import BadInput, SnapshotMismatch
from ..core.protocols import Embedder
from .episode import Episode
from .episode_store import EpisodeStore
from .snapshot_log import Snapshot, SnapshotLog
from .vector_index import VectorIndex

BATCH = 64
SLOW = 2.0
"""Seconds of embedding from which on a progress bar is worth showing."""
SAVE_EVERY = 256


class Neighbour(NamedTuple):
    """A recalled episode and the cosine similarity of its question."""

    episode: Episode
    similarity: float


class Opened(NamedTuple):
    """How the index was opened, how many episodes had to be embedded, and why."""

    how: Literal["snapshot", "topped up", "rebuilt"]
    embedded: int
    reason: str


class EpisodeIndex:
    """Vectors of the questions of all episodes, each under a hash of its episode's id.

    SQL decides who may be found: every search asks the store which episodes qualify (tenant, task, model, graded),
    embeds those that are not in the index yet, and looks among these alone. So another tenant's episode is never
    returned, other processes' new episodes are seen at once, and deleted ones are gone at once. The key is a hash of
    the id and not the counter, because SQLite may give the number of a deleted row to a new one.

    Args:
        store: the episodes.
        embedder: its `name` is bound into the snapshot: another embedder rebuilds.
        folder: where the snapshot is; its checksum is in SQL. None keeps the index in memory only.
        progress: show a progress bar (on a terminal, on stderr) when it will take over two seconds.
    """

    def __init__(
        self, store: EpisodeStore, embedder: Embedder, folder: str | Path | None, *, progress: bool = True
    ) -> None:
        self.store = store
        self.embedder = embedder
        self.folder = None if folder is None else Path(folder)
        self.progress = progress
        self._snapshots = SnapshotLog(store.database, store.clock)
        self._index: VectorIndex | None = None
        self._unsaved = 0
        self._lock = threading.RLock()

    def __len__(self) -> int:
        with self._lock:
            return 0 if self._index is None else len(self._index)

    def open(self) -> Opened:
        """Open the snapshot, or rebuild it when it is missing, damaged, of other content or of another embedder.

        Called by the first search. A snapshot that is merely old is topped up and deleted episodes are taken out.

        Raises:
            StoreError: SQL cannot be read, or the new snapshot cannot be written.
            BadInput: the embedder gave vectors that cannot be used.
        """
        with self._lock:
            try:
                self._index = self._read_snapshot()
                how, reason = "snapshot", "the snapshot is the one that was written"
            except SnapshotMismatch as mismatch:
                self._index = VectorIndex(self.embedder.width)
                how, reason = "rebuilt", str(mismatch)
            embedded, removed = self._follow(self.store.members(tenant=None), whole=True)
            if how == "snapshot" and (embedded or removed):
                how, reason = "topped up", f"{embedded} episodes were new and {removed} gone since the snapshot"
            if how != "snapshot":
                self.save()
            return Opened(how, embedded, reason)

    def refresh(self) -> int:
        """Take in new episodes, drop deleted ones, save. Returns how many changed."""
        with self._lock:
            if self._index is None:
                return self.open().embedded
            embedded, removed = self._follow(self.store.members(tenant=None), whole=True)
            if embedded or removed or self._unsaved:
                self.save()
            return embedded + removed

    def rebuild(self) -> int:
        """Embed everything again from SQL. Returns the number of episodes."""
        with self._lock:
            self._index = VectorIndex(self.embedder.width)
            embedded, _ = self._follow(self.store.members(tenant=None), whole=True)
            self.save()
            return embedded

    def search(
        self,
        question: str,
        *,
        tenant: str,
        task: str | None = None,
        model: str | None = None,
        graded_only: bool = True,
        limit: int = 50,
    ) -> tuple[Neighbour, ...]:
        """The tenant's episodes whose questions are nearest to `question`, nearest first.

        Raises:
            BadInput: `limit` is below 1, or the question cannot be embedded.
            StoreError: SQL cannot be read.
        """
        with self._lock:
            if self._index is None:
                self.open()
            assert self._index is not None
            members = self.store.members(tenant=tenant, task=task, model=model, graded_only=graded_only)
            self._follow(members)
            self._save_now_and_then()
            ids = {_key(id): id for id in members}
            vector = self.embedder.embed([question])[0]
            hits = self._index.search(vector, limit, allowed=list(ids))
            episodes = self.store.fetch([members[ids[hit.id]] for hit in hits])
        neighbours = ((episodes.get(ids[hit.id]), hit.score) for hit in hits)
        # An episode that was deleted between the two queries, its number perhaps given away, is not there any more.
        return tuple(Neighbour(episode, score) for episode, score in neighbours if episode and episode.tenant == tenant)

    def vectors(self, found: Sequence[Episode]) -> NDArray[np.float32]:
        """Unit vectors (n, width) of the questions of stored episodes, embedding those that are not in the index yet.

        Raises:
            BadInput: an episode without a number, that is not a stored one.
        """
        with self._lock:
            if self._index is None:
                self.open()
            assert self._index is not None
            unstored = [episode.id for episode in found if episode.number is None]
            if unstored:
                raise BadInput(f"episode {unstored[0]!r} has no number; add it to the store first")
            new = {key: episode for episode in found if (key := _key(episode.id)) not in self._index}
            for start in range(0, len(new), BATCH):
                self._embed(self._index, dict(list(new.items())[start : start + BATCH]))
            self._unsaved += len(new)
            self._save_now_and_then()
            return self._index.vectors([_key(episode.id) for episode in found])

    async def aopen(self) -> Opened:
        return await asyncio.to_thread(self.open)

    async def arefresh(self) -> int:
        return await asyncio.to_thread(self.refresh)

    async def asearch(
        self,
        question: str,
        *,
        tenant: str,
        task: str | None = None,
        model: str | None = None,
        graded_only: bool = True,
        limit: int = 50,
    ) -> tuple[Neighbour, ...]:
        return await asyncio.to_thread(
            self.search, question, tenant=tenant, task=task, model=model, graded_only=graded_only, limit=limit
        )

    def save(self) -> None:
        """Write the snapshot under a fresh name, then its checksum into SQL: a crash between leaves the old pair.

        Raises:
            StoreError: file or row could not be written; the old pair is untouched.
        """
        with self._lock:
            if self.folder is None or self._index is None:
                return
            name = f"episodes-{uuid.uuid4().hex}.faiss"
            self._snapshots.add(
                Snapshot(
                    name=name,
                    sha256=self._index.save(self.folder / name),
                    embedder=self.embedder.name,
                    width=self.embedder.width,
                    count=len(self._index),
                    through=max(self.store.members(tenant=None).values(), default=0),
                ),
                self.folder,
            )
            self._unsaved = 0

    def _save_now_and_then(self) -> None:
        if self._unsaved >= SAVE_EVERY:
            self.save()

    def _read_snapshot(self) -> VectorIndex:
        if self.folder is None:
            raise SnapshotMismatch("the index is kept in memory only")
        snapshot = self._snapshots.newest(self.folder)
        mine = (self.embedder.name, self.embedder.width)
        if (snapshot.embedder, snapshot.width) != mine:
            raise SnapshotMismatch(
                f"the snapshot was embedded by {snapshot.embedder!r} (width {snapshot.width}), not by "
                f"{mine[0]!r} (width {mine[1]})"
            )
        index = VectorIndex.open(self.folder / snapshot.name, snapshot.sha256)
        if (index.width, len(index)) != (snapshot.width, snapshot.count):
            raise SnapshotMismatch(
                f"the snapshot holds {len(index)} vectors of width {index.width}: not what SQL says of it"
            )
        return index

    def _follow(self, members: dict[str, int], *, whole: bool = False) -> tuple[int, int]:
        """Embed the members that are missing; with `whole`, drop what is no member. Returns (embedded, removed)."""
        index = self._index
        assert index is not None
        removed = 0
        if whole:
            wanted = {_key(id) for id in members}
            removed = index.remove([key for key in index.ids.tolist() if key not in wanted])
        missing = [number for id, number in members.items() if _key(id) not in index]
        embedded = 0
        if not missing:
            self._unsaved += removed
            return embedded, removed
        with self._bar(len(missing)) as advance:
            for start in range(0, len(missing), BATCH):
                batch = self.store.fetch(missing[start : start + BATCH])
                new = {_key(id): episode for id, episode in batch.items() if _key(id) not in index}
                self._embed(index, new)
                embedded += len(new)
                advance(min(BATCH, len(missing) - start))
        self._unsaved += embedded + removed
        return embedded, removed

    def _embed(self, index: VectorIndex, new: dict[int, Episode]) -> None:
        if new:
            index.add(list(new), self.embedder.embed([episode.question for episode in new.values()]))

    @contextmanager
    def _bar(self, total: int) -> Iterator[Callable[[int], None]]:
        """A progress bar that appears once the pace so far says that the whole takes longer than SLOW seconds."""
        from rich.console import Console
        from rich.progress import Progress

        console = Console(stderr=True)
        wanted = self.progress and console.is_terminal
        bar = Progress(console=console, transient=True)
        task = bar.add_task("Embedding episodes", total=total)
        clock = self.store.clock
        began, done, shown = clock.monotonic(), 0, False

        def advance(count: int) -> None:
            nonlocal done, shown
            done += count
            bar.update(task, completed=done)
            if wanted and not shown and done < total and (clock.monotonic() - began) * total / done > SLOW:
                bar.start()
                shown = True

        try:
            yield advance
        finally:
            if shown:
                bar.stop()


def _key(id: str) -> int:
    """63 bits of a hash of the episode's id."""
    return int.from_bytes(hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") >> 1
