"""Calibrators, the correction of a base rate, and pooling over tools, on graded answers of real models.

    python benchmarks/calibration.py --data DIR

Four models of `records_arc_14models.jsonl` and `records_mmlu_14models.jsonl`, with the probability of the answer they
chose; samples of one model on TriviaQA; stated chances of frontier models; tool calls of STE. Half of the questions of
each is fitted on, half tested on. Intervals draw questions, not answers. Writes results/calibration.json.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from calibration_records import (
    CHOICES,
    FORECASTS,
    MODELS,
    SAMPLES,
    Answers,
    choice_answers,
    forecast_answers,
    sample_answers,
    tool_calls,
)
from results_file import Figure, write_results
from rich.console import Console
from rich.progress import track
from rich.table import Table

from demur.core.errors import DemurError
from demur.evaluation.estimate import Estimate
from demur.evaluation.inputs import Floats
from demur.evaluation.metrics.bootstrap import Statistic, estimate
from demur.evaluation.metrics.metric import Metric
from demur.evaluation.metrics.paired import paired_difference
from demur.evaluation.metrics.registry import metric_of
from demur.probes.calibration.base import logit, sigmoid
from demur.probes.calibration.registry import CALIBRATORS, make_calibrator
from demur.probes.calibration.shift import PriorShift
from demur.probes.pooling import PartialPooling

METRICS = ("log_loss", "brier", "smece")
RATES = (0.2, 0.4, 0.6)
SEED = 7
COMMAND = "python benchmarks/calibration.py --data DATA"
console = Console(width=None if sys.stdout.isatty() else 170)


def mean_over(metric: str, sizes: Sequence[int]) -> Metric:
    """The mean of a metric over parts of these sizes that stand one behind another: each counts the same."""
    found = metric_of(metric)
    ends = np.cumsum(sizes)
    parts = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]

    def build(scores: Floats, labels: Floats) -> Statistic:
        each = [(part, found.build(scores[part], labels[part])) for part in parts]
        return lambda weights: np.mean([of(weights[:, part]) for part, of in each], axis=0)

    return replace(found, build=build)


def compared(title: str, suffix: str, sets: Mapping[str, Answers]) -> list[Figure]:
    """Every calibrator, fitted on each set by itself; means over the sets."""
    halves = [each.halves(SEED) for each in sets.values()]
    sizes = [test.correct.size for _, test in halves]
    correct = np.concatenate([test.correct for _, test in halves])
    questions = np.concatenate([test.questions for _, test in halves])
    said = {kind: np.concatenate([_said(kind, fit, test) for fit, test in halves]) for kind in CALIBRATORS}
    figures = []
    told = f"{title}: {correct.size} answers to {np.unique(questions).size} questions, {correct.mean():.3f} right"
    table = Table("calibrator", *METRICS, *(f"{metric} minus raw" for metric in METRICS), title=told)
    for kind, p in track(said.items(), title, console=console):
        cells = []
        for name in METRICS:
            metric = mean_over(name, sizes)
            measured = metric.measured(p, correct)
            found = estimate(
                name,
                measured.statistic,
                correct.size,
                undefined=measured.undefined,
                groups=questions,
                seed=SEED,
                method=measured.method,
                bounds=measured.bounds,
            )
            cells.append(_shown(found))
            figures.append(_figure(f"{kind}_{name}{suffix}", found, name))
        for name in METRICS:
            if kind == "identity":
                cells.append("")
                continue
            metric = mean_over(name, sizes)
            found = paired_difference(p, said["identity"], correct, metric=metric, groups=questions, seed=SEED)
            cells.append(_shown(found))
            figures.append(_figure(f"{kind}_{name}_minus_raw{suffix}", found, f"{name} difference"))
        table.add_row(kind, *cells)
    console.print(table)
    return figures


def shifted(sets: Mapping[str, Answers]) -> list[Figure]:
    """Base rates moved by drawing rows, and moved by nature: fitted on ARC, used on MMLU, and the other way round."""
    cases: dict[str, dict[str, tuple[Answers, Answers]]] = {}
    for name, answers in sets.items():
        fit, test = answers.halves(SEED)
        for rate in RATES:
            cases.setdefault(f"drawn_{round(100 * rate):02d}", {})[name] = (fit, _at_rate(test, rate))
        kind, model = name.split(" ", 1)
        other = CHOICES[1 - CHOICES.index(kind)]
        cases.setdefault(f"{kind}_to_{other}", {})[model] = (fit, sets[f"{other} {model}"].halves(SEED)[1])
    figures = []
    columns = ("case", "n", "sets", "error of the rate", "in its interval", "Brier corrected − uncorrected")
    table = Table(*columns, title="base-rate shift by EM")
    for case, parts in track(cases.items(), "shift", console=console):
        errors, held, plain, corrected, tests = [], 0, [], [], []
        for name, (fit, test) in parts.items():
            p = _said("platt", fit, test)
            try:
                shift = PriorShift.fit(p, float(fit.correct.mean()), seed=SEED)
            except DemurError as error:
                console.print(f"{case} {name}: {error}")
                continue
            errors.append(shift.rate - float(test.correct.mean()))
            held += shift.low <= float(test.correct.mean()) <= shift.high
            plain.append(p)
            corrected.append(shift.correct(p))
            tests.append(test)
        metric = mean_over("brier", [test.correct.size for test in tests])
        found = paired_difference(
            np.concatenate(corrected),
            np.concatenate(plain),
            np.concatenate([test.correct for test in tests]),
            metric=metric,
            groups=np.concatenate([test.questions for test in tests]),
            seed=SEED,
        )
        mean, worst = float(np.mean(np.abs(errors))), float(np.abs(errors).max())
        figures.append(_figure(f"shift_{case}_brier_difference", found, "Brier difference"))
        figures.append(
            Figure("confidence", f"shift_{case}_rate_error", mean, None, worst, found.n, "share of right answers", None,
                   "", COMMAND, f"high is the largest error of a set; {held} of {len(errors)} intervals hold the rate")
        )  # fmt: skip
        of = f"{held} of {len(errors)}"
        table.add_row(case, str(found.n), str(len(errors)), f"{mean:.3f}, at most {worst:.3f}", of, _shown(found))
    console.print(table)
    return figures


def pooled(data: Path) -> list[Figure]:
    """STE without any signal: the share of right calls by API, drawn together or not, over ten systems."""
    grades, apis = tool_calls(data)
    order = np.random.default_rng(SEED).permutation(apis.size)
    fit, test = order[: apis.size // 2], order[apis.size // 2 :]
    said: dict[str, list[np.ndarray]] = {"partial": [], "complete": [], "none": []}
    for right in grades.values():
        overall = np.full(apis.size, logit(right[fit].mean()))
        pooling = PartialPooling.fit(overall[fit], right[fit], apis[fit].tolist())
        said["partial"].append(sigmoid(pooling.shifted(overall[test], apis[test].tolist())))
        said["complete"].append(sigmoid(overall[test]))
        # Each API by itself, by the rule of succession; where it was not met, one of two.
        alone = {api: (right[fit][apis[fit] == api].sum() + 1) / ((apis[fit] == api).sum() + 2) for api in set(apis)}
        said["none"].append(np.array([alone[api] for api in apis[test]]))
    p = {kind: np.concatenate(each) for kind, each in said.items()}
    correct = np.concatenate([right[test] for right in grades.values()])
    questions = np.tile(test, len(grades))
    figures = []
    table = Table("log loss, partial pooling minus", "difference", title=f"pooling over 50 APIs, {len(grades)} systems")
    for other in ("complete", "none"):
        found = paired_difference(p["partial"], p[other], correct, metric="log_loss", groups=questions, seed=SEED)
        figures.append(_figure(f"pooling_ste_partial_minus_{other}", found, "log loss difference"))
        table.add_row({"complete": "complete pooling", "none": "no pooling"}[other], _shown(found))
    console.print(table)
    return figures


def _said(kind: str, fit: Answers, test: Answers) -> np.ndarray:
    return make_calibrator(kind).fit(fit.scores, fit.correct).predict(test.scores)


def _at_rate(rows: Answers, rate: float) -> Answers:
    """As many rows as go, so that this share is right."""
    draw = np.random.default_rng(SEED)
    right, wrong = np.flatnonzero(rows.correct == 1), np.flatnonzero(rows.correct == 0)
    count = int(min(right.size / rate, wrong.size / (1.0 - rate)))
    kept = [draw.choice(right, round(count * rate), False), draw.choice(wrong, count - round(count * rate), False)]
    return rows.take(np.concatenate(kept))


def _shown(found: Estimate) -> str:
    if found.value is None or found.low is None:
        return "–" if found.value is None else f"{found.value:.4f}"
    return f"{found.value:.4f} [{found.low:.4f}, {found.high:.4f}]"


def _figure(name: str, found: Estimate, unit: str) -> Figure:
    value, reason = found.value, found.reason
    return Figure("confidence", name, value, found.low, found.high, found.n, unit, None, "", COMMAND, reason)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    data = parser.parse_args().data
    choices = choice_answers(data)
    for name, answers in choices.items():
        console.print(f"{name}: {answers.correct.size} answers, {answers.correct.mean():.3f} right")
    figures = compared("ARC and MMLU, equal weight", "", choices)
    for kind in CHOICES:
        of_set = {f"{kind} {model}": choices[f"{kind} {model}"] for model in MODELS}
        figures += compared(kind, f"_on_{kind}", of_set)
    for kind, answers in ((SAMPLES, sample_answers(data)), (FORECASTS, forecast_answers(data))):
        figures += compared(kind, f"_on_{kind}", {kind: answers})
    console.print(f"wrote {write_results('calibration', [*figures, *shifted(choices), *pooled(data)])}")


if __name__ == "__main__":
    main()
