"""Everything that is told of one task beside the figures of the issue: baselines, single signals, cost."""

from __future__ import annotations

from typing import Any

import numpy as np
from scored import FUSED, SEED, Scored
from tables import TaskTable
from tasks import Task

from demur.evaluation.metrics.auroc import auroc
from demur.evaluation.metrics.paired import paired_difference
from demur.evaluation.metrics.registry import measure

SHOWN = ("auroc", "brier", "smece", "aurc", "bas_uniform", "etcu_auc", "selective_accuracy_at_50_coverage")
_OF_ORDER = ("auroc", "aurc", "selective_accuracy_at_50_coverage")
SINGLE = 12


def report_of(task: Task, whole: TaskTable, scored: Scored, *, planned: tuple[int, int]) -> dict[str, Any]:
    """JSON values."""
    right, groups = scored.correct, scored.groups
    methods: dict[str, dict[str, Any]] = {}
    for name, values in scored.scores.items():
        ranked = name == "single"
        methods[name] = {
            metric: measure(metric, values, right, groups=groups, seed=SEED).as_row()
            for metric in SHOWN
            if not ranked or metric in _OF_ORDER
        }
        if name != FUSED:
            found = paired_difference(scored.scores[FUSED], values, right, groups=groups, seed=SEED)
            methods[name]["fused_minus"] = found.as_row()
    return {
        "task": task.name,
        "model": task.model,
        "planned": planned,
        "fit": int(whole.fit.sum()),
        "test": int(scored.rows.sum()),
        "test_without_confidence": int((~scored.rows).sum()),
        "accuracy_fit": float(scored.fit.correct.mean()),
        "accuracy_test": float(right.mean()),
        "signals": len(whole.table.names),
        "vectors": len(whole.table.hidden),
        "method": getattr(scored.head.fusion, "method", "logistic"),
        "members": {name: dict(values) for name, values in scored.head.members.items()},
        "calibrator": scored.head.calibrator.name,
        "single": scored.single,
        "single_cross_validated": scored.single_cross_validated,
        "tokens": float(whole.tokens.mean()),
        "seconds": float(np.median(whole.seconds)),
        "methods": methods,
        "signals_alone": _alone(scored),
    }


def _alone(scored: Scored) -> list[dict[str, Any]]:
    """AUROC on the test rows of the signals that were best on the fitting rows, directions from there."""
    fit, test = scored.fit, scored.test.part(scored.rows)
    found = []
    for column, name in enumerate(fit.table.names):
        of_fit, of_test = fit.table.values[:, column], test.table.values[:, column]
        if not (np.isfinite(of_fit).all() and np.isfinite(of_test).all()) or np.ptp(of_fit) == 0.0:
            continue
        seen = auroc(of_fit, fit.correct)
        sign = 1 if seen >= 0.5 else -1
        found.append({"signal": name, "fit": max(seen, 1.0 - seen), "test": float(auroc(sign * of_test, test.correct))})
    return sorted(found, key=lambda row: -row["fit"])[:SINGLE]
