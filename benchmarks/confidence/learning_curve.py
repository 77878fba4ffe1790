"""How AUROC on the test rows grows with the number of graded rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scored import SEED, Scored, baselines, best_single, fitted

from demur.core.errors import DemurError
from demur.evaluation.metrics.auroc import auroc

SIZES = (25, 50, 100, 200, 400, 800, 1500)
REPEATS = 2


def learning_curve(
    scored: Scored, other: str, *, sizes: Sequence[int] = SIZES, progress: Callable[[str], None]
) -> list[dict[str, float | None]]:
    """A row a size: mean, lowest and highest AUROC over subsets of the fitting rows, fused, best single, `other`.

    A size at which too few rows are right to fit a head has None for it.
    """
    fit, test = scored.fit, scored.test
    found = []
    for size in (each for each in sizes if each <= len(fit.ids)):
        drawn: dict[str, list[float]] = {"fused": [], "single": [], other: []}
        repeats = 1 if size == len(fit.ids) else REPEATS
        for repeat in range(repeats):
            rows = np.random.default_rng([SEED, size, repeat]).permutation(len(fit.ids))[:size]
            part = fit.part(np.sort(rows))
            for name in drawn:
                drawn[name].append(_auroc(name, part, scored))
        row: dict[str, float | None] = {"labels": size, "subsets": repeats}
        for name, values in drawn.items():
            known = [value for value in values if np.isfinite(value)]
            row |= {name: float(np.mean(known)) if known else None, f"{name}_fitted": len(known)}
            row |= {f"{name}_low": min(known, default=None), f"{name}_high": max(known, default=None)}
        found.append(row)
        progress(f"{test.name}: {size} labels: fused {row['fused']}, single {row['single']}")
    return found


def _auroc(name: str, part: object, scored: Scored) -> float:
    from tables import TaskTable

    assert isinstance(part, TaskTable)
    test = scored.test
    try:
        if name == "fused":
            values = fitted(part).predict_table(test.table).probability
        elif name == "single":
            column, sign, _ = best_single(part)
            values = sign * test.table.columns([column])[:, 0]
        else:
            values = baselines(part.table)[name].fit(part.table, part.correct).predict(test.table)
    except DemurError:
        return float("nan")
    known = np.isfinite(values)
    return float(auroc(values[known], test.correct[known]))
