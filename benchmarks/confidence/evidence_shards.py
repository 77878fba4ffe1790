"""Generations and all that was read off the model beside them, in shards of JSON and numpy arrays.

A shard is written whole; a run that is cut off goes on where it stopped. `lighter` makes of a row what is committed.
"""

from __future__ import annotations

import gzip
import json
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from demur.core.evidence import Captured, LensTrace
from demur.core.response import Response, TokenTrace

KINDS = ("agreement", "logprob", "entropy", "kl", "log_rank")
LENSES = ("lens", "fast_lens", "prompt_lens")


@dataclass(frozen=True)
class Row:
    """One generation; `key` is the id of the row that was asked."""

    key: str
    response: Response
    captured: Captured


class EvidenceShards:
    """The shards of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def known(self) -> set[str]:
        """Keys that are there."""
        return {line["key"] for path in self._paths() for line in _lines(path)}

    def append(self, rows: Sequence[Row]) -> None:
        """Write one shard of rows that were captured alike."""
        self.folder.mkdir(parents=True, exist_ok=True)
        blocks: dict[str, list[np.ndarray]] = {}
        lines = []
        for row in rows:
            captured = row.captured
            line: dict[str, Any] = {"key": row.key, "response": row.response.model_dump(mode="json"), "lens": {}}
            for name in LENSES:
                lens: LensTrace | None = getattr(captured, name)
                if lens is None:
                    continue
                values = np.stack([getattr(lens, kind) for kind in KINDS])
                told = {"layers": lens.layers, "said": lens.said, "candidates": lens.candidates}
                line["lens"][name] = {**told, "tokens": values.shape[2]}
                blocks.setdefault(name, []).append(values)
            line["vectors"] = sorted(captured.hidden)
            if captured.hidden:
                blocks.setdefault("vectors", []).append(
                    np.concatenate([captured.hidden[name] for name in line["vectors"]])
                )
            if captured.question_logprobs is not None:
                line["question"] = captured.question_logprobs.size
                blocks.setdefault("question", []).append(captured.question_logprobs)
            line |= {
                name: getattr(captured, name) for name in ("prompt_entropy", "prompt_top_logprob", "prompt_tokens")
            }
            lines.append(json.dumps(line, ensure_ascii=False))
        # One array a kind: thousands of small ones take more room for their heads than for their values.
        arrays = {name: np.concatenate(parts, axis=-1).astype(np.float16) for name, parts in blocks.items()}
        name = uuid.uuid4().hex[:12]
        np.savez_compressed(self.folder / f"{name}.npz", allow_pickle=False, **arrays)
        draft = self.folder / f".{name}.draft"
        draft.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
        os.replace(draft, self.folder / f"{name}.jsonl.gz")

    def load(self) -> Iterator[Row]:
        """Everything that is there."""
        for path in self._paths():
            with np.load(path.with_name(path.name.replace(".jsonl.gz", ".npz")), allow_pickle=False) as arrays:
                held = {name: arrays[name].astype(np.float32) for name in arrays.files}
            places = dict.fromkeys(held, 0)

            def take(name: str, count: int, held: Any = held, places: Any = places) -> np.ndarray:
                places[name] += count
                return held[name][..., places[name] - count : places[name]]

            lines = _lines(path)
            widths = sum(len(line["vectors"]) for line in lines)
            width = held["vectors"].size // widths if widths else 0
            for line in lines:
                lenses = {
                    name: LensTrace(
                        tuple(told["layers"]),
                        *take(name, told["tokens"]),
                        said=tuple(told["said"]),
                        candidates=told["candidates"],
                    )
                    for name, told in line["lens"].items()
                }
                captured = Captured(
                    hidden={name: take("vectors", width) for name in line["vectors"]},
                    **lenses,
                    question_logprobs=take("question", line["question"]) if "question" in line else None,
                    prompt_entropy=line["prompt_entropy"],
                    prompt_top_logprob=line["prompt_top_logprob"],
                    prompt_tokens=line["prompt_tokens"],
                )
                yield Row(line["key"], Response.model_validate(line["response"]), captured)

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("*.jsonl.gz"))


def lighter(row: Row) -> Row:
    """The row as it is committed: vectors of the upper half projected, log-probabilities to four places."""
    from evidence import project

    lens = row.captured.lens
    half = lens.layers[-1] // 2 if lens is not None else 0
    captured = replace(
        row.captured,
        hidden={
            name: project(name, vector)
            for name, vector in row.captured.hidden.items()
            if int(name.rpartition(".L")[2]) >= half
        },
    )
    trace = row.response.trace
    if trace is None:
        return replace(row, captured=captured)
    response = row.response.model_copy(update={"trace": _rounded(trace)})
    return replace(row, response=response, captured=captured)


def _rounded(trace: TokenTrace) -> TokenTrace:
    def short(values: Sequence[float | None]) -> tuple[float | None, ...]:
        return tuple(None if value is None else round(value, 4) for value in values)

    top = tuple(
        tuple(each.model_copy(update={"logprob": short([each.logprob])[0]}) for each in place) for place in trace.top
    )
    return trace.model_copy(
        update={
            "top": top,
            "logprobs": short(trace.logprobs),
            "entropy": short(trace.entropy),
            "uniform_kl": short(trace.uniform_kl),
        }
    )


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
