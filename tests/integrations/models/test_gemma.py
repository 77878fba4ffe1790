"""Layer 3: the real gemma-3-270m."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from demur.core.call import Call
from demur.core.evidence import CaptureRequest

pytestmark = pytest.mark.models


def test_last_layer_of_the_lens_equals_the_models_logits(gemma: Any) -> None:
    generation = gemma.generate(
        Call.ask("Who painted the Mona Lisa?"), capture=CaptureRequest(hidden_layers=(12, -1), lens_layers=(6, 12))
    )
    lens, trace = generation.captured.lens, generation.response.trace
    assert lens.layers == (6, 12, 18)
    np.testing.assert_allclose(lens.logprob[-1], trace.answer_logprobs, atol=1e-3)
    np.testing.assert_allclose(lens.entropy[-1], trace.entropy[trace.answer_start : trace.answer_end], atol=1e-3)
    assert (lens.agreement[-1] == 1.0).all()
    assert lens.kl[0].mean() > lens.kl[1].mean() > 0.0
    assert set(generation.captured.hidden) == {
        f"{kind}.L{layer}" for kind in ("prompt_last", "answer_mean", "answer_last") for layer in (12, 18)
    }


def test_greedy_answer(gemma: Any) -> None:
    generation = gemma.generate(Call.ask("What is the capital of France?"))
    assert generation.response.text == "Paris"
    assert not generation.response.truncated
    assert generation.captured.prompt_entropy < 2.0
