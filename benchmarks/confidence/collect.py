"""Ask the models: `python benchmarks/confidence/collect.py --data DIR [--task NAME] [--model NAME] [--limit N]`.

`--pack` adds what was collected to the evidence that is committed."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from raw_evidence import RawEvidence
from tasks import TASKS, Task, all_rows, capture_for

from demur.router.pipelines.asking import asked_of


def collect(
    task: Task, data: Path, *, model: str | None, limit: int | None, test_only: bool, minutes: float | None
) -> None:
    rows = all_rows(task, data)
    if test_only:
        rows = rows[task.fit :]
    asked = asked_of(rows, task.read_passages(data))
    loaded = task.load_model(model)
    raw = RawEvidence(task.name, loaded, capture_for(loaded))
    pairs = list(zip([row.id for row in rows], asked, strict=True))[:limit]
    started = time.monotonic()
    before = len((raw.full.known() | raw.brief.known()) & {key for key, _ in pairs})

    def told(done: int, total: int) -> None:
        spent = time.monotonic() - started
        speed = (done - before) / max(spent, 1e-9)
        print(f"{task.name} {loaded.name}: {done} of {total}, {speed:.2f} rows/s, {spent:.0f} s", flush=True)

    raw.collect(pairs, batch_size=task.batch_size, progress=told, seconds=minutes and 60.0 * minutes)


def pack(task: Task, data: Path, model: str | None) -> None:
    loaded = task.load_model(model)
    raw = RawEvidence(task.name, loaded, capture_for(loaded))
    print(f"{task.name} {loaded.name}: {raw.pack([row.id for row in all_rows(task, data)])} rows added")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--task", choices=[*TASKS], action="append")
    parser.add_argument("--model")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--minutes", type=float, help="stop each task after so long; a later run goes on")
    parser.add_argument("--test-only", action="store_true")
    parser.add_argument("--pack", action="store_true")
    args = parser.parse_args()
    for name in args.task or TASKS:
        if args.pack:
            pack(TASKS[name], args.data, args.model)
            continue
        collect(
            TASKS[name], args.data, model=args.model, limit=args.limit, test_only=args.test_only, minutes=args.minutes
        )
