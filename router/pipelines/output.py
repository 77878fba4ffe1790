"""Results on disk: strict JSON, every file whole or as it was."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...core.errors import BadInput, StoreError

SCORES = "scores.jsonl"
METRICS = "metrics.json"
REPORT = "report.html"

# Allowed inside JSON strings, but many readers take them for the end of a line.
_LINE_ENDS = {ord(character): f"\\u{ord(character):04x}" for character in "\u0085\u2028\u2029"}


def json_line(value: Any) -> str:
    """One line of JSON, readable and valid UTF-8 whatever the text.

    Raises:
        ValueError: NaN or an infinity.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False).translate(_LINE_ENDS)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(value, allow_nan=False)
    return text


def check_out(folder: Path) -> None:
    """Refuse a place that results cannot go to, before hours go into them.

    Raises:
        BadInput: it is a file, or holds an artefact.
    """
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file; name a folder for the results")
    if (folder / "manifest.json").exists():
        raise BadInput(f"{folder} holds an artefact; name another folder for the results")


def write_results(folder: Path, scores: Sequence[Mapping[str, Any]], metrics: Mapping[str, Any]) -> None:
    """Write `scores.jsonl` and `metrics.json`; older ones are replaced, nothing else in the folder is touched but an
    older `report.html`, which is removed: it tells of other figures.

    Raises:
        BadInput: see `check_out`.
        StoreError: the disk did not take it; older results are as they were.
    """
    check_out(folder)
    lines = "".join(json_line(score) + "\n" for score in scores)
    _write(folder, {SCORES: lines, METRICS: json.dumps(metrics, indent=1, allow_nan=False) + "\n"}, stale=REPORT)


def write_report(folder: Path, page: str) -> None:
    """Write `report.html` beside the results; they come first, so that no fault of a picture can lose them.

    Raises:
        BadInput: see `check_out`.
        StoreError: the disk did not take it.
    """
    check_out(folder)
    _write(folder, {REPORT: page})


def _write(folder: Path, files: Mapping[str, str], *, stale: str | None = None) -> None:
    drafts: dict[Path, Path] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            handle, draft = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
            drafts[folder / name] = Path(draft)
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(draft).chmod(0o644)
        if stale is not None:
            (folder / stale).unlink(missing_ok=True)
        for target, draft in drafts.items():
            os.replace(draft, target)
    except OSError as error:
        raise StoreError(f"the results cannot be written to {folder}: {error}. Make room and run again") from error
    finally:
        for draft in drafts.values():
            with suppress(OSError):
                draft.unlink(missing_ok=True)
