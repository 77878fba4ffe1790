"""What is read while the prompt is read, and the fast lens: equal to plain torch, in batches too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from demur.core.call import Call
from demur.core.evidence import CaptureRequest, LensTrace
from demur.integrations.models.huggingface.decoding import Decoding
from demur.integrations.models.huggingface.model import HuggingFaceModel
from demur.integrations.models.huggingface.question import question_span

CALLS = [Call.ask("Who wrote the book about the whale?"), Call.ask("Why?"), Call.ask("What is 2 + 2, and 3 + 3?")]
KINDS = ("agreement", "logprob", "entropy", "kl", "log_rank")
FAMILIES = ["llama", "gemma3", "gpt2"]


def assert_same(one: LensTrace, other: LensTrace, atol: float) -> None:
    assert one.layers == other.layers
    for kind in KINDS:
        np.testing.assert_allclose(getattr(one, kind), getattr(other, kind), atol=atol, err_msg=kind)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_questions_tokens_against_one_plain_pass(family: str, hugging: Any, tiny_model: Any) -> None:
    model, tokenizer = tiny_model(family)
    ours = hugging(family)
    alone = [ours.generate(call, capture=CaptureRequest(question_logprobs=True)) for call in CALLS]
    together = ours.generate_batch(CALLS, capture=CaptureRequest(question_logprobs=True), batch_size=3)
    for call, one, batched in zip(CALLS, alone, together, strict=True):
        prompt = ours.prompt(call)
        ids = tokenizer(prompt)["input_ids"]
        span = question_span(tokenizer, prompt, call.question, special=True)
        assert span is not None
        assert tokenizer.decode(ids[slice(*span)]).strip() == call.question
        with torch.no_grad():
            logp = torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0].double(), dim=-1)
        expected = [float(logp[place - 1, ids[place]]) for place in range(max(span[0], 1), span[1])]
        np.testing.assert_allclose(one.captured.question_logprobs, expected, atol=3e-4)
        np.testing.assert_allclose(batched.captured.question_logprobs, expected, atol=3e-4)
    assert ours.generate(CALLS[0]).captured is None or ours.generate(CALLS[0]).captured.question_logprobs is None


@pytest.mark.parametrize("family", FAMILIES)
def test_the_fast_lens_over_all_tokens_is_the_exact_lens(family: str, hugging: Any, tiny_model: Any) -> None:
    model, _ = tiny_model(family)
    vocabulary = model.get_output_embeddings().weight.shape[0]
    capture = CaptureRequest(lens_layers=(1, 2), fast_lens_layers=(1, 2), lens_candidates=vocabulary)
    ours = hugging(family)
    for generation in (ours.generate(CALLS[0], capture=capture), *ours.generate_batch(CALLS, capture=capture)):
        if generation.captured.lens is None:  # an answer without content
            assert generation.captured.fast_lens is None and not generation.response.trace.answer_positions
            continue
        assert_same(generation.captured.fast_lens, generation.captured.lens, 3e-4)
        assert generation.captured.fast_lens.said == generation.captured.lens.said
        assert generation.captured.fast_lens.candidates == vocabulary


def test_the_fast_lens_over_few_tokens_is_renormalised_over_them(hugging: Any) -> None:
    ours = hugging("llama")
    capture = CaptureRequest(lens_layers=(1,), fast_lens_layers=(1,), lens_candidates=5)
    captured = ours.generate(CALLS[0], capture=capture).captured
    exact, fast = captured.lens, captured.fast_lens
    # Fewer rivals: each is likelier, and nothing is more spread than over six tokens.
    assert (fast.logprob >= exact.logprob - 1e-5).all()
    assert (fast.entropy <= np.log(6) + 1e-5).all()
    assert (fast.agreement[-1] == exact.agreement[-1]).all()
    assert (fast.kl[-1] == 0.0).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_prompts_lens_is_the_lens_of_the_first_token(family: str, hugging: Any) -> None:
    ours = hugging(family)
    capture = CaptureRequest(lens_layers=(1, 2), prompt_lens=True)
    compared = 0
    for generation in (ours.generate(CALLS[0], capture=capture), *ours.generate_batch(CALLS, capture=capture)):
        lens, early = generation.captured.lens, generation.captured.prompt_lens
        start = generation.response.trace.answer_start
        assert early.logprob.shape == (3, 1)
        if start == 0 and lens is not None:
            compared += 1
            for kind in KINDS:  # greedy: the likeliest first token is the one that came
                np.testing.assert_allclose(getattr(early, kind)[:, 0], getattr(lens, kind)[:, 0], atol=3e-4)
    assert compared


def test_a_question_that_does_not_stand_in_the_prompt_has_no_span(tiny_model: Any) -> None:
    _, tokenizer = tiny_model("llama")
    assert question_span(tokenizer, "Q: Who?\nA:", "Why?", special=True) is None
    assert question_span(tokenizer, "Q: Who?\nA:", "  ", special=True) is None
    # The last one counts: earlier ones are examples.
    first, last = (question_span(tokenizer, text, "Who?", special=True) for text in ("Who?", "Who? He. Who?"))
    assert first is not None and last is not None and last[0] > first[0]


def test_what_is_found_in_the_answer_is_judged_and_the_rest_is_scaffolding(tiny_model: Any) -> None:
    model, tokenizer = tiny_model("llama")
    ours = HuggingFaceModel.from_objects(
        model, tokenizer, decoding=Decoding(max_new_tokens=12, stop=()), answer="last-number"
    )
    plain = HuggingFaceModel.from_objects(model, tokenizer, decoding=Decoding(max_new_tokens=12, stop=()))
    assert ours.answer_extractor != plain.answer_extractor
    found = ours.generate(CALLS[2]).response
    same = plain.generate(CALLS[2]).response
    assert found.trace.ids == same.trace.ids
    numbers = found.trace.answer_positions
    assert set(numbers) <= set(range(len(found.trace.ids)))
    assert found.trace.answer_end - found.trace.answer_start == len(numbers) + len(found.trace.scaffold)
