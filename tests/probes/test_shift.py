from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.core.errors import BadInput, ConfigurationError, NotEnoughLabels, Refused
from demur.probes.calibration.base import sigmoid
from demur.probes.calibration.shift import PriorShift


def drawn(n: int, rate: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities calibrated at a base rate of ½ (scores N(±1, 1), so log-odds 2x), and grades at `rate`."""
    draw = np.random.default_rng(seed)
    correct = draw.random(n) < rate
    return sigmoid(2.0 * (draw.normal(size=n) + np.where(correct, 1.0, -1.0))), correct


def test_by_hand() -> None:
    # Likelihood ratios 3 (60 calls) and 1/3 (40): the likeliest share s solves .6·2/(1+2s) = .4·(2/3)/(1-2s/3),
    # so 1.2 (1 - 2s/3) = (4/15)(1 + 2s), s = (1.2 - 4/15) / (0.8 + 8/15) = 0.7.
    shift = PriorShift.fit([0.75] * 60 + [0.25] * 40, 0.5)
    assert shift.rate == pytest.approx(0.7, abs=1e-6)
    # Odds times (.7/.3): 3 · 7/3 = 7 and 1/3 · 7/3 = 7/9.
    assert shift.correct([0.75, 0.25]) == pytest.approx([7 / 8, 7 / 16])


@pytest.mark.parametrize("rate", [0.1, 0.34, 0.5, 0.8])
def test_a_known_shift_is_found_and_repaired(rate: float) -> None:
    p, correct = drawn(4000, rate, seed=3)
    shift = PriorShift.fit(p, 0.5)
    assert shift.rate == pytest.approx(rate, abs=0.03)
    assert shift.low <= rate <= shift.high
    assert shift.shifted is (rate != 0.5)
    assert abs(float(shift.correct(p).mean()) - correct.mean()) < 0.03
    before, after = (np.mean((q - correct) ** 2) for q in (p, shift.correct(p)))
    assert after <= before + 1e-4


@settings(max_examples=30, deadline=None)
@given(st.floats(0.05, 0.95), st.integers(0, 10_000))
def test_the_order_stays_and_the_mean_of_the_corrected_is_the_rate(rate: float, seed: int) -> None:
    p, _ = drawn(300, rate, seed)
    shift = PriorShift.fit(p, 0.5)
    corrected = shift.correct(p)
    assert (np.diff(corrected[np.argsort(p)]) >= 0.0).all()
    # The fixed point of EM: the mean posterior is the share.
    assert float(corrected.mean()) == pytest.approx(shift.rate, abs=1e-4)
    assert 0.0 <= shift.low <= shift.rate <= shift.high <= 1.0


def test_what_cannot_be_told_is_refused() -> None:
    p, _ = drawn(99, 0.5)
    with pytest.raises(NotEnoughLabels, match="100 are needed"):
        PriorShift.fit(p, 0.5)
    with pytest.raises(Refused, match="every base rate fits"):
        PriorShift.fit([0.5] * 200 + [0.52] * 200, 0.5)
    with pytest.raises(BadInput):
        PriorShift.fit([0.5] * 200 + [float("nan")], 0.5)
    with pytest.raises(ConfigurationError):
        PriorShift.fit(drawn(200, 0.5)[0], 1.0)
