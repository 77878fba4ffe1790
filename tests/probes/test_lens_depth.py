"""Depth at which the answer wins, entropy valley, pools, the prompt's lens, and that scales are never mixed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from demur.core.call import Call
from demur.core.decision import Stage
from demur.core.errors import ConfigurationError
from demur.core.evidence import Captured, Evidence, LensTrace
from demur.core.protocols import Probe
from demur.core.signal import RawScore
from demur.probes.lens import KINDS, LensProbe
from demur.probes.lens_depth import LensDepth, valley_delta
from demur.probes.lens_pools import LensPools
from demur.probes.prompt_lens import PromptLensProbe

LAYERS = (2, 4, 6, 8, 10)

# Two tokens. The first wins at layer 4, loses at 6 and wins from 8 on; the second wins from 6 on.
AGREEMENT = [[0, 0], [1, 0], [0, 1], [1, 1], [1, 1]]
# From the top: token one falls by 1 to layer 8, by .05 (too little) to 6; token two rises at once.
ENTROPY = [[0.1, 0.1], [0.2, 5.0], [1.95, 5.0], [2.0, 3.0], [3.0, 1.0]]
LOGPROB = [[-9, -9], [-8, -8], [-7, -6], [-0.5, -4], [-1.5, -0.5]]


def trace(candidates: int = 0, layers: tuple[int, ...] = LAYERS, **changed: Any) -> LensTrace:
    shape = (len(layers), 2)
    rows = {
        "agreement": AGREEMENT,
        "entropy": ENTROPY,
        "logprob": LOGPROB,
        "kl": np.zeros(shape),
        "log_rank": np.zeros(shape),
    } | changed
    return LensTrace(
        layers=layers, candidates=candidates, **{k: np.array(v, dtype=np.float32) for k, v in rows.items()}
    )


def measured(probe: Probe, lens: LensTrace | None, **captures: Any) -> dict[str, float | None]:
    found = probe.measure(Evidence(call=Call.ask("q"), captured=Captured(lens=lens, **captures)))
    assert tuple(signal.name for signal in found) == probe.signal_names
    return {signal.name: signal.value for signal in found}


def test_depth_worked_by_hand() -> None:
    got = measured(LensDepth(LAYERS, delta=0.1), trace())
    assert got["lens.depth_wins"] == pytest.approx((0.8 + 0.6) / 2)
    assert got["lens.valley_depth"] == pytest.approx((0.8 + 1.0) / 2)
    assert got["lens.valley_drop"] == pytest.approx((1.0 + 0.0) / 2)
    assert got["lens.valley_logprob"] == pytest.approx((-0.5 - 0.5) / 2)


def test_a_smaller_step_goes_deeper() -> None:
    # Layers 8 -> 6 falls by .05, 6 -> 4 by 1.75, 4 -> 2 by .1; layer 2 = L - 8 is the last one to be reached.
    got = measured(LensDepth(LAYERS, delta=0.01), trace())
    assert got["lens.valley_depth"] == pytest.approx((0.2 + 1.0) / 2)
    assert got["lens.valley_logprob"] == pytest.approx((-9 - 0.5) / 2)


def test_the_valley_is_looked_for_in_eight_layers_and_never_in_the_embedding() -> None:
    falling = np.repeat(np.arange(1.0, 14.0)[:, None], 2, axis=1)
    for final, lowest in ((12, 4), (3, 1)):
        layers = tuple(range(final + 1))
        shape = (final + 1, 2)
        made = trace(
            layers=layers, entropy=falling[: final + 1], logprob=-falling[: final + 1], agreement=np.ones(shape)
        )
        got = measured(LensDepth(layers), made)
        assert got["lens.valley_depth"] == pytest.approx(lowest / final)
        assert got["lens.valley_drop"] == final - lowest
        assert got["lens.valley_logprob"] == -(lowest + 1)
        assert got["lens.depth_wins"] == 0.0


def test_only_the_given_layers_are_looked_at() -> None:
    # Without layer 6, where it loses, the first token has won from 4 on; the second from 8 on.
    got = measured(LensDepth((4, 8), delta=0.1), trace())
    assert got["lens.depth_wins"] == pytest.approx((0.4 + 0.8) / 2)
    assert measured(LensDepth((4, 8), delta=0.1), trace(agreement=[*AGREEMENT[:2], [0, 0], *AGREEMENT[3:]])) == got


def test_a_token_that_the_final_layer_does_not_put_first_counts_as_settled_last() -> None:
    got = measured(LensDepth(LAYERS), trace(agreement=[*AGREEMENT[:4], [0, 0]]))
    assert got["lens.depth_wins"] == 1.0


def test_far_layers_have_no_valley() -> None:
    got = measured(LensDepth((2,)), trace(layers=(2, 3, 4, 5, 20)))
    assert got["lens.depth_wins"] is not None
    assert [got[f"lens.valley_{part}"] for part in ("depth", "drop", "logprob")] == [None] * 3


def test_pools_worked_by_hand() -> None:
    got = measured(LensPools((2, 4, 8)), trace())
    assert got["lens.logprob.min_token"] == pytest.approx((-9 - 8 - 4) / 3)
    assert got["lens.entropy.max_token"] == pytest.approx((0.1 + 5.0 + 3.0) / 3)
    assert got["lens.agreement.min_token"] == pytest.approx(1 / 3)
    assert got["lens.logprob.last_quarter"] == pytest.approx((-0.5 - 4) / 2)
    assert measured(LensPools((2, 4)), trace())["lens.logprob.last_quarter"] is None


def settled(sure: bool) -> LensTrace:
    """A model that knows early and stays, or one that wavers until the last layer, which is less certain again."""
    count = len(LAYERS)
    if sure:
        rising = np.linspace(0.5, 0.1, count)
        parts = (np.ones(count), -rising, rising, rising - 0.1, np.zeros(count))
    else:
        parts = (
            np.array([0, 0, 0, 0, 1.0]),
            np.full(count, -8.0),
            np.array([9, 9, 8, 5, 6.0]),
            np.array([9, 9, 9, 9, 0.0]),
            np.array([9, 9, 9, 9, 0.0]),
        )
    return LensTrace(LAYERS, *(np.repeat(part[:, None], 2, axis=1).astype(np.float32) for part in parts))


@pytest.mark.parametrize(
    "probe", [LensDepth(LAYERS), LensPools(LAYERS[:-1]), PromptLensProbe(LAYERS[:-1])], ids=lambda probe: probe.name
)
def test_settled_is_surer_than_wavering(probe: Probe) -> None:
    both = []
    for made in (settled(True), settled(False)):
        captured = Captured(lens=made, prompt_lens=made)
        both.append({s.name: s.score for s in probe.measure(Evidence(call=Call.ask("q"), captured=captured))})
    for name in probe.signal_names:
        surer, lesser = both[0][name], both[1][name]
        assert isinstance(surer, RawScore) and isinstance(lesser, RawScore), name
        assert surer.oriented > lesser.oriented, name
        assert surer.direction is lesser.direction


def test_the_prompt_is_read_before_and_in_the_same_way() -> None:
    probe = PromptLensProbe(LAYERS, delta=0.1)
    assert isinstance(probe, Probe) and probe.stage is Stage.BEFORE
    got = measured(probe, None, prompt_lens=trace())
    for same in (LensProbe(LAYERS), LensDepth(LAYERS, delta=0.1)):
        for name, value in measured(same, trace()).items():
            assert got[f"prompt_{name}"] == value
    assert got["prompt_lens.logprob.last_quarter"] == measured(LensPools(LAYERS), trace())["lens.logprob.last_quarter"]
    assert set(measured(probe, trace()).values()) == {None}


PROBES = {"lens": LensProbe, "pools": LensPools, "depth": LensDepth}


@pytest.mark.parametrize("kind", PROBES)
def test_fast_and_exact_are_never_mixed(kind: str) -> None:
    exact, fast = PROBES[kind](LAYERS), PROBES[kind](LAYERS, candidates=64)
    assert [f"fast_{name}" for name in exact.signal_names] == list(fast.signal_names) and exact.name != fast.name
    shifted = trace(64, entropy=np.array(ENTROPY) + 1, logprob=np.array(LOGPROB) + 0.1)
    whole = measured(exact, trace(), fast_lens=shifted)
    narrow = measured(fast, trace(), fast_lens=shifted)
    assert None not in whole.values() and None not in narrow.values()
    assert list(whole.values()) != list(narrow.values())
    # One alone says nothing of the other, and one of another scale is refused.
    assert set(measured(fast, shifted).values()) == set(measured(exact, None, fast_lens=shifted).values()) == {None}
    for probe, captured in (
        (exact, Captured(lens=shifted)),
        (fast, Captured(fast_lens=trace())),
        (fast, Captured(fast_lens=trace(32))),
    ):
        signals = probe.measure(Evidence(call=Call.ask("q"), captured=captured))
        assert all("another scale" in signal.score.reason for signal in signals)  # type: ignore[union-attr]
    assert set(measured(PromptLensProbe(LAYERS), None, prompt_lens=shifted).values()) == {None}


@pytest.mark.parametrize("probe", [LensDepth(LAYERS), LensPools(LAYERS), PromptLensProbe(LAYERS)], ids=lambda p: p.name)
def test_what_cannot_be_read_is_unavailable(probe: Probe) -> None:
    empty = np.zeros((5, 0))
    nothing = LensTrace((), *(np.zeros((0, 0), np.float32),) * 5)
    none_at_all = (
        None,
        nothing,
        trace(agreement=empty, logprob=empty, entropy=empty, kl=empty, log_rank=empty),
        trace(layers=(0, 1, 3, 5, 7)),
    )
    for made in none_at_all[:3]:
        assert set(measured(probe, made, prompt_lens=made).values()) == {None}
    made = none_at_all[3]
    assert None in measured(probe, made, prompt_lens=made).values()
    assert all(not s.available for s in probe.measure(Evidence(call=Call.ask("q"))))


@pytest.mark.parametrize(("kind", "spoiled"), [("agreement", "depth_wins"), ("logprob", "valley_logprob")])
def test_a_hole_spoils_what_reads_it_and_nothing_else(kind: str, spoiled: str) -> None:
    rows = np.array(AGREEMENT if kind == "agreement" else LOGPROB, dtype=float)
    whole = measured(LensDepth(LAYERS), trace())
    for bad in (math.nan, -math.inf):
        rows[2, 1] = bad
        got = measured(LensDepth(LAYERS), trace(0, LAYERS, **{kind: rows}))
        assert got[f"lens.{spoiled}"] is None
        assert {k: v for k, v in got.items() if not k.endswith(spoiled)} == {
            k: v for k, v in whole.items() if not k.endswith(spoiled)
        }
    assert measured(LensDepth(LAYERS), trace(agreement=np.full((5, 2), 0.5)))["lens.depth_wins"] is None


numbers = hnp.arrays(np.float32, (5, 2), elements=st.floats(width=32))
entropies = hnp.arrays(np.float32, (5, 3), elements=st.floats(0, 20, width=32))
votes = hnp.arrays(np.float32, (5, 3), elements=st.sampled_from([0.0, 1.0]))


@given(rows=st.fixed_dictionaries({kind: numbers for kind, _ in KINDS}))
def test_whatever_comes_in_nothing_raises(rows: dict[str, np.ndarray]) -> None:
    made = trace(0, LAYERS, **rows)
    for probe in (LensDepth(LAYERS), LensPools(LAYERS), PromptLensProbe(LAYERS)):
        assert all(v is None or math.isfinite(v) for v in measured(probe, made, prompt_lens=made).values())


@given(entropy=entropies, agreement=votes)
def test_equal_to_the_search_written_out(entropy: np.ndarray, agreement: np.ndarray) -> None:
    zeros = np.zeros((5, 3))
    made = trace(entropy=entropy, logprob=-entropy, agreement=agreement, kl=zeros, log_rank=zeros)
    got = measured(LensDepth(LAYERS, delta=0.25), made)
    valleys, wins = [], []
    wide = entropy.astype(np.float64)
    for token in range(3):
        row = 4
        while row > 0 and wide[row - 1, token] < wide[row, token] - 0.25:
            row -= 1
        valleys.append(row)
        wins.append(min(first for first in range(6) if first == 5 or agreement[first:, token].all()))
    assert got["lens.valley_depth"] == pytest.approx(np.mean([LAYERS[row] / 10 for row in valleys]))
    assert got["lens.valley_drop"] == pytest.approx(
        np.mean([wide[4, t] - wide[row, t] for t, row in enumerate(valleys)])
    )
    assert got["lens.valley_logprob"] == pytest.approx(-np.mean([wide[row, t] for t, row in enumerate(valleys)]))
    assert got["lens.depth_wins"] == pytest.approx(np.mean([LAYERS[min(first, 4)] / 10 for first in wins]))


def test_settings_that_cannot_work() -> None:
    assert valley_delta(262_144) == pytest.approx(0.12476649)
    for broken in (
        lambda: LensDepth(()),
        lambda: LensDepth((1, 1)),
        lambda: LensDepth((1,), delta=0.0),
        lambda: PromptLensProbe((1,), delta=math.nan),
        lambda: LensPools((-1,)),
        lambda: LensPools((1,), candidates=-1),
        lambda: valley_delta(1),
    ):
        with pytest.raises(ConfigurationError):
            broken()
