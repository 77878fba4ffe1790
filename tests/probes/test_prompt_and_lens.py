from __future__ import annotations

import math

import numpy as np
import pytest

from demur.core.call import Call
from demur.core.errors import ConfigurationError
from demur.core.evidence import Captured, Evidence, LensTrace
from demur.core.protocols import Probe
from demur.core.signal import RawScore, Signal
from demur.probes.lens import LensProbe
from demur.probes.prompt_statistics import PromptStatistics


def prompt(captured: Captured | None, question: str = "1234567") -> dict[str, Signal]:
    evidence = Evidence(call=Call.ask(question), captured=captured)
    return {signal.name: signal for signal in PromptStatistics().measure(evidence)}


def lens_trace(**changed: np.ndarray) -> LensTrace:
    rows = {
        "agreement": [[0, 0], [1, 0], [1, 1]],
        "logprob": [[-6, -8], [-1, -3], [-0.5, -0.5]],
        "entropy": [[5, 5], [2, 4], [1, 1]],
        "kl": [[4, 6], [1, 2], [0, 0]],
        "log_rank": [[3, 5], [0, 1], [0, 0]],
    }
    return LensTrace(layers=(2, 4, 6), **{k: changed.get(k, np.array(v, dtype=np.float32)) for k, v in rows.items()})


def lens(trace: LensTrace | None, layers: tuple[int, ...] = (2, 4)) -> dict[str, Signal]:
    evidence = Evidence(call=Call.ask("q"), captured=Captured(lens=trace))
    return {signal.name: signal for signal in LensProbe(layers).measure(evidence)}


def test_prompt_worked_by_hand() -> None:
    got = prompt(Captured(prompt_entropy=1.5, prompt_top_logprob=-0.25, prompt_tokens=9))
    assert [s.value for s in got.values()] == pytest.approx([1.5, -0.25, math.log(10), math.log(8)])
    assert tuple(got) == PromptStatistics.signal_names
    assert isinstance(PromptStatistics(), Probe)


def test_prompt_peaked_is_surer_than_uniform() -> None:
    peaked = prompt(Captured(prompt_entropy=0.1, prompt_top_logprob=-0.01, prompt_tokens=5))
    uniform = prompt(Captured(prompt_entropy=9.0, prompt_top_logprob=-9.0, prompt_tokens=500), "x" * 900)
    for name in PromptStatistics.signal_names:
        sure, unsure = peaked[name].score, uniform[name].score
        assert isinstance(sure, RawScore) and isinstance(unsure, RawScore)
        assert sure.oriented > unsure.oriented, name


@pytest.mark.parametrize(
    "captured",
    [
        None,
        Captured(),
        Captured(prompt_entropy=math.nan, prompt_top_logprob=-math.inf, prompt_tokens=0),
        Captured(prompt_entropy=-1.0, prompt_top_logprob=0.5, prompt_tokens=-3),
    ],
)
def test_prompt_without_usable_captures_keeps_the_length_of_the_question(captured: Captured | None) -> None:
    got = prompt(captured)
    assert [s.available for s in got.values()] == [False, False, False, True]


def test_an_empty_and_a_huge_question() -> None:
    assert not prompt(None, "  ")["prompt.log_question_length"].available
    assert prompt(None, "x" * 100_000)["prompt.log_question_length"].value == pytest.approx(math.log(100_001))


def test_lens_worked_by_hand() -> None:
    got = {name: signal.value for name, signal in lens(lens_trace()).items()}
    assert got["lens.agreement.L2"] == 0.0
    assert got["lens.agreement.L4"] == 0.5
    assert got["lens.agreement.mean"] == 0.25
    assert (got["lens.logprob.L2"], got["lens.logprob.L4"], got["lens.logprob.mean"]) == (-7.0, -2.0, -4.5)
    assert (got["lens.entropy.L4"], got["lens.kl.L4"], got["lens.log_rank.L2"]) == (3.0, 1.5, 4.0)


def test_lens_peaked_is_surer_than_uniform() -> None:
    # Layer 6 sees the answer plainly, layer 2 does not at all.
    got = lens(lens_trace(), (2, 6))
    for kind in ("agreement", "logprob", "entropy", "kl", "log_rank"):
        unsure, sure = got[f"lens.{kind}.L2"].score, got[f"lens.{kind}.L6"].score
        assert isinstance(sure, RawScore) and isinstance(unsure, RawScore)
        assert sure.oriented > unsure.oriented, kind


def test_lens_names_do_not_depend_on_the_evidence() -> None:
    probe = LensProbe((4, 2))
    assert isinstance(probe, Probe)
    for trace in (None, lens_trace(), lens_trace(kl=np.full((3, 2), np.nan)), lens_trace(kl=np.zeros((1, 2)))):
        assert tuple(lens(trace)) == probe.signal_names
    assert "lens.agreement.L4" in probe.signal_names


def test_one_bad_value_spoils_its_layer_and_the_pool_only() -> None:
    kl = np.array([[4, 6], [1, np.inf], [0, 0]], dtype=np.float32)
    got = lens(lens_trace(kl=kl))
    assert got["lens.kl.L2"].available
    assert not got["lens.kl.L4"].available
    assert not got["lens.kl.mean"].available
    assert got["lens.entropy.mean"].available


def test_missing_layers_shapes_and_tokens() -> None:
    assert not lens(lens_trace(), (2, 5))["lens.kl.L5"].available
    assert not any(s.available for s in lens(None).values())
    empty = {kind: np.zeros((3, 0), np.float32) for kind in ("agreement", "logprob", "entropy", "kl", "log_rank")}
    assert not any(s.available for s in lens(lens_trace(**empty)).values())


@pytest.mark.parametrize("layers", [(), (-1,), (3, 3)])
def test_layers_that_cannot_name_signals(layers: tuple[int, ...]) -> None:
    with pytest.raises(ConfigurationError):
        LensProbe(layers)
