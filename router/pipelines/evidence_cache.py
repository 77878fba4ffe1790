"""A resumable cache of collected evidence: generations, scalar signals and hidden vectors.

Keyed by a hash of model, prompt, decoding and captures, so that nothing collected under other settings is ever mixed
in. Append-only shards of JSON and numpy arrays (no pickles); a shard is written whole under another name and then
renamed, so that a killed run loses at most its last batch.
"""

from __future__ import annotations

import gzip
import json
import os
import uuid
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import StoreError
from ...core.record import content_hash

_DAMAGED = (ValueError, KeyError, IndexError, TypeError, AttributeError)


@dataclass(frozen=True)
class CollectedRow:
    """What was collected for one row.

    Attributes:
        signals: name → value, None where unavailable.
        hidden: vector name → (width,) float32.
        documents: hash of the passages that the answer was made from; "" where there were none.
    """

    id: str
    question: str
    response: str
    signals: Mapping[str, float | None]
    hidden: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    documents: str = ""


class EvidenceCache:
    """Shards of collected rows in a folder of their own.

    Args:
        folder: where all caches live.
        settings: everything the evidence depends on; JSON values.
        float16: store hidden vectors in half precision (range is checked).
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any], *, float16: bool = False) -> None:
        self.key = content_hash(dict(settings))[:16]
        self.folder = folder / self.key
        self._dtype = np.float16 if float16 else np.float32
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            description = self.folder / "settings.json"
            if not description.exists():
                _write_whole(description, json.dumps(dict(settings), indent=1, sort_keys=True).encode())
        except OSError as error:
            raise StoreError(f"the evidence cache {self.folder} cannot be written: {error}") from error

    def load(self) -> dict[str, CollectedRow]:
        """All rows by id. A shard that cannot be read whole is left out; its rows are collected again."""
        rows: dict[str, CollectedRow] = {}
        for path in sorted(self.folder.glob("shard-*.jsonl.gz")):
            for row in _read_shard(path):
                rows[row.id] = row
        return rows

    def append(self, rows: Sequence[CollectedRow]) -> list[CollectedRow]:
        """Write one shard.

        Returns:
            The rows as `load` will give them: stored numbers are rounded, and a run that was broken off and resumed
            must not differ from one that was not.

        Raises:
            StoreError: the disk is full or the folder cannot be written; nothing of the shard remains.
        """
        if not rows:
            return []
        rows = [self._as_stored(row) for row in rows]
        count = len(list(self.folder.glob("shard-*.jsonl.gz")))
        stem = self.folder / f"shard-{count:05d}-{uuid.uuid4().hex[:8]}"
        names = sorted({name for row in rows for name in row.hidden})
        arrays: dict[str, NDArray[Any]] = {}
        for name in names:
            arrays[name] = np.stack([row.hidden[name] for row in rows if name in row.hidden]).astype(self._dtype)
        lines = [
            json.dumps(
                {
                    "id": row.id,
                    "question": row.question,
                    "response": row.response,
                    "signals": dict(row.signals),
                    "hidden": sorted(row.hidden),
                    "tokens_in": row.tokens_in,
                    "tokens_out": row.tokens_out,
                    "seconds": row.seconds,
                    "documents": row.documents,
                },
                ensure_ascii=False,
            )
            for row in rows
        ]
        try:
            # Vectors first: a shard counts from the moment its JSON is there.
            if arrays:
                temporary = stem.with_suffix(".tmp.npz")
                with temporary.open("wb") as file:
                    np.savez_compressed(file, **arrays)  # pyright: ignore[reportArgumentType]
                os.replace(temporary, stem.with_suffix(".npz"))
            _write_whole(
                Path(f"{stem}.jsonl.gz"), gzip.compress("\n".join(lines).encode("utf-8", "surrogatepass"), mtime=0)
            )
        except OSError as error:
            # Only this shard's: another process may be writing its own beside it.
            for leftover in self.folder.glob(f"{stem.name}*"):
                leftover.unlink(missing_ok=True)
            raise StoreError(
                f"the evidence cache {self.folder} cannot be written: {error}. What was collected before is kept; make "
                "room, or name another folder, and run the same command again"
            ) from error
        return list(rows)

    def _as_stored(self, row: CollectedRow) -> CollectedRow:
        limit = float(np.finfo(self._dtype).max)
        hidden = {
            name: np.clip(np.asarray(vector, np.float32), -limit, limit).astype(self._dtype).astype(np.float32)
            for name, vector in row.hidden.items()
        }
        signals = {name: None if value is None else round(value, 6) for name, value in row.signals.items()}
        return replace(row, signals=signals, hidden=hidden, seconds=round(row.seconds, 4))


def _write_whole(path: Path, content: bytes) -> None:
    temporary = path.with_name(f"{path.name}.tmp{os.getpid()}")
    temporary.write_bytes(content)
    os.replace(temporary, path)


def _read_shard(path: Path) -> list[CollectedRow]:
    try:
        lines = gzip.decompress(path.read_bytes()).decode("utf-8", "surrogatepass").split("\n")
        # Not splitlines: U+2028 and its like stand unescaped inside the JSON strings.
        records = [json.loads(line) for line in lines]
        arrays: dict[str, NDArray[Any]] = {}
        vectors = Path(str(path).removesuffix(".jsonl.gz") + ".npz")
        if vectors.exists():
            with np.load(vectors, allow_pickle=False) as archive:
                arrays = {name: archive[name].astype(np.float32) for name in archive.files}
        position = dict.fromkeys(arrays, 0)
        rows = []
        for record in records:
            hidden = {}
            for name in record.pop("hidden"):
                hidden[name] = arrays[name][position[name]]
                position[name] += 1
            rows.append(CollectedRow(hidden=hidden, **record))
        return rows
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, *_DAMAGED):
        return []
