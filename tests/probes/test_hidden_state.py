from __future__ import annotations

import math

import numpy as np
import pytest

from demur.core.call import Call
from demur.core.decision import Stage
from demur.core.errors import BadInput, ConfigurationError
from demur.core.evidence import Captured, Evidence
from demur.core.protocols import Probe
from demur.probes.hidden_state import HiddenStateProbe


def planted(n: int = 600, width: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    vectors = draw.normal(size=(n, width)).astype(np.float32)
    vectors[:, :10] += 3.0 * draw.normal(size=(n, 1)).astype(np.float32)
    chance = 1 / (1 + np.exp(-0.8 * vectors[:, 0]))
    return vectors * 50 + 7, (draw.random(n) < chance).astype(float)


def test_finds_a_planted_direction_and_gives_one_signal() -> None:
    from sklearn.metrics import roc_auc_score

    vectors, correct = planted()
    probe = HiddenStateProbe("answer_mean.L3", components=8).fit(vectors[:400], correct[:400], None, np.arange(400) % 5)
    assert roc_auc_score(correct[400:], probe.scores(vectors[400:])) > 0.85
    assert isinstance(probe, Probe)
    evidence = Evidence(call=Call.ask("q"), captured=Captured(hidden={"answer_mean.L3": vectors[0]}))
    (signal,) = probe.measure(evidence)
    assert signal.name == "hidden.answer_mean.L3" == probe.signal_names[0]
    assert signal.value == pytest.approx(probe.scores(vectors[:1])[0])


def test_equals_the_three_steps_of_scikit_learn() -> None:
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    vectors, correct = planted()
    wide = vectors.astype(np.float64)
    model = make_pipeline(StandardScaler(), PCA(40, svd_solver="full"), LogisticRegression(C=0.01, tol=1e-9))
    expected = model.fit(wide, correct).decision_function(wide)
    probe = HiddenStateProbe("answer_last.L3", components=40).fit(vectors, correct)
    assert probe.scores(vectors) == pytest.approx(expected, abs=1e-3)


def test_stage_follows_the_vector() -> None:
    assert HiddenStateProbe("prompt_last.L1").stage is Stage.BEFORE
    assert HiddenStateProbe("answer_last.L1").stage is Stage.AFTER


def test_what_it_cannot_read_is_unavailable() -> None:
    vectors, correct = planted(100)
    probe = HiddenStateProbe("answer_mean.L3").fit(vectors, correct)
    broken = vectors[0].copy()
    broken[3] = math.nan
    for hidden in ({}, {"answer_mean.L3": broken}, {"answer_mean.L3": vectors[0, :5]}, {"answer_mean.L4": vectors[0]}):
        signal = probe.signal(hidden)
        assert not signal.available
    assert not HiddenStateProbe("answer_mean.L3").measure(Evidence(call=Call.ask("q")))[0].available
    assert np.isnan(probe.scores(np.stack([vectors[0], broken]))).tolist() == [False, True]


def test_rows_with_nan_are_left_out_of_the_fit() -> None:
    vectors, correct = planted(200)
    holes = np.vstack([vectors, np.full((50, 40), np.nan, np.float32)])
    grades = np.concatenate([correct, np.ones(50)])
    expected = HiddenStateProbe("answer_mean.L3", components=4).fit(vectors, correct).direction_
    assert HiddenStateProbe("answer_mean.L3", components=4).fit(holes, grades).direction_ == pytest.approx(expected)


def test_arrays_bring_it_back_bit_for_bit() -> None:
    vectors, correct = planted(100)
    probe = HiddenStateProbe("answer_mean.L3").fit(vectors, correct)
    again = HiddenStateProbe.from_arrays("answer_mean.L3", probe.to_arrays())
    assert (again.scores(vectors) == probe.scores(vectors)).all()
    for name, spoiled in (
        ("scale", np.zeros(40)),
        ("mean", np.full(40, np.nan)),
        ("direction", np.zeros(3)),
        ("intercept", np.zeros(2)),
    ):
        with pytest.raises(BadInput):
            HiddenStateProbe.from_arrays("answer_mean.L3", {**probe.to_arrays(), name: spoiled})


def test_refusals() -> None:
    vectors, _ = planted(50)
    with pytest.raises(ConfigurationError, match="start with"):
        HiddenStateProbe("somewhere.L1")
    with pytest.raises(ConfigurationError, match="components=0"):
        HiddenStateProbe("answer_mean.L1", components=0)
    with pytest.raises(BadInput, match="one class"):
        HiddenStateProbe("answer_mean.L1").fit(vectors, np.ones(50))
    probe = HiddenStateProbe("answer_mean.L1").fit(vectors, np.arange(50) % 2)
    with pytest.raises(BadInput, match="fitted on"):
        probe.scores(np.zeros((2, 3)))
