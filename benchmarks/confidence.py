"""Confidence that one generation allows, against every baseline: writes results/confidence.json and docs/results.md.

    python benchmarks/confidence.py --data DIR

Answers and everything that was read off the models are committed (`confidence/evidence/`, vectors as seeded
32-dimensional projections), so no model is run; `confidence/collect.py` asks what is missing. About 20 minutes of
arithmetic on one core.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "confidence"))

from figures import COMMAND, FEWEST, MICE, TASK_NAMES, of_lenses, of_pools, of_task  # noqa: E402
from learning_curve import learning_curve  # noqa: E402
from results_file import write_results  # noqa: E402
from results_page import CURVES, TABLES, write_page  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402
from scored import Scored, score  # noqa: E402
from tables import task_table  # noqa: E402
from task_report import report_of  # noqa: E402
from tasks import TASKS  # noqa: E402

from demur.core.errors import NotEnoughLabels  # noqa: E402

console = Console()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--page-only", action="store_true", help="write docs/results.md again from what was measured")
    args = parser.parse_args()
    if not args.page_only:
        measure_all(args.data)
    console.print(f"wrote {write_page(HERE)}")


def measure_all(data: Path) -> None:
    scored: dict[str, Scored] = {}
    figures, tables = [], []
    for name in TASK_NAMES:
        task = TASKS[name]
        whole = task_table(task, data)
        fit, test = (0, 0) if whole is None else (int(whole.fit.sum()), int((~whole.fit).sum()))
        told = f"{fit} rows to fit on and {test} to test on were collected"
        console.print(f"{name}: {told} (planned {task.fit} and {task.test})")
        if whole is None or min(fit, test) < FEWEST:
            figures += of_task(name, f"{told}; {FEWEST} of each are needed")
            continue
        try:
            scored[name] = score(whole)
        except NotEnoughLabels as error:
            console.print(f"{name}: {error}")
            figures += of_task(name, f"{told}, of which {error}")
            continue
        figures += of_task(name, scored[name])
        tables.append(report_of(task, whole, scored[name], planned=(task.fit, task.test)))
    figures += of_pools(scored)
    lenses, per_task = of_lenses(scored)
    figures.append(lenses)
    (HERE / "results" / "confidence_tables.json").write_text(
        json.dumps({"tasks": tables, "lenses": per_task}, indent=1) + "\n", encoding="utf-8"
    )
    assert TABLES.name == "confidence_tables.json"
    show(write_results("confidence", figures), figures)
    curves = {
        name: learning_curve(scored[name], MICE, progress=console.print)
        for name in ("triviaqa_gemma",)
        if name in scored
    }
    CURVES.write_text(json.dumps(curves, indent=1) + "\n", encoding="utf-8")


def show(path: Path, figures: list) -> None:
    table = Table("figure", "value", "95 % interval", "n", "baseline", "goal", title=COMMAND)
    for figure in figures:
        row = asdict(figure)
        cells = ["–" if row[key] is None else f"{row[key]:.4f}" for key in ("value", "low", "high", "baseline")]
        table.add_row(figure.name, cells[0], f"[{cells[1]}, {cells[2]}]", str(figure.n), cells[3], figure.goal)
    console.print(table)
    console.print(f"wrote {path}")


if __name__ == "__main__":
    main()
