"""Asking a task's rows: what was read off the model is kept in full on this machine, and in brief in the repository."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from evidence_shards import EvidenceShards, Row, lighter

from demur.core.evidence import Captured, CaptureRequest, Evidence
from demur.core.record import content_hash
from demur.core.response import Response
from demur.integrations.models.huggingface.model import HuggingFaceModel
from demur.router.pipelines.asking import Asked

FULL = Path.home() / ".cache" / "demur" / "raw"
COMMITTED = Path(__file__).parent / "evidence"
ROWS_A_FILE = {True: 100, False: 300}
"""Fewer where answers are long, so that no file reaches 1 MB."""


class RawEvidence:
    """Generations of one model on one task under one capture request.

    Args:
        task: name of the task, by which the committed evidence is found without the model.
    """

    def __init__(self, task: str, model: HuggingFaceModel, capture: CaptureRequest) -> None:
        self.model = model
        self.capture = capture
        self.settings: dict[str, Any] = {
            "fingerprint": asdict(model.fingerprint()),
            "capture": asdict(capture),
            "extractor": model.answer_extractor,
        }
        key = content_hash(self.settings)[:16]
        self.full = EvidenceShards(FULL / key)
        self.brief = EvidenceShards(COMMITTED / f"{task}.{model.name}.{key}")

    def collect(
        self,
        asked: Sequence[tuple[str, Asked]],
        *,
        batch_size: int,
        progress: Callable[[int, int], None],
        seconds: float | None = None,
    ) -> None:
        """Ask what is missing, rows of like length together; stop once `seconds` have passed."""
        started = time.monotonic()
        known = self.full.known() | self.brief.known()
        waiting = sorted(
            (each for each in asked if each[0] not in known),
            key=lambda each: each[1].length + len(each[1].call.question),
        )
        # Spread over all lengths, so that a run that is cut off is still a fair sample.
        batches = [waiting[start : start + batch_size] for start in range(0, len(waiting), batch_size)]
        order = np.random.default_rng(0).permutation(len(batches))
        done = len(asked) - len(waiting)
        for number in order:
            if seconds is not None and time.monotonic() - started > seconds:
                break
            batch = batches[number]
            generations = self.model.generate_batch(
                [each.call for _, each in batch],
                documents=[each.documents for _, each in batch],
                capture=self.capture,
                batch_size=batch_size,
            )
            self.full.append(
                [
                    Row(key, generation.response, generation.captured or Captured())
                    for (key, _), generation in zip(batch, generations, strict=True)
                ]
            )
            done += len(batch)
            progress(done, len(asked))

    def pack(self, keys: Collection[str]) -> int:
        """Add what is new of these rows to the evidence that is committed; how many that was.

        Tasks that are asked alike share the folder on this machine.
        """
        wanted = set(keys) - self.brief.known()
        rows = [lighter(row) for row in self.full.load() if row.key in wanted]
        if not rows:
            return 0
        self.brief.folder.mkdir(parents=True, exist_ok=True)
        (self.brief.folder / "settings.json").write_text(json.dumps(self.settings, indent=1) + "\n", encoding="utf-8")
        lengths = [len(row.response.trace.logprobs) if row.response.trace else 0 for row in rows]
        count = ROWS_A_FILE[float(np.mean(lengths)) > 12]
        for start in range(0, len(rows), count):
            self.brief.append(rows[start : start + count])
        return len(rows)


def committed(task: str, model: str) -> EvidenceShards | None:
    """The committed evidence of a task and model, or None."""
    found = sorted(COMMITTED.glob(f"{task}.{model}.*/settings.json"))
    return EvidenceShards(found[0].parent) if found else None


def as_evidence(asked: Asked, response: Response, captured: Captured) -> Evidence:
    """What probes read."""
    return Evidence(call=asked.call, response=response, captured=captured, documents=asked.documents)
