"""The main job on real input: gemma-270m on TriviaQA, fitted on 1,000 rows and tested on 1,000 others.

    python benchmarks/main.py --data DIR

DIR holds triviaqa.jsonl. The evidence is committed; where it lacks a row the model is run (0.6 s a row on two cores).
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

import numpy as np
from evidence import evidence_for
from import_time import import_ratio
from results_file import Figure, write_results
from rich.console import Console
from rich.table import Table

from demur.core.decision import Stage
from demur.evaluation.evaluate import evaluate
from demur.evaluation.graders.registry import get_grader
from demur.evaluation.metrics.paired import paired_difference
from demur.evaluation.near_duplicates import question_groups
from demur.integrations.demo.model import small_model
from demur.integrations.models.store import find_model
from demur.probes.fit_head import fit_head
from demur.router.pipelines.collect import full_capture
from demur.router.pipelines.grade import grade_rows
from demur.router.pipelines.rows import QuestionRow, read_rows
from demur.router.pipelines.table import GradedTable, collected_table

SEED, FIT, TEST = 7, 1000, 1000
COMMAND = "python benchmarks/main.py --data DATA"
console = Console()


def draw(rows: list[QuestionRow]) -> tuple[list[QuestionRow], list[QuestionRow]]:
    """1,000 rows to fit on and 1,000 others, none of which nearly repeats a fitted one."""
    ordered = sorted(rows, key=lambda row: row.id)
    random.Random(SEED).shuffle(ordered)
    groups = question_groups([row.question for row in ordered])
    fitted = set(groups[:FIT].tolist())
    others = [row for row, group in zip(ordered[FIT:], groups[FIT:], strict=True) if int(group) not in fitted]
    return ordered[:FIT], others[:TEST]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "demur" / "evidence")
    args = parser.parse_args()
    fit_rows, test_rows = draw(read_rows(args.data / "triviaqa.jsonl"))
    rows = [*fit_rows, *test_rows]
    collected = evidence_for(
        "gemma-270m",
        rows,
        lambda: small_model(find_model("gemma-270m")),
        full_capture,
        args.cache,
        progress=lambda done, total: console.print(f"collected {done} of {total}"),
    )
    graded = collected_table(collected, grade_rows(rows, collected, get_grader("alias")))
    fitted, tested = part(graded, slice(0, FIT)), part(graded, slice(FIT, None))
    head = fit_head(fitted.table, fitted.correct, fitted.groups, arm="answer", stage=Stage.AFTER, seed=SEED)
    prediction = head.predict_table(tested.table)
    usable = prediction.available
    right, groups = tested.correct[usable], tested.groups[usable]
    fused = prediction.probability[usable]
    mean_logprob = tested.table.columns(["token.mean_logprob"])[usable, 0]
    base_rate = float(fitted.correct.mean())

    console.print(
        f"gemma-270m on TriviaQA: fitted on {len(fitted)} rows ({fitted.right} right), tested on {len(tested)} others "
        f"({tested.right} right), {int((~usable).sum())} without a confidence; tier {head.tier}; notes {head.notes}"
    )
    auroc = paired_difference(fused, mean_logprob, right, metric="auroc", groups=groups, seed=SEED)
    measured = evaluate(fused, right, groups=groups, seed=SEED, base_rate=base_rate)
    alone = evaluate_raw(mean_logprob, right)
    brier = measured["brier_minus_base_rate"]
    imports = import_ratio("import demur", "import pydantic, sqlalchemy")
    router = import_ratio("from demur import Router", "import pydantic, sqlalchemy", rounds=7)
    n = int(usable.sum())
    figures = [
        Figure(
            "main", "triviaqa_gemma_fused_minus_mean_logprob_auroc", auroc.value, auroc.low, auroc.high, n,
            "AUROC difference", alone, "-.01 on low", COMMAND,
        ),
        Figure(
            "main", "triviaqa_gemma_brier_minus_base_rate", brier.value, brier.low, brier.high, n,
            "Brier difference", measured["brier_base_rate"].value, "0 on high, lower", COMMAND,
        ),
        Figure("main", "import_ratio", *imports, "ratio", 1.0, "2.5, lower", COMMAND),
    ]  # fmt: skip
    show(figures, measured, router)
    console.print(f"written: {write_results('main', figures)}")


def part(graded: GradedTable, rows: slice) -> GradedTable:
    """Some of the rows."""
    chosen = np.arange(len(graded))[rows]
    return GradedTable(
        graded.ids[rows],
        graded.responses[rows],
        graded.table.take(chosen),
        graded.correct[chosen],
        graded.groups[chosen],
        graded.data,
    )


def evaluate_raw(scores: np.ndarray, right: np.ndarray) -> float:
    """AUROC of a raw score."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(right, scores))


def show(figures: list[Figure], measured: dict, router: tuple[float, float, float, int]) -> None:
    """Tables: the figures with their goals, then everything else that was measured."""
    table = Table("figure", "value", "95 % interval", "n", "baseline", "goal")
    for figure in figures:
        table.add_row(
            figure.name, f"{figure.value:.4f}", f"[{figure.low:.4f}, {figure.high:.4f}]", str(figure.n),
            f"{figure.baseline:.4f}", figure.goal,
        )  # fmt: skip
    console.print(table)
    rest = Table("metric of the fused confidence", "value", "95 % interval", "n")
    for name, estimate in measured.items():
        cells = ["–" if x is None else f"{x:.4f}" for x in (estimate.value, estimate.low, estimate.high)]
        rest.add_row(name, cells[0], f"[{cells[1]}, {cells[2]}]", str(estimate.n))
    console.print(rest)
    console.print(f"beside it: `from demur import Router` costs {router[0]:.2f} of the same baseline")


if __name__ == "__main__":
    sys.exit(main())
