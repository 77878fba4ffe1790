"""docs/results.md and its picture, from what was measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from figures import COMMAND
from results_file import read_results

RESULTS = Path(__file__).resolve().parents[1] / "results"
TABLES, CURVES = RESULTS / "confidence_tables.json", RESULTS / "confidence_learning_curves.json"
PRESSURE, CALIBRATION = RESULTS / "confidence_pressure.json", RESULTS / "calibration.json"
DOCS = Path(__file__).resolve().parents[2] / "docs"

NAMES = {
    "triviaqa_gemma": "TriviaQA, gemma-270m",
    "svamp_q05": "SVAMP, qwen-0.5b",
    "squad2_q05": "SQuAD 2, qwen-0.5b",
    "bfcl_q05": "BFCL simple + multiple, qwen-0.5b",
    "ste_q05": "STE tool calls, qwen-0.5b",
}
METHODS = {
    "fused": "**Demur, fused**",
    "single": "best single signal",
    "raw": "raw: exp of the sum of log-probabilities",
    "histogram": "histogram regression on raw",
    "kernel": "kernel regression on raw",
    "hallunox": "HalluNox tiers on raw",
    "mice_rf_bertscore": "MICE forest (BERTScore by MiniLM)",
    "mice_lr_bertscore": "MICE logistic (BERTScore by MiniLM)",
    "mice_rf_rapidfuzz": "MICE forest (rapidfuzz)",
    "mice_lr_rapidfuzz": "MICE logistic (rapidfuzz)",
}


def write_page(here: Path) -> Path:
    """Write docs/results.md."""
    told = json.loads(TABLES.read_text(encoding="utf-8"))
    lines = [
        "# Results: confidence from one generation",
        "",
        f"Written by `{COMMAND}`;",
        "do not edit by hand. Heads, calibrators and baselines are fitted, and the best single signal is",
        "chosen, on the fitting rows alone; figures come from the others. Intervals are 95 % bootstrap",
        "intervals over questions (near-duplicates together); figures stand in",
        "[confidence.json](../benchmarks/results/confidence.json), too.",
        "",
        "Two choices in the library were made after a look at random halves of these tasks' rows, and for",
        "SVAMP, SQuAD 2 and BFCL test rows were among them: which signals come first under 25 labels",
        "(`probes/tiers.py`), and that the answer's log-probability is penalised less (`probes/trusted.py`).",
        "Figures of these three tasks, and of pools with them, may flatter by that; rows that are still to be",
        "asked will tell. TriviaQA's test rows had no part in these choices.",
        "",
        "Hidden states enter as seeded 32-dimensional projections (that is what the repository holds), so that figures",
        "can be repeated without the models; `demur fit` itself reads whole vectors.",
        "",
        *_figures(),
        *_tasks(told["tasks"]),
        *_lenses(told["lenses"]),
        *_curves(),
        *_pressure(),
        *_calibration(),
    ]
    path = DOCS / "results.md"
    path.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    return path


def _figures() -> list[str]:
    rows = []
    for figure in read_results("confidence"):
        goal = figure.goal or "–"
        note = figure.reason or ""
        if figure.value is None:
            rows.append([f"`{figure.name}`", "not measured", "", str(figure.n), "", goal, note])
            continue
        interval = "" if figure.low is None else f"[{figure.low:.3f}, {figure.high:.3f}]"
        baseline = "" if figure.baseline is None else f"{figure.baseline:.3f}"
        rows.append([f"`{figure.name}`", f"{figure.value:.3f}", interval, str(figure.n), baseline, goal, note])
    return [
        "## The figures asked for",
        "",
        *_table(["figure", "value", "95 % interval", "n", "baseline", "goal", "note"], rows),
        "",
    ]


def _tasks(tasks: Sequence[dict[str, Any]]) -> list[str]:
    lines = ["## Each task", ""]
    for task in tasks:
        fused = task["methods"]["fused"]
        lines += [
            f"### {NAMES[task['task']]}",
            "",
            f"{task['fit']} rows to fit on ({task['accuracy_fit']:.0%} right) and {task['test']} to test on "
            f"({task['accuracy_test']:.0%} right); planned were {task['planned'][0]} and {task['planned'][1]}. "
            f"{task['signals']} scalar signals, {task['vectors']} vectors, fused by `{task['method']}`, calibrated by "
            f"`{task['calibrator']}`. An answer takes {task['tokens']:.0f} tokens and {task['seconds']:.1f} s on one "
            "core with everything read off.",
            "",
            f"The best single signal by cross-validation on the fitting rows is `{task['single']}` "
            f"(AUROC {task['single_cross_validated']:.3f} there).",
            "",
        ]
        rows = []
        for name, values in task["methods"].items():
            minus = values.get("fused_minus")
            rows.append(
                [
                    METHODS.get(name, name),
                    _estimate(values["auroc"]),
                    "" if minus is None else _estimate(minus, sign=True),
                    _value(values.get("brier")),
                    _value(values.get("smece")),
                    _value(values.get("bas_uniform")),
                    _value(values.get("etcu_auc")),
                    _value(values.get("selective_accuracy_at_50_coverage")),
                ]
            )
        header = [
            "method",
            "AUROC",
            "fused minus it",
            "Brier",
            "smECE",
            "BAS",
            "ETCU AUC",
            "accuracy of the surer half",
        ]
        lines += [*_table(header, rows), ""]
        assert fused["auroc"]["n"] == task["test"]
        alone = [[f"`{row['signal']}`", f"{row['fit']:.3f}", f"{row['test']:.3f}"] for row in task["signals_alone"]]
        lines += [
            "<details><summary>Signals alone, the best on the fitting rows first</summary>",
            "",
            *_table(["signal", "AUROC, fitting rows", "AUROC, test rows"], alone),
            "",
            "</details>",
            "",
        ]
    return lines


def _lenses(lenses: dict[str, Sequence[float]]) -> list[str]:
    rows = [
        [NAMES[name], f"{fast:.3f}", f"{exact:.3f}", f"{fast - exact:+.3f}"] for name, (fast, exact) in lenses.items()
    ]
    return [
        "## Fast lens and exact lens",
        "",
        "Two heads on the same rows, alike in all but the lens: 64 candidate tokens against the whole vocabulary.",
        "",
        *_table(["task", "AUROC, fast", "AUROC, exact", "difference"], rows),
        "",
    ]


def _curves() -> list[str]:
    if not CURVES.exists():
        return []
    curves = json.loads(CURVES.read_text(encoding="utf-8"))
    lines = ["## Learning curves", "", "Mean AUROC on the test rows over random subsets of the fitting rows.", ""]
    for name, points in curves.items():
        if not points:
            continue
        other = next(
            key for key in points[0] if key.startswith("mice") and "_fitted" not in key and key.count("_") == 2
        )
        rows = [
            [
                str(int(point["labels"])),
                str(int(point["subsets"])),
                *(_of_curve(point, key) for key in ("fused", "single", other)),
            ]
            for point in points
        ]
        header = ["labels", "subsets", "fused", "best single signal", METHODS.get(other, other)]
        lines += [f"**{NAMES[name]}**", "", *_table(header, rows), ""]
        picture = _picture(name, points, other)
        lines += [f"![AUROC over the number of labels]({picture})", ""]
    return lines


def _of_curve(point: dict[str, float], key: str) -> str:
    if not point[f"{key}_fitted"]:
        return "too few right rows"
    return f"{point[key]:.3f} ({point[f'{key}_low']:.3f} – {point[f'{key}_high']:.3f})"


def _picture(name: str, points: Sequence[dict[str, float]], other: str) -> str:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "demur"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3.6))
    for key, label, style in (
        ("fused", "Demur, fused", "-o"),
        ("single", "best single signal", "--s"),
        (other, "MICE forest", ":^"),
    ):
        known = [point for point in points if point[f"{key}_fitted"]]
        labels = [point["labels"] for point in known]
        axes.plot(labels, [point[key] for point in known], style, label=label, markersize=4)
        axes.fill_between(
            labels, [point[f"{key}_low"] for point in known], [point[f"{key}_high"] for point in known], alpha=0.15
        )
    axes.set_xscale("log")
    axes.set_xticks([point["labels"] for point in points], [str(int(point["labels"])) for point in points])
    axes.minorticks_off()
    axes.set_xlabel("graded rows to fit on")
    axes.set_ylabel("AUROC on the test rows")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", frameon=False)
    figure.tight_layout()
    path = DOCS / f"learning_curve_{name}.svg"
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return path.name


def _pressure() -> list[str]:
    if not PRESSURE.exists():
        return []
    told = json.loads(PRESSURE.read_text(encoding="utf-8"))
    rows = [
        [row["variant"], str(row["n"]), f"{row['accuracy']:.3f}", f"{row['confidence']:.3f}", _estimate(row["auroc"])]
        for row in told["rows"]
    ]
    return [
        "## Under pressure",
        "",
        told["told"],
        "",
        *_table(["variant", "n", "share right", "mean confidence", "AUROC"], rows),
        "",
    ]


def _calibration() -> list[str]:
    if not CALIBRATION.exists():
        return []
    found = {row["name"]: row for row in json.loads(CALIBRATION.read_text(encoding="utf-8"))}
    kinds = [name.removesuffix("_log_loss") for name in found if name.endswith("_log_loss")]
    rows = [
        [f"`{kind}`", *(_estimate(found[f"{kind}_{metric}"]) for metric in ("log_loss", "brier", "smece"))]
        for kind in kinds
    ]
    cases = {
        "shift_drawn_20": "20 % right, by drawing rows",
        "shift_drawn_40": "40 % right, by drawing rows",
        "shift_drawn_60": "60 % right, by drawing rows",
        "shift_arc_to_mmlu": "fitted on ARC, used on MMLU",
        "shift_mmlu_to_arc": "fitted on MMLU, used on ARC",
    }
    shifts = [
        [
            words,
            f"{found[f'{name}_rate_error']['value']:.3f}, at most {found[f'{name}_rate_error']['high']:.3f}",
            _estimate(found[f"{name}_brier_difference"], sign=True),
        ]
        for name, words in cases.items()
    ]
    return [
        "## Calibrators and base rates",
        "",
        "Llama3-8b, Mistral, gpt-3.5-turbo and gpt-4-turbo on ARC and MMLU (`records_*`), half to fit and half to",
        "test, equal-weight pools of the eight; by `python benchmarks/calibration.py --data DATA`.",
        "",
        *_table(["calibrator", "log loss", "Brier", "smECE"], rows),
        "",
        "Correcting the base rate by EM on unlabelled calls: right where only the shares of right and wrong answers",
        "moved, harmful where questions of another kind came.",
        "",
        *_table(["case", "error of the rate found", "Brier, corrected minus uncorrected"], shifts),
        "",
    ]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
        *("| " + " | ".join(row) + " |" for row in rows),
    ]


def _estimate(row: dict[str, Any], *, sign: bool = False) -> str:
    if row["value"] is None:
        return "–"
    shown = f"{row['value']:+.3f}" if sign else f"{row['value']:.3f}"
    return shown if row["low"] is None else f"{shown} [{row['low']:.3f}, {row['high']:.3f}]"


def _value(row: dict[str, Any] | None) -> str:
    return "" if row is None or row["value"] is None else f"{row['value']:.3f}"
