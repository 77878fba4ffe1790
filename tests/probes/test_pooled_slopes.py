"""Groups whose log-odds run steeper or flatter than the whole's."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.optimize import minimize

from demur.core.confidence import Confidence
from demur.core.decision import Stage
from demur.core.errors import BadInput
from demur.core.signal import Signal
from demur.probes.calibration.base import logit, sigmoid
from demur.probes.fit_head import fit_head
from demur.probes.pooling import PartialPooling
from demur.probes.random_effects import fit_effects
from demur.probes.signal_table import SignalTable

SLOPES = {"mute": -0.9, "flat": -0.6, "plain": 0.0, "steep": 0.8, "steeper": 1.2, "rare": -0.9}
SIZES = {"mute": 500, "flat": 500, "plain": 500, "steep": 500, "steeper": 500, "rare": 12}


def drawn(seed: int, slopes: dict[str, float] = SLOPES) -> tuple[np.ndarray, np.ndarray, list[str]]:
    draw = np.random.default_rng(seed)
    groups = [name for name, size in SIZES.items() for _ in range(size)]
    x = draw.normal(size=len(groups)) * 1.5
    truth = x * (1.0 + np.array([slopes[name] for name in groups]))
    return x, (draw.random(len(groups)) < sigmoid(truth)).astype(float), groups


def log_loss(log_odds: np.ndarray, correct: np.ndarray) -> float:
    return float(np.mean(np.logaddexp(0.0, log_odds) - correct * log_odds))


def test_slopes_are_found_where_there_is_data() -> None:
    pooling = PartialPooling.fit(*drawn(0))
    for name in ("flat", "plain", "steep", "steeper"):
        assert pooling.slopes[name].value == pytest.approx(SLOPES[name], abs=0.3)
    assert pooling.slopes["mute"].value < -0.7
    # Twelve rows say little: nearer to the whole, and less certain.
    assert pooling.slopes["rare"].value > pooling.slopes["mute"].value
    assert pooling.slopes["rare"].error > 2 * pooling.slopes["plain"].error
    assert pooling.slope("never met").value == 0.0
    assert pooling.slope("never met").error == pooling.slope_spread > pooling.slopes["rare"].error
    later, grades, groups = drawn(1)
    offsets_only = PartialPooling(pooling.offsets, pooling.errors, pooling.spread, pooling.labels)
    gain = log_loss(offsets_only.shifted(later, groups), grades) - log_loss(pooling.shifted(later, groups), grades)
    assert gain > 0.02


def test_groups_that_run_alike_have_no_slopes() -> None:
    found = [bool(PartialPooling.fit(*drawn(seed, dict.fromkeys(SLOPES, 0.0))).slopes) for seed in range(20)]
    # The test's level is 5 %: 1 of 20 on average.
    assert sum(found) <= 3


def test_modes_agree_with_a_general_optimiser() -> None:
    x, y, groups = drawn(2)
    codes = np.unique(groups, return_inverse=True)[1]
    effects = fit_effects(x, 0.3, y, np.ones_like(x), codes, slopes=True)
    for group in (0, 3):
        rows = codes == group

        def loss(effect: np.ndarray, rows: np.ndarray = rows) -> float:
            at = x[rows] + effect[0] + effect[1] * (x[rows] - 0.3)
            return float((np.logaddexp(0.0, at) - y[rows] * at).sum() + 0.5 * (effect**2 / effects.variances).sum())

        assert effects.modes[group] == pytest.approx(minimize(loss, np.zeros(2), tol=1e-10).x, abs=1e-3)


def test_the_order_within_a_group_stays_and_the_interval_holds_the_probability() -> None:
    pooling = PartialPooling.fit(*drawn(3))
    grid = np.linspace(0.01, 0.99, 99)
    for group in (*SLOPES, "never met", None):
        p, low, high = pooling.applied(grid, grid - 0.005, grid + 0.005, [group] * grid.size)
        assert (np.diff(p) > 0.0).all()
        assert ((low <= p) & (p <= high)).all()
    p, low, high = pooling.applied(np.array([np.nan]), np.array([np.nan]), np.array([np.nan]), ["steep"])
    assert np.isnan([p, low, high]).all()


def test_it_survives_json_and_reads_what_was_stored_without_slopes() -> None:
    pooling = PartialPooling.fit(*drawn(4))
    stored = json.loads(json.dumps(pooling.to_dict()))
    assert PartialPooling.from_dict(stored) == pooling
    older = {"spread": stored["spread"], "groups": stored["groups"]}
    read = PartialPooling.from_dict(older)
    assert (read.offsets, read.slopes, read.slope_spread) == (pooling.offsets, {}, 0.0)
    assert read.to_dict() == older
    for change in (
        {"slopes": {"mute": [0.0, 1.0, 0.0]}},
        {"slopes": {**stored["slopes"], "mute": [-1.0, 1.0, 0.0]}},
        {"slopes": {**stored["slopes"], "mute": [0.0, -1.0, 0.0]}},
        {"slopes": {**stored["slopes"], "mute": [0.0, float("nan"), 0.0]}},
        {"slope_spread": -1.0},
        {"centre": "x"},
    ):
        with pytest.raises(BadInput, match="stored pooling"):
            PartialPooling.from_dict({**stored, **change})


def test_contributions_of_a_head_add_up_with_the_slope_among_them() -> None:
    x, correct, tools = drawn(5)
    table = SignalTable(("own",), x[:, None])
    head = fit_head(table, correct, None, arm="answer", stage=Stage.AFTER, replicas=10, tools=tools)
    assert head.pooling is not None and head.pooling.slopes
    average = head.calibrator.predict(head.fusion.predict(np.array([[0.0]])).average[:1])
    for at in (-2.0, 0.4, 2.5):
        found = head.predict([Signal.of("own", at)], tool="flat")
        assert isinstance(found, Confidence)
        told = sum(part.log_odds for part in found.contributions)
        assert told == pytest.approx(float(logit(found.value) - logit(average[0])))
    # A flat tool draws a sure call towards the middle.
    tool = next(part for part in found.contributions if part.signal == "tool.flat")
    assert tool.log_odds < -0.3
