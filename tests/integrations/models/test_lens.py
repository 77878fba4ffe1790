"""The logit lens: equal to the model at the last layer in every family, equal to plain torch at the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from demur.core.call import Call
from demur.core.errors import ConfigurationError, ModelError
from demur.core.evidence import CaptureRequest
from demur.integrations.models.huggingface.architecture import architecture_of, resolve_layers
from demur.integrations.models.huggingface.lens import check_final_layer, lens_trace

FAMILIES = ["llama", "qwen2", "qwen3", "gemma3", "gpt2", "gpt_neox", "opt", "phi", "mistral", "mamba"]
CALL = Call.ask("Who wrote the book about the whale?")
EVERYTHING = CaptureRequest(hidden_layers=(0, 1, 2, 3), lens_layers="all")


def _reference(model: Any, tokenizer: Any, prompt: str, ids: tuple[int, ...]) -> tuple[Any, Any, int]:
    """One plain pass over prompt and answer: hidden states by our numbering, logits, length of the prompt."""
    prompt_ids = tokenizer(prompt)["input_ids"]
    with torch.no_grad():
        out = model(input_ids=torch.tensor([[*prompt_ids, *ids]]), output_hidden_states=True)
        states = list(out.hidden_states)
        if model.config.model_type == "mamba":  # its list starts after the first block
            states = [model.get_input_embeddings()(torch.tensor([[*prompt_ids, *ids]])), *states]
            del states[-2]  # the last block before the norm is in Mamba's list as well
    return [s[0] for s in states], out.logits[0], len(prompt_ids)


@pytest.mark.parametrize("family", FAMILIES)
def test_last_layer_equals_the_models_logits(family: str, hugging: Any, tiny_model: Any) -> None:
    model, tokenizer = tiny_model(family)
    ours = hugging(family)
    generation = ours.generate(CALL, capture=EVERYTHING)
    trace, lens = generation.response.trace, generation.captured.lens
    states, logits, prompt = _reference(model, tokenizer, ours.prompt(CALL), trace.ids)
    span = slice(trace.answer_start, trace.answer_end)
    logp = torch.log_softmax(logits[prompt - 1 : -1], dim=-1)
    own = logp.gather(1, torch.tensor(trace.ids).unsqueeze(1)).squeeze(1).numpy()

    assert lens.layers == (0, 1, 2, 3)
    np.testing.assert_allclose(trace.logprobs, own, atol=2e-4)
    np.testing.assert_allclose(lens.logprob[-1], own[span], atol=2e-4)
    np.testing.assert_allclose(lens.logprob[-1], trace.answer_logprobs, atol=2e-4)
    np.testing.assert_allclose(lens.entropy[-1], trace.entropy[span], atol=2e-4)
    assert (lens.agreement[-1] == 1.0).all()  # greedy: the final layer's likeliest token is the generated one
    assert (lens.kl[-1] == 0.0).all()
    assert (lens.log_rank[-1] == 0.0).all()
    for layer in range(4):
        np.testing.assert_allclose(
            generation.captured.hidden[f"prompt_last.L{layer}"], states[layer][prompt - 1].numpy(), atol=2e-4
        )


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2", "opt"])
def test_inner_layers_equal_plain_torch(family: str, hugging: Any, tiny_model: Any) -> None:
    overrides = {"max_position_embeddings": 250}
    model, tokenizer = tiny_model(family, **overrides)
    ours = hugging(family, **overrides)
    generation = ours.generate(CALL, capture=CaptureRequest(lens_layers=(1, -2)))
    trace, lens = generation.response.trace, generation.captured.lens
    states, logits, prompt = _reference(model, tokenizer, ours.prompt(CALL), trace.ids)
    norm = {
        "llama": lambda m: m.model.norm,
        "gemma3": lambda m: m.model.norm,
        "gpt2": lambda m: m.transformer.ln_f,
        "opt": lambda m: m.model.decoder.final_layer_norm,
    }[family](model)
    final = torch.log_softmax(logits[prompt - 1 : -1].double(), dim=-1)

    assert lens.layers == (1, 2, 3)
    for row, layer in enumerate((1, 2)):
        with torch.no_grad():
            x = norm(states[layer][prompt - 1 : -1])
            if family == "opt":
                x = model.model.decoder.project_out(x)
            z = model.lm_head(x).double()
            if family == "gemma3":
                z = 3.0 * torch.tanh(z / 3.0)
        logp = torch.log_softmax(z, dim=-1)
        for column, position in enumerate(range(trace.answer_start, trace.answer_end)):
            token, at = trace.ids[position], logp[position]
            assert lens.logprob[row, column] == pytest.approx(float(at[token]), abs=3e-4)
            assert lens.agreement[row, column] == float(int(at.argmax()) == token)
            assert lens.entropy[row, column] == pytest.approx(float(-(at.exp() * at).sum()), abs=3e-4)
            kl = float((final[position].exp() * (final[position] - at)).sum())
            assert lens.kl[row, column] == pytest.approx(kl, abs=3e-4)
            # The rank is compared as a count: rounding may swap two near-equal tokens.
            rank = 1 + int((at > at[token]).sum())
            assert abs(float(np.exp(lens.log_rank[row, column])) - rank) <= 1.001


def test_blocks_change_nothing(tiny_model: Any) -> None:
    model, _ = tiny_model("llama")
    architecture = architecture_of(model)
    generator = torch.Generator().manual_seed(1)
    states = {layer: torch.randn(7, 32, generator=generator) for layer in (1, 3)}
    ids = [3, 1, 4, 1, 5, 9, 2]
    whole = lens_trace(architecture, states, ids)
    in_blocks = lens_trace(architecture, states, ids, block_elements=1)
    for name in ("agreement", "logprob", "entropy", "kl", "log_rank"):
        np.testing.assert_allclose(getattr(whole, name), getattr(in_blocks, name), atol=1e-5)
    assert whole.logprob.shape == (2, 7)


def test_two_token_lens_worked_out_by_hand() -> None:
    """Vocabulary of 3, the unembedding is the identity: p = softmax(0, ln 2, ln 5) = 1/8, 1/4, 5/8."""
    from demur.integrations.models.huggingface.architecture import Architecture

    head = torch.nn.Linear(3, 3, bias=False)
    with torch.no_grad():
        head.weight.copy_(torch.eye(3))
    architecture = Architecture(head, [None], None, None, head, 1.0, 1.0, None)
    skewed, flat = torch.tensor([[1.0, 2.0, 5.0]]).log(), torch.zeros(1, 3)
    trace = lens_trace(architecture, {0: skewed, 1: flat}, [1])
    entropy = -(np.log(1 / 8) / 8 + np.log(1 / 4) / 4 + 5 * np.log(5 / 8) / 8)
    assert trace.logprob[0, 0] == pytest.approx(np.log(1 / 4), abs=1e-6)
    assert trace.entropy[0, 0] == pytest.approx(entropy, abs=1e-6)
    assert trace.log_rank[0, 0] == pytest.approx(np.log(2), abs=1e-6)
    assert trace.agreement[0, 0] == 0.0
    uniform_to_skewed = np.log(1 / 3) - (np.log(1 / 8) + np.log(1 / 4) + np.log(5 / 8)) / 3
    assert trace.kl[0, 0] == pytest.approx(uniform_to_skewed, abs=1e-6)
    assert trace.entropy[1, 0] == pytest.approx(np.log(3), abs=1e-6)


@pytest.mark.parametrize("layers", [(4,), (-5,), (0, 99)])
def test_layer_outside_the_model_names_the_range(layers: tuple[int, ...], hugging: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"layers 0 to 3"):
        hugging().generate(CALL, capture=CaptureRequest(lens_layers=layers))
    with pytest.raises(ConfigurationError, match=r"layers 0 to 3"):
        hugging().stream(CALL, capture=CaptureRequest(hidden_layers=layers))


def test_layer_words_and_negative_numbers() -> None:
    assert resolve_layers("all", 3, what="x") == (0, 1, 2, 3)
    assert resolve_layers((-1, 0, 3), 3, what="x") == (0, 3)
    with pytest.raises(ConfigurationError, match="some"):
        resolve_layers("some", 3, what="x")


def test_a_head_that_is_not_understood_is_refused(tiny_model: Any) -> None:
    model, _ = tiny_model("llama")
    architecture = architecture_of(model)
    state = torch.ones(32)
    with torch.no_grad():
        logits = model.lm_head(state)
    check_final_layer(architecture, state, logits)
    with pytest.raises(ModelError, match="cannot be used"):
        check_final_layer(architecture, state, logits * 2.0)
