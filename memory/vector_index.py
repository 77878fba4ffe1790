"""Exact nearest neighbours by cosine, in a file that opens only if it is the one that was written."""

from __future__ import annotations

import hashlib
import os
import threading
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.errors import BadInput, ConfigurationError, SnapshotMismatch, StoreError
from ..core.files import read_named

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class Hit(NamedTuple):
    """A neighbour: its external id and its cosine similarity."""

    id: int
    score: float


class VectorIndex:
    """FAISS flat inner-product index over unit vectors under external integer ids.

    Vectors are scaled to unit length on the way in, so that the inner product is the cosine. Every search is exact;
    equal scores are ordered by id. A removed vector is a tombstone until the index is saved (snapshots hold none).
    Safe to share between threads.

    Args:
        width: dimensions of every vector.

    Raises:
        ConfigurationError: `width` is below 1.
    """

    def __init__(self, width: int) -> None:
        if width < 1:
            raise ConfigurationError(f"width {width} must be at least 1: the embedder's width")
        import faiss

        self.width = int(width)
        self._faiss: Any = faiss
        self._flat: Any = faiss.IndexFlatIP(self.width)
        self._owner: Any = None
        self._ids: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._alive: NDArray[np.bool_] = np.empty(0, dtype=np.bool_)
        self._position: dict[int, int] = {}
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._position)

    def __contains__(self, id: int) -> bool:
        return id in self._position

    @property
    def ids(self) -> NDArray[np.int64]:
        """The ids that are present, ascending."""
        with self._lock:
            return np.sort(self._ids[self._alive])

    def add(self, ids: Sequence[int] | NDArray[np.int64], vectors: ArrayLike) -> None:
        """Add `vectors` of shape (n, width) under `ids`; all of them or, on an error, none.

        Raises:
            BadInput: wrong shape, a vector that is not finite or has no length, an id that is negative, given twice
                or present already.
        """
        rows = self._unit(vectors, "vectors")
        numbers = [int(id) for id in ids]
        if len(numbers) != len(rows):
            raise BadInput(f"{len(numbers)} ids for {len(rows)} vectors; give one id for each vector")
        if len(set(numbers)) != len(numbers):
            raise BadInput("an id is given twice in one call of add; ids are unique")
        with self._lock:
            for number in numbers:
                if not 0 <= number < 2**63:
                    raise BadInput(f"id {number} must lie in [0, 2**63)")
                if number in self._position:
                    raise BadInput(f"id {number} is in the index already; remove it first")
            if not numbers:
                return
            start = len(self._ids)
            self._flat.add(rows)
            self._ids = np.concatenate([self._ids, np.asarray(numbers, dtype=np.int64)])
            self._alive = np.concatenate([self._alive, np.ones(len(numbers), dtype=np.bool_)])
            self._position.update({number: start + offset for offset, number in enumerate(numbers)})

    def remove(self, ids: Iterable[int]) -> int:
        """Take `ids` out; unknown ones are ignored. Returns how many were there."""
        removed = 0
        with self._lock:
            for number in ids:
                position = self._position.pop(int(number), None)
                if position is not None:
                    self._alive[position] = False
                    removed += 1
        return removed

    def search(
        self, vector: ArrayLike, k: int, *, allowed: Sequence[int] | NDArray[np.int64] | None = None
    ) -> tuple[Hit, ...]:
        """The `k` nearest ids to `vector` (shape (width,)), best first; fewer where there are fewer.

        Args:
            allowed: only these ids may be found; unknown ones are ignored; None for all.

        Raises:
            BadInput: `k` is below 1, or the vector has the wrong width, is not finite or has no length.
        """
        if k < 1:
            raise BadInput(f"k {k} must be at least 1")
        query = self._unit(np.asarray(vector, dtype=np.float32)[np.newaxis], "query")
        with self._lock:
            mask = self._alive
            if allowed is not None:
                mask = mask & np.isin(self._ids, np.asarray(allowed, dtype=np.int64))
            candidates = int(np.count_nonzero(mask))
            if candidates == 0:
                return ()
            # IDSelectorBitmap reads the array it is given: `bitmap` must outlive the search.
            bitmap = np.packbits(mask, bitorder="little")
            chosen = self._faiss.SearchParameters(sel=self._faiss.IDSelectorBitmap(bitmap))
            # FAISS breaks ties at the cut by its heap: look further until the cut falls between two scores.
            asked = min(candidates, k + 16)
            while True:
                scores, positions = self._flat.search(query, asked, params=chosen)
                if asked == candidates or scores[0, k - 1] > scores[0, -1]:
                    break
                asked = min(candidates, 2 * asked)
            found, values = self._ids[positions[0]], scores[0]
        order = np.lexsort((found, -values))[:k]
        return tuple(Hit(int(found[i]), float(values[i])) for i in order)

    def vectors(self, ids: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float32]:
        """The stored unit vectors of these ids, shape (n, width).

        Raises:
            BadInput: an id is not in the index.
        """
        with self._lock:
            unknown = [int(id) for id in ids if int(id) not in self._position]
            if unknown:
                raise BadInput(f"id {unknown[0]} is not in the index")
            if len(ids) == 0:
                return np.empty((0, self.width), dtype=np.float32)
            positions = np.array([self._position[int(id)] for id in ids], dtype=np.int64)
            return np.asarray(self._flat.reconstruct_batch(positions), dtype=np.float32)

    def save(self, path: str | Path) -> str:
        """Write a snapshot in one step (temporary file, fsync, rename); returns its SHA-256 (hex).

        Raises:
            StoreError: the file could not be written. An older snapshot at `path` is untouched.
        """
        with self._lock:
            present = np.flatnonzero(self._alive)
            whole = self._faiss.IndexIDMap2(self._faiss.IndexFlatIP(self.width))
            if len(present):
                whole.add_with_ids(self._flat.reconstruct_batch(present), self._ids[present])
            data = self._faiss.serialize_index(whole).tobytes()
        write_atomically(Path(path), data)
        return hashlib.sha256(data).hexdigest()

    @classmethod
    def open(cls, path: str | Path, sha256: str) -> VectorIndex:
        """Read a snapshot, if it is the one whose SHA-256 is `sha256` (rule 4: FAISS never parses anything else).

        Raises:
            SnapshotMismatch: it is missing, unreadable, another file, or no snapshot of this class.
        """
        try:
            data = read_named(path)
        except OSError as error:
            raise SnapshotMismatch(f"index snapshot {str(path)!r} cannot be read ({error}); rebuild it") from error
        found = hashlib.sha256(data).hexdigest()
        if found != sha256:
            raise SnapshotMismatch(f"index snapshot {str(path)!r} has SHA-256 {found}, expected {sha256}; rebuild it")
        import faiss

        # The very bytes that were hashed are parsed; the file is not read a second time.
        try:
            whole: Any = faiss.deserialize_index(np.frombuffer(data, dtype=np.uint8))
        except RuntimeError as error:
            raise SnapshotMismatch(f"index snapshot {str(path)!r} is no FAISS index ({error}); rebuild it") from error
        if not isinstance(whole, faiss.IndexIDMap2) or not isinstance(
            flat := faiss.downcast_index(whole.index), faiss.IndexFlatIP
        ):
            raise SnapshotMismatch(f"index snapshot {str(path)!r} is no flat inner-product index with ids; rebuild it")
        index = cls(whole.d)
        index._flat = flat
        index._owner = whole  # `flat` lives in its memory
        index._ids = faiss.vector_to_array(whole.id_map).astype(np.int64)
        index._alive = np.ones(len(index._ids), dtype=np.bool_)
        index._position = {int(number): position for position, number in enumerate(index._ids)}
        return index

    def _unit(self, vectors: ArrayLike, what: str) -> NDArray[np.float32]:
        rows = np.asarray(vectors, dtype=np.float32)
        if rows.ndim == 2 and rows.shape[0] == 0:
            return np.empty((0, self.width), dtype=np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise BadInput(f"{what} of shape {rows.shape} do not fit an index of width {self.width}")
        wide = rows.astype(np.float64)
        if not np.isfinite(wide).all():
            row = int(np.flatnonzero(~np.isfinite(wide).all(axis=1))[0])
            raise BadInput(f"{what}: row {row} holds NaN or an infinity; look at the text it was embedded from")
        lengths = np.linalg.norm(wide, axis=1, keepdims=True)
        if not (lengths > 0.0).all():
            row = int(np.flatnonzero(lengths[:, 0] == 0.0)[0])
            raise BadInput(f"{what}: row {row} is all zeros and has no direction")
        return np.ascontiguousarray(wide / lengths, dtype=np.float32)


def write_atomically(path: Path, data: bytes) -> None:
    """Put `data` at `path`, whole or not at all, also across a power cut.

    Raises:
        StoreError: the file could not be written; what was at `path` is untouched.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        if hasattr(os, "O_DIRECTORY"):
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StoreError(f"{str(path)!r} could not be written: {error}") from error
