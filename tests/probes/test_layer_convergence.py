"""Layer convergence: three variants worked by hand, and the trap of the raw one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from demur.core.call import Call
from demur.core.decision import Stage
from demur.core.errors import ConfigurationError
from demur.core.evidence import Captured, Evidence
from demur.core.protocols import Probe
from demur.core.signal import Direction, RawScore, Signal
from demur.probes.layer_convergence import LayerConvergence

LAYERS = (1, 2, 3, 4, 5)


def measured(states: np.ndarray | None, layers: tuple[int, ...] = LAYERS, epsilon: float = 1e-6) -> dict[str, Signal]:
    hidden = {} if states is None else {f"prompt_last.L{n}": row for n, row in zip(LAYERS, states, strict=False)}
    evidence = Evidence(call=Call.ask("q"), captured=Captured(hidden=hidden))
    found = LayerConvergence(layers, epsilon=epsilon).measure(evidence)
    assert tuple(signal.name for signal in found) == LayerConvergence.signal_names
    return {signal.name.removeprefix("convergence."): signal for signal in found}


def test_worked_by_hand() -> None:
    states = np.array([[0, 4], [4, 4], [9, 9], [6, 2], [6, 4]], dtype=np.float32)
    got = {name: signal.value for name, signal in measured(states, epsilon=0.5).items()}
    # Early {0, 4} and {4, 4}: variances 4 and 0, mean 2. Late {6, 6} and {2, 4}: 0 and 1, mean .5. Layer 3 is left out.
    assert got["raw"] == pytest.approx(2.0 / (0.5 + 0.5))
    # Updates (4, 0), (5, 5), (-3, -7), (0, 2): early .25 and 6.25, mean 3.25; late 2.25 and 20.25, mean 11.25.
    assert got["delta"] == pytest.approx(3.25 / (11.25 + 0.5))
    # Root mean squares: sqrt 8, 4, ..., sqrt 20, sqrt 26.
    early = ((0 - 1) / 2) ** 2, ((math.sqrt(2) - 1) / 2) ** 2
    late = ((6 / 20**0.5 - 6 / 26**0.5) / 2) ** 2, ((2 / 20**0.5 - 4 / 26**0.5) / 2) ** 2
    assert got["rms"] == pytest.approx(np.mean(early) / (np.mean(late) + 0.5))


def test_a_model_that_settled_is_surer_than_one_that_moves_on() -> None:
    draw = np.random.default_rng(0)
    early, late = draw.normal(size=(2, 2, 64))
    settling = np.array([early[0], early[1], late[0], late[0] * 1.01, late[0] * 1.01])
    wandering = np.array([early[0], early[0] * 1.01, late[0], late[0], -late[1]])
    for name, sure in measured(settling).items():
        unsure = measured(wandering)[name].score
        assert isinstance(sure.score, RawScore) and isinstance(unsure, RawScore)
        assert sure.score.oriented > unsure.oriented, name
        assert sure.score.direction is Direction.HIGHER_IS_SURER


def test_raw_says_little_where_the_stream_grows() -> None:
    """The trap: vectors that grow with depth give about the same raw ratio whichever half turns more."""
    draw = np.random.default_rng(1)
    growth = 4.0 ** np.arange(5)[:, None]
    early_turns = np.vstack([draw.normal(size=(2, 256)), np.tile(draw.normal(size=256), (3, 1))]) * growth
    late_turns = np.vstack([np.tile(draw.normal(size=256), (2, 1)), draw.normal(size=(3, 256))]) * growth
    first, second = measured(early_turns), measured(late_turns)
    values = {name: (first[name].value or 0.0, second[name].value or 0.0) for name in first}
    assert max(values["raw"]) < 0.01
    assert values["rms"][0] > 1000 * values["rms"][1]


def test_it_is_read_before_and_is_a_probe() -> None:
    probe = LayerConvergence(LAYERS)
    assert isinstance(probe, Probe) and probe.stage is Stage.BEFORE


def test_what_cannot_be_read_is_unavailable() -> None:
    whole = np.arange(20.0).reshape(5, 4) ** 2 + 1
    assert all(s.available for s in measured(whole).values())
    holed = whole.copy()
    holed[2, 1] = math.nan
    for states in (None, whole[:4], whole[:, :0], holed):
        assert not any(s.available for s in measured(states).values())
    zero = whole.copy()
    zero[0] = 0.0
    assert [s.available for s in measured(zero).values()] == [True, False, True]
    unequal = {f"prompt_last.L{n}": np.ones(n, np.float32) for n in LAYERS}
    found = LayerConvergence(LAYERS).measure(Evidence(call=Call.ask("q"), captured=Captured(hidden=unequal)))
    assert not any(s.available for s in found)
    assert not any(s.available for s in LayerConvergence(LAYERS).measure(Evidence(call=Call.ask("q"))))


@pytest.mark.parametrize(
    ("layers", "epsilon"), [((1, 2, 3, 4), 1e-6), (LAYERS, 0.0), (LAYERS, math.inf), ((1,) * 5, 1.0)]
)
def test_settings_that_cannot_work(layers: tuple[int, ...], epsilon: float) -> None:
    with pytest.raises(ConfigurationError):
        LayerConvergence(layers, epsilon=epsilon)


@given(states=hnp.arrays(np.float32, (5, 3), elements=st.floats(width=32)))
def test_whatever_comes_in_scores_are_finite_and_not_negative(states: np.ndarray) -> None:
    for signal in measured(states).values():
        assert signal.value is None or (math.isfinite(signal.value) and signal.value >= 0.0)


@given(
    states=hnp.arrays(np.float64, (5, 3), elements=st.floats(-10, 10).filter(lambda x: abs(x) > 1e-3)),
    size=st.floats(0.5, 2.0),
)
def test_rms_does_not_see_how_large_a_vector_is(states: np.ndarray, size: float) -> None:
    larger = states * (size ** np.arange(5))[:, None]
    assert measured(larger)["rms"].value == pytest.approx(measured(states)["rms"].value, rel=1e-4)
