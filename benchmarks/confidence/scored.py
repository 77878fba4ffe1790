"""One task: a head fitted on its fitting rows, and everything it is compared with, on its test rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from tables import TaskTable

from demur.core.decision import Stage
from demur.core.errors import DemurError
from demur.evaluation.metrics.auroc import auroc
from demur.probes.baselines import (
    Baseline,
    HalluNoxTiers,
    HistogramRegression,
    KernelRegression,
    MiceForest,
    MiceLogistic,
    RawConfidence,
)
from demur.probes.fit_head import fit_head
from demur.probes.folds import grouped_folds
from demur.probes.head import Head
from demur.probes.signal_table import SignalTable

SEED = 7
FOLDS = 5
FUSED = "fused"


@dataclass(frozen=True)
class Scored:
    """Confidences of the test rows on which every method has one.

    Attributes:
        single: name of the best single signal by cross-validation on the fitting rows.
        single_cross_validated: AUROC there.
        scores: by method, (n,); those of `fused` and of the baselines are probabilities, those of `single` are not.
        rows: (n,) which of the test rows these are.
    """

    fit: TaskTable
    test: TaskTable
    head: Head
    single: str
    single_cross_validated: float
    scores: dict[str, np.ndarray]
    rows: np.ndarray

    @property
    def correct(self) -> np.ndarray:
        return self.test.correct[self.rows]

    @property
    def groups(self) -> np.ndarray:
        return self.test.groups[self.rows]


def chosen(table: SignalTable, wanted: tuple[str, ...], unwanted: tuple[str, ...] = ()) -> SignalTable:
    """The scalar signals whose names begin so and not otherwise; vectors stay."""
    kept = [
        column
        for column, name in enumerate(table.names)
        if name.startswith(wanted) and not (unwanted and name.startswith(unwanted))
    ]
    return replace(
        table,
        names=tuple(table.names[column] for column in kept),
        values=table.values[:, kept],
        directions=tuple(table.directions[column] for column in kept),
    )


def fitted(part: TaskTable, table: SignalTable | None = None, method: str = "auto") -> Head:
    """A head on these rows."""
    return fit_head(
        part.table if table is None else table,
        part.correct,
        part.groups,
        arm="answer",
        stage=Stage.AFTER,
        seed=SEED,
        method=method,
    )


def baselines(table: SignalTable) -> dict[str, Baseline]:
    """By name; MICE over every layer's similarity."""
    found: dict[str, Baseline] = {
        "raw": RawConfidence(),
        "histogram": HistogramRegression(),
        "kernel": KernelRegression(),
        "hallunox": HalluNoxTiers(),
    }
    for metric in ("bertscore", "rapidfuzz"):
        layers = [name for name in table.names if name.startswith(f"mice.{metric}.L")]
        if layers:
            found[f"mice_rf_{metric}"] = MiceForest(layers, seed=SEED)
            found[f"mice_lr_{metric}"] = MiceLogistic(layers)
    return found


def best_single(part: TaskTable) -> tuple[str, int, float]:
    """Name, direction and cross-validated AUROC of the best signal: its direction comes from the other folds."""
    folds = grouped_folds(part.groups, part.correct.astype(float), FOLDS, SEED)
    best = ("", 1, 0.0)
    for column, name in enumerate(part.table.names):
        values = part.table.values[:, column]
        if not np.isfinite(values).all() or np.ptp(values) == 0.0:
            continue
        found = []
        for fold in np.unique(folds):
            held_out = folds == fold
            sign = 1 if auroc(values[~held_out], part.correct[~held_out]) >= 0.5 else -1
            found.append(auroc(sign * values[held_out], part.correct[held_out]))
        if np.mean(found) > best[2]:
            best = (name, 1 if auroc(values, part.correct) >= 0.5 else -1, float(np.mean(found)))
    return best


def score(whole: TaskTable) -> Scored:
    """Fit on the fitting rows, score the test rows."""
    fit, test = whole.part(whole.fit), whole.part(~whole.fit)
    head = fitted(fit)
    scores = {FUSED: head.predict_table(test.table).probability}
    name, sign, cross_validated = best_single(fit)
    scores["single"] = sign * test.table.columns([name])[:, 0]
    for title, baseline in baselines(fit.table).items():
        try:
            scores[title] = baseline.fit(fit.table, fit.correct).predict(test.table)
        except DemurError as error:
            print(f"{whole.name}: {title} left out: {error}")
    rows = np.all([np.isfinite(values) for values in scores.values()], axis=0)
    return Scored(
        fit, test, head, name, cross_validated, {title: values[rows] for title, values in scores.items()}, rows
    )
