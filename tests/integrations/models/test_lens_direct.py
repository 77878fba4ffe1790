"""Every lens, single and in a batch, against plain torch: a forward pass, the final norm and the unembedding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from demur.core.call import Call
from demur.core.evidence import CaptureRequest
from demur.core.protocols import Generation

CALLS = [Call.ask("Who wrote the book about the whale?"), Call.ask("Why?"), Call.ask("What is 2 + 2, and 3 + 3?")]
CANDIDATES = 5
CAPTURE = CaptureRequest(
    lens_layers=(1, 2), fast_lens_layers=(1, 2), lens_candidates=CANDIDATES, prompt_lens=True, top_k=CANDIDATES
)
NORMS = {
    "llama": lambda model: model.model.norm,
    "gemma3": lambda model: model.model.norm,
    "gpt2": lambda model: model.transformer.ln_f,
    "gpt_neox": lambda model: model.gpt_neox.final_layer_norm,
}
TOLERANCE = 3e-4


def direct(family: str, model: Any, prompt: list[int], ids: list[int]) -> torch.Tensor:
    """(layers 1 to 3, len(ids) + 1, vocabulary): log-probabilities at the prompt's last position and at each token."""
    with torch.no_grad():
        out = model(input_ids=torch.tensor([[*prompt, *ids]]), output_hidden_states=True)
        layers = []
        for layer in (1, 2):
            logits = model.get_output_embeddings()(NORMS[family](model)(out.hidden_states[layer][0])).double()
            layers.append(3.0 * torch.tanh(logits / 3.0) if family == "gemma3" else logits)
        layers.append(out.logits[0].double())
    return torch.log_softmax(torch.stack(layers)[:, len(prompt) - 1 :], dim=-1)


def every_way(ours: Any) -> list[tuple[Call, Generation]]:
    alone = [(call, ours.generate(call, capture=CAPTURE)) for call in CALLS]
    return [*alone, *zip(CALLS, ours.generate_batch(CALLS, capture=CAPTURE, batch_size=3), strict=True)]


def clear(logp: torch.Tensor) -> torch.Tensor:
    """Is the likeliest token likeliest by more than rounding?"""
    first, second = logp.topk(2, dim=-1).values.unbind(-1)
    return first - second > 2 * TOLERANCE


@pytest.mark.parametrize("family", sorted(NORMS))
def test_every_lens(family: str, hugging: Any, tiny_model: Any) -> None:
    model, tokenizer = tiny_model(family)
    ours = hugging(family)
    compared, read = 0, 0
    for call, generation in every_way(ours):
        trace, captured = generation.response.trace, generation.captured
        assert trace is not None and captured is not None
        prompt = tokenizer(ours.prompt(call))["input_ids"]
        logp = direct(family, model, prompt, list(trace.ids))
        # The prompt's: what each layer makes of the final layer's likeliest first token.
        early, best = captured.prompt_lens, int(logp[-1, 0].argmax())
        assert early is not None and early.layers == (1, 2, 3)
        np.testing.assert_allclose(early.logprob[:, 0], logp[:, 0, best], atol=TOLERANCE)
        entropy = -(logp[:, 0].exp() * logp[:, 0]).sum(-1)
        np.testing.assert_allclose(early.entropy[:, 0], entropy, atol=TOLERANCE)
        kl = (logp[-1:, 0].exp() * (logp[-1:, 0] - logp[:, 0])).sum(-1)
        np.testing.assert_allclose(early.kl[:, 0], kl, atol=TOLERANCE)
        places = list(trace.answer_positions)
        if not places:
            assert captured.lens is None and captured.fast_lens is None
            continue
        compared += 1
        at, tokens = logp[:, places], torch.tensor([trace.ids[place] for place in places])
        exact, fast = captured.lens, captured.fast_lens
        assert exact is not None and fast is not None
        own = at.gather(2, tokens.expand(3, -1).unsqueeze(2)).squeeze(2)
        np.testing.assert_allclose(exact.logprob, own, atol=TOLERANCE)
        if bool(clear(at).all()):
            read += 1
            assert exact.said == tuple(tokenizer.decode(layer.argmax(-1).tolist()) for layer in at)
        # The fast one: the same logits, shared out among the generated token and the final layer's likeliest only.
        among = torch.zeros_like(at[0], dtype=torch.bool)
        among.scatter_(1, at[-1].topk(CANDIDATES).indices, True)
        among.scatter_(1, tokens[:, None], True)
        renormalised = torch.log_softmax(at.masked_fill(~among, -torch.inf), dim=-1)
        own = renormalised.gather(2, tokens.expand(3, -1).unsqueeze(2)).squeeze(2)
        np.testing.assert_allclose(fast.logprob, own, atol=TOLERANCE)
        kept = renormalised.masked_fill(~among, 0.0)
        np.testing.assert_allclose(fast.entropy, -(kept.exp() * kept * among).sum(-1), atol=TOLERANCE)
        np.testing.assert_allclose(fast.kl, (kept[-1:].exp() * (kept[-1:] - kept) * among).sum(-1), atol=TOLERANCE)
        if bool(clear(renormalised).all()):
            assert fast.said == tuple(tokenizer.decode(layer.argmax(-1).tolist()) for layer in renormalised)
    assert compared >= 4 and read >= 2
