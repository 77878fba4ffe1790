"""Pools of equal weight, and two accuracies on few rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from demur.core.errors import BadInput, ConfigurationError
from demur.evaluation.metrics.auroc import auroc
from demur.evaluation.metrics.paired import paired_difference
from demur.evaluation.metrics.paired_accuracy import paired_accuracy
from demur.evaluation.metrics.pooled import PairedTask, ScoredTask, pooled, pooled_difference


def task(n: int, gain: float, seed: int) -> PairedTask:
    draw = np.random.default_rng(seed)
    truth = draw.normal(size=n)
    correct = (draw.random(n) < 1 / (1 + np.exp(-2 * truth))).astype(float)
    return PairedTask(truth + draw.normal(size=n) * 0.5, truth + draw.normal(size=n) * (0.5 + gain), correct)


def test_each_task_counts_the_same_whatever_its_size() -> None:
    tasks = {"small": task(100, 1.0, 1), "large": task(1500, 0.0, 2)}
    found = pooled_difference(tasks)
    alone = [paired_difference(each.first, each.second, each.correct).value for each in tasks.values()]
    assert found.value == pytest.approx(np.mean(alone))
    assert (found.name, found.n) == ("pooled_auroc_difference", 1600)
    assert found.low < found.value < found.high
    one = pooled({name: ScoredTask(each.first, each.correct) for name, each in tasks.items()})
    assert one.value == pytest.approx(np.mean([auroc(each.first, each.correct) for each in tasks.values()]))


def test_the_order_of_tasks_changes_nothing() -> None:
    tasks = {"a": task(80, 1.0, 3), "b": task(90, 1.0, 4)}
    assert pooled_difference(tasks) == pooled_difference(dict(reversed(tasks.items())))


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    # Equal scores up to noise of the same size: the true difference is 0.
    covered = sum(
        found.low <= 0.0 <= found.high
        for seed in range(60)
        if (
            found := pooled_difference(
                {name: task(120, 0.0, 1000 * seed + k) for k, name in enumerate("abc")}, resamples=200
            )
        )
    )
    assert 52 <= covered <= 60


def test_a_task_that_cannot_be_measured_leaves_the_pool_without_a_value() -> None:
    one_class = PairedTask([0.1, 0.2], [0.3, 0.4], [1, 1])
    found = pooled_difference({"a": task(50, 0.0, 5), "b": one_class})
    assert found.value is None and "'b'" in found.reason
    with pytest.raises(ConfigurationError):
        pooled_difference({})
    with pytest.raises(BadInput):
        pooled_difference({"a": PairedTask([0.1], [0.2, 0.3], [1])})


def test_mcnemar_and_table_by_hand() -> None:
    first = [1] * 10 + [1] * 8 + [0] * 2 + [0] * 5
    second = [1] * 10 + [0] * 8 + [1] * 2 + [0] * 5
    found = paired_accuracy(first, second)
    assert found.table == (10, 8, 2, 5)
    assert found.mcnemar == pytest.approx(binomtest(8, 10).pvalue)
    assert found.difference.value == pytest.approx(6 / 25)
    assert found.difference.low < 6 / 25 < found.difference.high
    assert 0.95 < found.probability_first_better < 1.0


def test_the_two_priors_agree_and_equal_answers_are_even() -> None:
    draw = np.random.default_rng(6)
    first, second = (draw.random((2, 60)) < 0.6).astype(float)
    by = {prior: paired_accuracy(first, second, prior=prior) for prior in ("copula", "dirichlet")}  # type: ignore[arg-type]
    assert by["copula"].probability_first_better == pytest.approx(by["dirichlet"].probability_first_better, abs=0.08)
    same = paired_accuracy(first, first)
    assert same.difference.value == 0.0 and same.mcnemar == 1.0
    assert same.probability_first_better == pytest.approx(0.5, abs=0.05)
    with pytest.raises(ConfigurationError):
        paired_accuracy(first, second, draws=10)
