"""Pools of equal weight: the mean of a metric over several tasks, each counting the same whatever its size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import ConfigurationError
from ..estimate import Estimate
from ..inputs import Floats, check_groups, check_scored
from .bootstrap import Statistic, bounded, draw, interval_of
from .metric import Metric
from .paired import difference_statistic
from .registry import metric_of

_UNBOUNDED = (-np.inf, np.inf)


class ScoredTask(NamedTuple):
    """One score on the rows of a task; a plain tuple will do.

    Attributes:
        scores, correct, groups: shape (n,); groups None: every row its own.
    """

    scores: ArrayLike
    correct: ArrayLike
    groups: ArrayLike | None = None


class PairedTask(NamedTuple):
    """Two scores on the same rows of a task; a plain tuple will do."""

    first: ArrayLike
    second: ArrayLike
    correct: ArrayLike
    groups: ArrayLike | None = None


class _Part(NamedTuple):
    statistic: Statistic
    n: int
    groups: ArrayLike | None
    undefined: str


def pooled(
    tasks: Mapping[str, ScoredTask | tuple[ArrayLike, ArrayLike, ArrayLike | None]],
    *,
    metric: str | Metric = "auroc",
    seed: int = 0,
    resamples: int = 1000,
) -> Estimate:
    """Mean of the metric over the tasks, with a 95 % interval by the metric's own method; named `pooled_<metric>`.

    Rows are resampled within each task, independently of the others; the mean is taken in every resample. `n` is the
    number of rows in all. The tasks are the population: the interval does not speak of tasks that are not there.

    Raises:
        BadInput: NaN, lengths differ, no rows, not probabilities where they are needed, groups that do not fit.
        ConfigurationError: no task, or no such metric.
    """
    found = metric_of(metric)
    parts = {}
    for name, task in tasks.items():
        task = ScoredTask(*task)
        numbers, labels = check_scored(task.scores, task.correct, probabilities=found.probabilities)
        parts[name] = _Part(found.build(numbers, labels), labels.size, task.groups, found.undefined)
    return _pooled(
        f"pooled_{found.name}", parts, seed, resamples, centred=found.method == "centred", bounds=found.bounds
    )


def pooled_difference(
    tasks: Mapping[str, PairedTask | tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike | None]],
    *,
    metric: str | Metric = "auroc",
    seed: int = 0,
    resamples: int = 1000,
) -> Estimate:
    """Mean over the tasks of metric(first) − metric(second), with a 95 % percentile interval of paired resamples;
    named `pooled_<metric>_difference`. Otherwise as `pooled`.

    Raises:
        BadInput: as `paired_difference`.
        ConfigurationError: no task, or no such metric.
    """
    found = metric_of(metric)
    parts = {}
    for name, task in tasks.items():
        task = PairedTask(*task)
        statistic, n = difference_statistic(found, task.first, task.second, task.correct)
        parts[name] = _Part(statistic, n, task.groups, found.undefined)
    return _pooled(f"pooled_{found.name}_difference", parts, seed, resamples)


def _pooled(
    name: str,
    parts: Mapping[str, _Part],
    seed: int,
    resamples: int,
    *,
    centred: bool = False,
    bounds: tuple[float, float] = _UNBOUNDED,
) -> Estimate:
    if not parts:
        raise ConfigurationError("there is no task to pool; give at least one")
    total = sum(part.n for part in parts.values())
    # In order of names, so that the order in which tasks are given changes nothing.
    seeds = np.random.SeedSequence(seed).spawn(len(parts))
    values: list[float] = []
    draws: dict[str, Floats] = {}
    for task, child in zip(sorted(parts), seeds, strict=True):
        part = parts[task]
        value = float(part.statistic(np.ones((1, part.n)))[0])
        if not np.isfinite(value):
            return Estimate(name=name, value=None, n=total, reason=f"task {task!r}: {part.undefined}")
        (drawn,) = draw([part.statistic], check_groups(part.groups, part.n), resamples=resamples, seed=child)
        values.append(value)
        draws[task] = drawn
    mean = float(np.mean(values))
    alone = [task for task, drawn in draws.items() if drawn.size == 0]
    if alone:
        reason = f"task {alone[0]!r}: all rows are one group: no interval can be drawn"
        return Estimate(name=name, value=mean, n=total, reason=reason)
    interval = interval_of(np.mean(list(draws.values()), axis=0), mean, centred=centred)
    return bounded(name, mean, interval, total, bounds)
