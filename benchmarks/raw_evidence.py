"""All that was read off a model, kept locally: signals are worked out from it again and again without asking anew.

Shards of JSON and numpy arrays in half precision, a batch each, written whole; a run that is cut off goes on where it
stopped. What is committed is far smaller: see `evidence.py`.
"""

from __future__ import annotations

import gzip
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from demur.core.evidence import Captured, CaptureRequest, Evidence, LensTrace
from demur.core.protocols import Generation
from demur.core.record import content_hash
from demur.core.response import Response
from demur.integrations.models.huggingface.model import HuggingFaceModel
from demur.router.pipelines.asking import Asked

KINDS = ("agreement", "logprob", "entropy", "kl", "log_rank")
LENSES = ("lens", "fast_lens", "prompt_lens")


class RawEvidence:
    """Generations of one model under one capture request.

    Args:
        folder: of all raw evidence.
    """

    def __init__(self, folder: Path, model: HuggingFaceModel, capture: CaptureRequest) -> None:
        self.model = model
        self.capture = capture
        self.settings = {
            "fingerprint": asdict(model.fingerprint()),
            "capture": asdict(capture),
            "extractor": model.answer_extractor,
        }
        self.folder = folder / content_hash(self.settings)[:16]
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "settings.json").write_text(json.dumps(self.settings), encoding="utf-8")

    def known(self) -> set[str]:
        """Keys that were collected."""
        return {line["key"] for path in self._shards() for line in _lines(path)}

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
        known = self.known()
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
            self._append([key for key, _ in batch], generations)
            done += len(batch)
            progress(done, len(asked))

    def _shards(self) -> list[Path]:
        return sorted(self.folder.glob("*.jsonl.gz"))

    def _append(self, keys: Sequence[str], generations: Sequence[Generation]) -> None:
        arrays: dict[str, np.ndarray] = {}
        lines = []
        for number, (key, generation) in enumerate(zip(keys, generations, strict=True)):
            captured = generation.captured or Captured()
            line: dict[str, Any] = {"key": key, "response": generation.response.model_dump(mode="json"), "lens": {}}
            for name in LENSES:
                lens: LensTrace | None = getattr(captured, name)
                if lens is None:
                    continue
                line["lens"][name] = {"layers": lens.layers, "said": lens.said, "candidates": lens.candidates}
                arrays[f"{number}|{name}"] = np.stack([getattr(lens, kind) for kind in KINDS])
            for name, vector in captured.hidden.items():
                arrays[f"{number}|h|{name}"] = vector.astype(np.float16)
            if captured.question_logprobs is not None:
                arrays[f"{number}|q"] = captured.question_logprobs
            line |= {
                name: getattr(captured, name) for name in ("prompt_entropy", "prompt_top_logprob", "prompt_tokens")
            }
            lines.append(json.dumps(line))
        name = uuid.uuid4().hex[:12]
        np.savez_compressed(self.folder / f"{name}.npz", allow_pickle=False, **arrays)
        draft = self.folder / f".{name}.draft"
        draft.write_bytes(gzip.compress("\n".join(lines).encode()))
        os.replace(draft, self.folder / f"{name}.jsonl.gz")

    def load(self) -> Iterator[tuple[str, Response, Captured]]:
        """Everything collected: key, response, captures."""
        for path in self._shards():
            with np.load(path.with_name(path.name.replace(".jsonl.gz", ".npz")), allow_pickle=False) as arrays:
                held = {name: arrays[name] for name in arrays.files}
            for number, line in enumerate(_lines(path)):
                lenses = {}
                for name, told in line["lens"].items():
                    parts = held[f"{number}|{name}"]
                    lenses[name] = LensTrace(
                        tuple(told["layers"]), *parts, said=tuple(told["said"]), candidates=told["candidates"]
                    )
                start = f"{number}|h|"
                hidden = {
                    name[len(start) :]: block.astype(np.float32)
                    for name, block in held.items()
                    if name.startswith(start)
                }
                yield (
                    line["key"],
                    Response.model_validate(line["response"]),
                    Captured(
                        hidden=hidden,
                        **lenses,
                        question_logprobs=held.get(f"{number}|q"),
                        prompt_entropy=line["prompt_entropy"],
                        prompt_top_logprob=line["prompt_top_logprob"],
                        prompt_tokens=line["prompt_tokens"],
                    ),
                )


def as_evidence(asked: Asked, response: Response, captured: Captured) -> Evidence:
    """What probes read."""
    return Evidence(call=asked.call, response=response, captured=captured, documents=asked.documents)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
