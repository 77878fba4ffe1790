"""`benchmarks/results/NAME.json`: figures under the names and goals that the issue gives."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Figure:
    """One measured figure. `value` None: it could not be measured, and `reason` says why."""

    issue: str
    name: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    unit: str
    baseline: float | None
    goal: str
    command: str
    reason: str | None = None


def write_results(name: str, figures: list[Figure]) -> Path:
    """Write the file whole."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    rows = [{key: value for key, value in asdict(f).items() if key != "reason" or value} for f in figures]
    path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return path


def read_results(name: str) -> list[Figure]:
    """The figures as they were written."""
    return [Figure(**row) for row in json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))]
