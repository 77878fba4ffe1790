"""The logit lens: what each layer would have said, read through the model's own unembedding.

For the token y_t the states are those of the position that predicted it, h_{t-1} (MICE, arXiv 2504.20168, with the
final norm applied to the inner layers). At layer L the lens equals the model's logits exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ....core.errors import ModelError
from ....core.evidence import LensTrace
from .architecture import Architecture

if TYPE_CHECKING:
    import torch

BLOCK_ELEMENTS = 4_000_000
"""Logits held at once, in numbers: 16 MB each for a handful of arrays, whatever the vocabulary."""


def lens_trace(
    architecture: Architecture,
    states: Mapping[int, torch.Tensor],
    ids: Sequence[int],
    *,
    block_elements: int = BLOCK_ELEMENTS,
) -> LensTrace:
    """View every layer in `states` through the unembedding.

    Args:
        architecture: of the model the states came from.
        states: layer number to (tokens, width); holds the final layer L. Row t predicted ids[t].
        ids: the generated tokens.
        block_elements: upper limit for rows × vocabulary of one block.
    """
    import torch

    layers = tuple(sorted(states))
    final = architecture.layer_count
    shape = (len(layers), len(ids))
    agreement, logprob, entropy, kl, log_rank = (np.zeros(shape, dtype=np.float32) for _ in range(5))
    weight = architecture.unembedding.weight
    assert isinstance(weight, torch.Tensor)
    rows = max(1, block_elements // weight.shape[0])
    with torch.no_grad():
        for begin in range(0, len(ids), rows):
            block = slice(begin, begin + rows)
            chosen = torch.tensor(ids[block], device=states[final].device).unsqueeze(1)
            final_logp = torch.log_softmax(architecture.logits(states[final][block], final=True), dim=-1)
            for i, layer in enumerate(layers):
                if layer == final:
                    logp = final_logp
                else:
                    logp = torch.log_softmax(architecture.logits(states[layer][block], final=False), dim=-1)
                own = logp.gather(1, chosen)
                agreement[i, block] = (logp.argmax(dim=-1, keepdim=True) == chosen).squeeze(1).float().cpu().numpy()
                logprob[i, block] = own.squeeze(1).cpu().numpy()
                entropy[i, block] = torch.special.entr(logp.exp()).sum(dim=-1).cpu().numpy()
                gap = torch.where(final_logp > -torch.inf, final_logp - logp, 0.0)
                kl[i, block] = (final_logp.exp() * gap).sum(dim=-1).clamp(min=0.0).cpu().numpy()
                log_rank[i, block] = ((logp > own).sum(dim=-1) + 1).double().log().cpu().numpy()
    return LensTrace(layers, agreement, logprob, entropy, kl, log_rank)


def check_final_layer(architecture: Architecture, state: torch.Tensor, logits: torch.Tensor) -> None:
    """Refuse a family whose logits are not what its unembedding gives: a wrong lens would look like a right one.

    Args:
        state: (width,) final-layer state of one position.
        logits: (vocabulary,) what the model itself gave there.

    Raises:
        ModelError: they differ.
    """
    import torch

    with torch.no_grad():
        through_lens = architecture.logits(state.unsqueeze(0), final=True)[0]
    scale = max(1.0, float(logits.abs().max()))
    gap = float((through_lens - logits.float()).abs().max())
    if not gap <= 1e-2 * scale and bool(torch.isfinite(logits).all()):
        raise ModelError(
            f"the logit lens gives logits {gap:.3g} away from the model's own at the final layer; "
            "this architecture does something to its logits that is not known here, so lens_layers cannot be used"
        )
