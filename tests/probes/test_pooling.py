from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.core.errors import BadInput
from demur.probes.calibration.base import logit, sigmoid
from demur.probes.pooling import PartialPooling


def drawn(sizes: dict[str, int], offsets: dict[str, float], seed: int) -> tuple[np.ndarray, np.ndarray, list[str]]:
    draw = np.random.default_rng(seed)
    groups = [name for name, size in sizes.items() for _ in range(size)]
    x = draw.normal(size=len(groups))
    correct = draw.random(len(groups)) < sigmoid(x + np.array([offsets[name] for name in groups]))
    return x, correct.astype(float), groups


def log_loss(log_odds: np.ndarray, correct: np.ndarray) -> float:
    return float(np.mean(np.logaddexp(0.0, log_odds) - correct * log_odds))


def test_a_tool_with_twenty_labels_leans_on_the_rest() -> None:
    losses = {"pooled": 0.0, "own": 0.0, "none": 0.0}
    for seed in range(60):
        draw = np.random.default_rng([1, seed])
        offsets = {f"tool{k}": float(draw.normal() * 0.7) for k in range(8)}
        sizes = {name: 20 if name == "tool0" else 200 for name in offsets}
        x, correct, groups = drawn(sizes, offsets, seed)
        pooling = PartialPooling.fit(x, correct, groups)
        few = np.array(groups) == "tool0"
        # Without pooling: the offset that the 20 rows alone give, smoothed as Platt does.
        share = (correct[few].sum() + 1) / (few.sum() + 2)
        own = float(logit(share) - logit(sigmoid(x[few]).mean()))
        later, grades, names = drawn({"tool0": 500}, offsets, seed + 1000)
        losses["pooled"] += log_loss(pooling.shifted(later, names), grades)
        losses["own"] += log_loss(later + own, grades)
        losses["none"] += log_loss(later, grades)
    assert losses["pooled"] < losses["own"]
    assert losses["pooled"] < losses["none"]


def test_many_labels_stand_alone_and_few_stay_near_zero() -> None:
    sizes = {"many": 4000, "few": 5, "a": 300, "b": 300}
    x, correct, groups = drawn(sizes, {"many": 1.0, "few": 1.0, "a": -1.0, "b": 0.0}, seed=2)
    pooling = PartialPooling.fit(x, correct, groups)
    assert pooling.offsets["many"] == pytest.approx(1.0, abs=0.12)
    assert abs(pooling.offsets["few"]) < 1.0
    assert pooling.errors["many"] < pooling.errors["a"] < pooling.errors["few"] <= pooling.spread
    assert pooling.offset("never met") == (0.0, pooling.spread)
    assert pooling.labels == {"many": 4000, "few": 5, "a": 300, "b": 300}


def test_groups_that_do_not_differ_get_no_offsets() -> None:
    sizes = {f"t{k}": 150 for k in range(10)}
    x, correct, groups = drawn(sizes, dict.fromkeys(sizes, 0.0), seed=3)
    pooling = PartialPooling.fit(x, correct, groups)
    assert pooling.spread < 0.25
    assert max(abs(value) for value in pooling.offsets.values()) < 0.25


def test_one_offset_by_hand() -> None:
    # One group is never told apart from the whole: its offset is 0 whatever its rows say.
    assert PartialPooling.fit([0.0] * 10, [1] * 10, ["one"] * 10).offsets["one"] == pytest.approx(0.0, abs=1e-6)
    # At its mode the gradient is 0: rows right minus rows expected equals offset / spread².
    x, correct, groups = drawn({"a": 50, "b": 70, "c": 30}, {"a": 1.0, "b": -1.0, "c": 0.0}, seed=4)
    pooling = PartialPooling.fit(x, correct, groups)
    of_a = np.array(groups) == "a"
    excess = float((correct[of_a] - sigmoid(x[of_a] + pooling.offsets["a"])).sum())
    assert excess == pytest.approx(pooling.offsets["a"] / pooling.spread**2, rel=1e-4)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6))
def test_it_survives_json(seed: int, count: int) -> None:
    sizes = {f"t{k}": 5 + seed % 7 for k in range(count)}
    x, correct, groups = drawn(sizes, dict.fromkeys(sizes, 0.5), seed)
    pooling = PartialPooling.fit(x, correct, groups)
    assert PartialPooling.from_dict(json.loads(json.dumps(pooling.to_dict()))) == pooling
    assert np.isfinite(list(pooling.offsets.values())).all()


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"spread": 1.0, "groups": {"a": [1.0]}},
        {"spread": -1.0, "groups": {}},
        {"spread": 1.0, "groups": {"a": [float("nan"), 1.0, 3]}},
        {"spread": 1.0, "groups": []},
    ],
)
def test_what_does_not_hold_together_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(BadInput, match="stored pooling"):
        PartialPooling.from_dict(data)


def test_bad_rows_are_refused() -> None:
    with pytest.raises(BadInput, match="group names"):
        PartialPooling.fit([0.0, 1.0], [1, 0], ["a"])
    with pytest.raises(BadInput, match="not finite"):
        PartialPooling.fit([np.nan], [1], ["a"])
