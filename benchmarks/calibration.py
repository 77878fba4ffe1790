"""Calibrators, and the correction of a base rate, on graded answers of real models.

    python benchmarks/calibration.py --data DIR

Four models of `records_arc_14models.jsonl` and `records_mmlu_14models.jsonl`, with the probability of the answer they
chose.
Half of each set is fitted on, half tested on. Writes results/calibration.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from results_file import Figure, write_results
from rich.console import Console
from rich.progress import track
from rich.table import Table

from demur.core.errors import DemurError
from demur.evaluation.estimate import Estimate
from demur.evaluation.metrics.pooled import PairedTask, ScoredTask, pooled, pooled_difference
from demur.probes.calibration.base import logit
from demur.probes.calibration.registry import CALIBRATORS, make_calibrator
from demur.probes.calibration.shift import PriorShift

MODELS = ("Llama3-8b", "Mistral", "gpt-3.5-turbo", "gpt-4-turbo")
SETS = ("arc", "mmlu")
METRICS = ("log_loss", "brier", "smece")
RATES = (0.2, 0.4, 0.6)
SEED = 7
COMMAND = "python benchmarks/calibration.py --data DATA"
console = Console()
Rows = tuple[np.ndarray, np.ndarray]


def read(data: Path) -> dict[str, Rows]:
    """Log-odds of the model's own probability, and grades, by "set model"."""
    found: dict[str, Rows] = {}
    for name in SETS:
        lines = (data / f"records_{name}_14models.jsonl").read_text(encoding="utf-8").splitlines()
        records = [json.loads(line)["meta"]["records"] for line in lines]
        for model in MODELS:
            kept = [r[model] for r in records if model in r and None not in r[model][:2]]
            scores = logit([row[1] for row in kept], 1e-3)
            found[f"{name} {model}"] = (scores, np.array([row[0] for row in kept], dtype=np.float64))
    return found


def halves(rows: Rows, seed: int = SEED) -> tuple[Rows, Rows]:
    order = np.random.default_rng(seed).permutation(rows[1].size)
    half = rows[1].size // 2
    first, second = np.sort(order[:half]), np.sort(order[half:])
    return (rows[0][first], rows[1][first]), (rows[0][second], rows[1][second])


def compared(sets: Mapping[str, Rows]) -> list[Figure]:
    """Every calibrator on every set, pooled at equal weight."""
    said: dict[str, dict[str, np.ndarray]] = {}
    tested: dict[str, np.ndarray] = {}
    for name, rows in track(sets.items(), "calibrators", console=console):
        fit, test = halves(rows)
        tested[name] = test[1]
        for kind in CALIBRATORS:
            said.setdefault(kind, {})[name] = make_calibrator(kind).fit(*fit).predict(test[0])
    figures = []
    table = Table("calibrator", *METRICS, *(f"{metric} minus raw" for metric in METRICS), title="equal-weight pools")
    for kind, by_set in said.items():
        cells = []
        for metric in METRICS:
            found = pooled({n: ScoredTask(p, tested[n]) for n, p in by_set.items()}, metric=metric, seed=SEED)
            cells.append(_shown(found))
            figures.append(_figure(f"{kind}_{metric}", found, metric, None))
        for metric in METRICS:
            pairs = {n: PairedTask(p, said["identity"][n], tested[n]) for n, p in by_set.items()}
            found = pooled_difference(pairs, metric=metric, seed=SEED)
            cells.append("" if kind == "identity" else _shown(found))
            if kind != "identity":
                figures.append(_figure(f"{kind}_{metric}_minus_raw", found, f"{metric} difference", None))
        table.add_row(kind, *cells)
    console.print(table)
    return figures


def shifted(sets: Mapping[str, Rows]) -> list[Figure]:
    """Base rates moved by drawing rows, and moved by nature: fitted on ARC, used on MMLU, and the other way round."""
    figures = []
    table = Table("case", "rate found − rate", "Brier corrected − uncorrected", title="base-rate shift by EM")
    cases: dict[str, dict[str, tuple[Rows, Rows]]] = {}
    for name, rows in sets.items():
        fit, test = halves(rows)
        for rate in RATES:
            cases.setdefault(f"drawn_{round(100 * rate):02d}", {})[name] = (fit, _at_rate(test, rate))
        kind, model = name.split(" ", 1)
        other = SETS[1 - SETS.index(kind)]
        cases.setdefault(f"{kind}_to_{other}", {})[model] = (fit, halves(sets[f"{other} {model}"])[1])
    for case, parts in track(cases.items(), "shift", console=console):
        errors, pairs = [], {}
        for name, (fit, test) in parts.items():
            plain = make_calibrator("platt").fit(*fit).predict(test[0])
            try:
                shift = PriorShift.fit(plain, float(fit[1].mean()), seed=SEED)
            except DemurError as error:
                console.print(f"{case} {name}: {error}")
                continue
            errors.append(shift.rate - float(test[1].mean()))
            pairs[name] = PairedTask(shift.correct(plain), plain, test[1])
        found = pooled_difference(pairs, metric="brier", seed=SEED)
        figures.append(_figure(f"shift_{case}_brier_difference", found, "Brier difference", None))
        worst = float(np.abs(errors).max())
        figures.append(
            Figure("confidence", f"shift_{case}_rate_error", float(np.mean(np.abs(errors))), None, worst, found.n,
                   "share of right answers", None, "", COMMAND, "high is the largest error of a set")
        )  # fmt: skip
        table.add_row(case, f"mean {np.mean(errors):+.3f}, largest {worst:.3f}", _shown(found))
    console.print(table)
    return figures


def _at_rate(rows: Rows, rate: float) -> Rows:
    """As many rows as go, so that this share is right."""
    draw = np.random.default_rng(SEED)
    right, wrong = np.flatnonzero(rows[1] == 1), np.flatnonzero(rows[1] == 0)
    count = int(min(right.size / rate, wrong.size / (1.0 - rate)))
    kept = np.concatenate(
        [draw.choice(right, round(count * rate), replace=False), draw.choice(wrong, count - round(count * rate), False)]
    )
    return rows[0][kept], rows[1][kept]


def _shown(found: Estimate) -> str:
    return "–" if found.value is None else f"{found.value:.4f} [{found.low:.4f}, {found.high:.4f}]"


def _figure(name: str, found: Estimate, unit: str, baseline: float | None) -> Figure:
    return Figure(
        "confidence", name, found.value, found.low, found.high, found.n, unit, baseline, "", COMMAND, found.reason
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    sets = read(parser.parse_args().data)
    for name, rows in sets.items():
        console.print(f"{name}: {rows[1].size} rows, {rows[1].mean():.3f} right")
    console.print(f"wrote {write_results('calibration', [*compared(sets), *shifted(sets)])}")


if __name__ == "__main__":
    main()
