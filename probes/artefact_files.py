"""An artefact's folder: a JSON manifest and one safetensors file, written whole or not at all. Nothing is unpickled."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ..core.errors import ArtefactMismatch, BadInput, StoreError
from ..core.files import read_named
from ..core.record import content_hash

FORMAT = "demur-artefact"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
TENSORS = "tensors.safetensors"
_LARGEST_MANIFEST = 256 * 1024 * 1024

Arrays = dict[str, NDArray[Any]]


def seal(body: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], bytes]:
    """The manifest, with the tensor file's SHA-256 and its own content hash as `id`, and the tensor file's bytes."""
    from safetensors.numpy import save

    blob = save({name: arrays[name] for name in sorted(arrays)})
    manifest = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "tensors": hashlib.sha256(blob).hexdigest(),
        **body,
    }
    return {**manifest, "id": content_hash(manifest)}, blob


def write_folder(folder: Path, manifest: dict[str, Any], blob: bytes, *, overwrite: bool) -> None:
    """Write beside `folder`, then rename.

    Raises:
        BadInput: the folder holds something, and `overwrite` is off or it is no artefact.
        StoreError: the disk did not take it; the old folder is as it was.
    """
    # Not resolve(): that would follow a link and replace what it points to.
    folder = Path(os.path.abspath(folder))
    check_target(folder, overwrite)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise StoreError(f"cannot write beside {folder}: {error}") from error
    try:
        _write(draft / TENSORS, blob)
        _write(draft / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True, allow_nan=False).encode("utf-8"))
        draft.chmod(0o755)
        _swap(draft, folder)
    except OSError as error:
        raise StoreError(f"cannot write the artefact to {folder}: {error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def read_folder(folder: Path) -> tuple[dict[str, Any], Arrays]:
    """Manifest and arrays.

    Raises:
        BadInput: files are missing or unreadable, or the format version is another.
        ArtefactMismatch: the tensor file is not the one the manifest names, or the manifest was changed.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    manifest = _read_manifest(folder / MANIFEST)
    try:
        blob = read_named(folder / TENSORS)
    except OSError as error:
        raise BadInput(f"{folder} has no readable {TENSORS}: {error}") from error
    found = hashlib.sha256(blob).hexdigest()
    if found != manifest.get("tensors"):
        raise ArtefactMismatch(
            f"{folder / TENSORS} has SHA-256 {found}, its manifest names {str(manifest.get('tensors'))[:64]}: the file "
            "was changed or belongs to another artefact. Copy the artefact again, or fit again"
        )
    try:
        arrays = load(blob)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{folder / TENSORS} is not a safetensors file: {error}") from error
    return manifest, {name: np.array(array) for name, array in arrays.items()}


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _LARGEST_MANIFEST:
            raise BadInput(f"{path} has {path.stat().st_size} bytes; that is no artefact's manifest")
        manifest = json.loads(read_named(path), parse_constant=_no_constant)
    except OSError as error:
        raise BadInput(f"{path.parent} is no artefact: {error}. `demur fit` makes one") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path} is not valid JSON: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise BadInput(f"{path} is not the manifest of a {FORMAT}")
    if manifest.get("version") != FORMAT_VERSION:
        raise BadInput(
            f"{path} has format version {manifest.get('version')!r}; this Demur reads {FORMAT_VERSION}. Fit again"
        )
    body = {key: value for key, value in manifest.items() if key != "id"}
    if content_hash(body) != manifest.get("id"):
        raise ArtefactMismatch(
            f"{path} was changed after it was written: its content hashes to {content_hash(body)}, it says "
            f"{str(manifest.get('id'))[:64]}. Copy the artefact again, or fit again"
        )
    return manifest


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not allowed")


def check_target(folder: Path, overwrite: bool) -> None:
    """Refuse a folder that must not be written to, before hours go into what would be written.

    Raises:
        BadInput: the folder holds something, and `overwrite` is off or it is no artefact.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise BadInput(f"{folder} is a file or a link; name a folder for the artefact")
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not overwrite:
        raise BadInput(f"{folder} is not empty; name another folder, or allow overwriting")
    strangers = sorted(entry.name for entry in folder.iterdir() if entry.name not in (MANIFEST, TENSORS))
    if strangers:
        raise BadInput(f"{folder} holds {strangers[:5]} beside an artefact; it is not overwritten")


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _swap(draft: Path, folder: Path) -> None:
    if not folder.exists():
        draft.rename(folder)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=folder.parent))
    folder.rename(old / "artefact")
    try:
        draft.rename(folder)
    except OSError:
        (old / "artefact").rename(folder)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)
