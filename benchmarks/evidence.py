"""Committed evidence of benchmark runs: generations, scalar signals, and hidden states as a seeded 32-d projection.

Small enough for the repository (each file < 1 MB) and keyed like the full cache, so that anybody repeats a benchmark's
figures without the model, and a run that was cut off goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from demur.core.evidence import CaptureRequest
from demur.core.protocols import Model
from demur.router.pipelines.collect import Collector, Progress
from demur.router.pipelines.evidence_cache import CollectedRow, EvidenceCache
from demur.router.pipelines.rows import QuestionRow
from demur.router.probe_set import probes_for

COMMITTED = Path(__file__).parent / "evidence"
WIDTH = 32
ROWS_A_FILE = 500


def projected(row: CollectedRow) -> CollectedRow:
    """The row with its vectors at unit root mean square, projected to 32 dimensions (Gaussian, seeded by name)."""
    hidden = {name: project(name, vector) for name, vector in row.hidden.items()}
    return replace(row, hidden=hidden)


def project(name: str, vector: np.ndarray) -> np.ndarray:
    """(width,) at unit root mean square, projected to (32,)."""
    scale = float(np.sqrt(np.mean(np.square(vector, dtype=np.float64)))) or 1.0
    return ((vector / scale) @ _projection(name, vector.size)).astype(np.float32)


_projections: dict[tuple[str, int], np.ndarray] = {}


def _projection(name: str, width: int) -> np.ndarray:
    key = (name, width)
    if key not in _projections:
        seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
        _projections[key] = np.random.default_rng(seed).normal(size=(width, WIDTH)) / np.sqrt(WIDTH)
    return _projections[key]


def evidence_for(
    name: str,
    rows: Sequence[QuestionRow],
    load_model: Callable[[], Model],
    capture_for: Callable[[Model], CaptureRequest],
    full_cache: Path,
    *,
    progress: Progress,
) -> list[CollectedRow]:
    """Projected evidence for the rows: committed where it is, otherwise collected (which loads the model) and added.

    Args:
        name: of the model, as in the fingerprint that was committed with the evidence.
    """
    store = _committed(name)
    known = store.load() if store is not None else {}
    missing = [row for row in rows if row.id not in known or known[row.id].question != row.question]
    if missing:
        model = load_model()
        capture = capture_for(model)
        probes = probes_for(model, capture)
        collector = Collector(model, probes, capture, full_cache)
        store = EvidenceCache(COMMITTED, {**collector.settings, "projection": WIDTH}, float16=True)
        known = store.load()
        missing = [row for row in rows if row.id not in known]
        collected = [projected(row) for row in collector.collect(missing, progress=progress)]
        for begin in range(0, len(collected), ROWS_A_FILE):
            store.append(collected[begin : begin + ROWS_A_FILE])
        known = store.load()
    return [known[row.id] for row in rows]


def _committed(name: str) -> EvidenceCache | None:
    """The committed evidence of a model; its settings (fingerprint, prompt, captures) stand beside it, hashed."""
    for path in sorted(COMMITTED.glob("*/settings.json")):
        settings = json.loads(path.read_text(encoding="utf-8"))
        if settings["fingerprint"]["name"] == name and settings["arm"] == "answer":
            return EvidenceCache(COMMITTED, settings, float16=True)
    return None
