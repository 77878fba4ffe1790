"""The figures of the issue, under its names and goals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from results_file import Figure
from scored import FUSED, Scored, chosen, fitted

from demur.evaluation.estimate import Estimate
from demur.evaluation.metrics.paired import paired_difference
from demur.evaluation.metrics.pooled import PairedTask, pooled_difference
from demur.evaluation.metrics.registry import measure

ISSUE, COMMAND, SEED = "confidence", "python benchmarks/confidence.py --data DATA", 7
TASK_NAMES = ("triviaqa_gemma", "svamp_q05", "squad2_q05", "bfcl_q05", "ste_q05")
FEWEST = 40
"""Rows to fit on and rows to test on that a task needs before it is measured."""
MICE = "mice_rf_bertscore"
PROBABILITIES = ("raw", "histogram", "kernel", "hallunox", MICE, "mice_lr_bertscore")
_GOALS = {"triviaqa_gemma_fused_auroc": ".86"}


def of_task(name: str, scored: Scored | str) -> list[Figure]:
    """The three figures of one task; `scored` says why where there are none."""
    names = (f"{name}_fused_auroc", f"{name}_fused_minus_best_single_auroc", f"{name}_smece_excess")
    goals = (_GOALS.get(names[0], ""), "", "0, lower")
    units = ("AUROC", "AUROC difference", "smECE")
    if isinstance(scored, str):
        return [missing(*each, scored) for each in zip(names, units, goals, strict=True)]
    right, groups, fused = scored.correct, scored.groups, scored.scores[FUSED]
    alone = measure("auroc", scored.scores["single"], right, groups=groups, seed=SEED)
    found = (
        measure("auroc", fused, right, groups=groups, seed=SEED),
        paired_difference(fused, scored.scores["single"], right, groups=groups, seed=SEED),
        measure("smece_excess", fused, right, groups=groups, seed=SEED),
    )
    lines = (alone.value, alone.value, measure("smece", fused, right, groups=groups, seed=SEED).value)
    return [
        figure(name, estimate, unit, goal, baseline)
        for name, estimate, unit, goal, baseline in zip(names, found, units, goals, lines, strict=True)
    ]


def of_pools(scored: Mapping[str, Scored]) -> list[Figure]:
    """The pools of equal weight, and the one figure of tool calls."""
    told = f"equal-weight pool of {len(scored)} of {len(TASK_NAMES)} tasks: {', '.join(scored)}"
    wanted = (
        ("pooled_fused_minus_best_single_auroc", "auroc", "single", "AUROC difference", ".02, low > 0"),
        ("pooled_fused_minus_mice_rf_auroc", "auroc", MICE, "AUROC difference", "0 on low"),
        ("pooled_bas_minus_best_baseline", "bas_uniform", best_by_bas(scored), "BAS difference", "0 on low"),
    )
    figures = []
    for name, metric, other, unit, goal in wanted:
        found = _pooled(scored, metric, FUSED, other)
        baseline = float(np.mean([_value(metric, each, other) for each in scored.values()]))
        figures.append(figure(name, found, unit, goal, baseline, f"{told}; baseline {other}"))
    if "bfcl_q05" in scored:
        tools = scored["bfcl_q05"]
        found = paired_difference(
            tools.scores[FUSED], tools.scores[MICE], tools.correct, metric="etcu_auc", groups=tools.groups, seed=SEED
        )
        figures.append(
            figure(
                "bfcl_etcu_auc_minus_mice_rf", found, "ETCU AUC difference", "0 on low", _value("etcu_auc", tools, MICE)
            )
        )
    else:
        figures.append(missing("bfcl_etcu_auc_minus_mice_rf", "ETCU AUC difference", "0 on low", "BFCL was not asked"))
    return figures


def of_lenses(scored: Mapping[str, Scored]) -> tuple[Figure, dict[str, tuple[float, float]]]:
    """Two heads on everything but vectors, alike in all but the lens; each task's AUROC fast and exact."""
    tasks: dict[str, PairedTask] = {}
    alone: dict[str, tuple[float, float]] = {}
    for name, each in scored.items():
        said = []
        fit = each.fit
        for unwanted in (("lens.", "mice."), ("fast_lens.",)):
            head = fitted(fit, chosen(fit.table, ("",), unwanted))
            said.append(head.predict_table(chosen(each.test.table, ("",), unwanted)).probability[each.rows])
        tasks[name] = PairedTask(said[0], said[1], each.correct, each.groups)
        alone[name] = tuple(float(measure("auroc", s, each.correct).value or np.nan) for s in said)  # type: ignore[assignment]
    found = pooled_difference(tasks, metric="auroc", seed=SEED)
    exact = float(np.mean([pair[1] for pair in alone.values()]))
    return figure("fast_minus_exact_lens_auroc", found, "AUROC difference", "-.01", exact), alone


def best_by_bas(scored: Mapping[str, Scored]) -> str:
    """The baseline with the highest BAS over the pool, chosen on the very rows it is compared on: the hardest one."""
    return max(PROBABILITIES, key=lambda name: np.mean([_value("bas_uniform", each, name) for each in scored.values()]))


def _pooled(scored: Mapping[str, Scored], metric: str, first: str, second: str) -> Estimate:
    tasks = {
        name: PairedTask(each.scores[first], each.scores[second], each.correct, each.groups)
        for name, each in scored.items()
    }
    return pooled_difference(tasks, metric=metric, seed=SEED)


def _value(metric: str, scored: Scored, method: str) -> float:
    found = measure(metric, scored.scores[method], scored.correct, groups=scored.groups, seed=SEED).value
    return float("nan") if found is None else float(found)


def figure(
    name: str, found: Estimate, unit: str, goal: str, baseline: float | None, reason: str | None = None
) -> Figure:
    return Figure(
        issue=ISSUE,
        name=name,
        value=found.value,
        low=found.low,
        high=found.high,
        n=found.n,
        unit=unit,
        baseline=baseline,
        goal=goal,
        command=COMMAND,
        reason=reason or found.reason,
    )


def missing(name: str, unit: str, goal: str, reason: str) -> Figure:
    return Figure(ISSUE, name, None, None, None, 0, unit, None, goal, COMMAND, reason)
