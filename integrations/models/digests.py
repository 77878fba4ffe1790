"""SHA-256 of files, remembered by path, size and modification time, so that gigabytes are read once."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

_BLOCK = 1 << 20


def user_cache_folder() -> Path:
    """Demur's folder for what can be made again: $XDG_CACHE_HOME/demur or ~/.cache/demur."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "demur"


def sha256_of(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes, read now."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


class DigestCache:
    """Digests by path; an entry counts only while size and modification time are the same.

    A damaged or unwritable cache file is as good as none: digests are computed anew.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file or user_cache_folder() / "file-digests.json"

    def sha256(self, path: Path) -> str:
        """The digest of `path`, from the cache where it is still true."""
        path = path.resolve()
        status = path.stat()
        stamp = {"size": status.st_size, "mtime_ns": status.st_mtime_ns}
        known = self._read().get(str(path))
        if (
            isinstance(known, dict)
            and {k: known.get(k) for k in stamp} == stamp
            and isinstance(known.get("sha256"), str)
        ):
            return known["sha256"]
        digest = sha256_of(path)
        self._write({**self._read(), str(path): {**stamp, "sha256": digest}})
        return digest

    def _read(self) -> dict[str, Any]:
        try:
            entries = json.loads(self._file.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return entries if isinstance(entries, dict) else {}

    def _write(self, entries: dict[str, Any]) -> None:
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._file, json.dumps(entries, indent=1, sort_keys=True))


def write_atomically(path: Path, text: str) -> None:
    """Write beside the file, then rename: a reader sees the old text or the new, never half of it."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
