"""The logit lens: what each layer would have said, read through the model's own unembedding.

For the token y_t the states are those of the position that predicted it, h_{t-1} (MICE, arXiv 2504.20168, with the
final norm applied to the inner layers). At layer L the lens equals the model's logits exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ....core.errors import ModelError
from ....core.evidence import LensTrace
from .architecture import Architecture

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

BLOCK_ELEMENTS = 16_000_000
"""Logits held at once, in numbers: 64 MB each for a handful of arrays, whatever the vocabulary."""


def lens_trace(
    architecture: Architecture,
    states: Mapping[int, torch.Tensor],
    ids: Sequence[int],
    *,
    decode: Callable[[Sequence[int]], str] | None = None,
    block_elements: int = BLOCK_ELEMENTS,
) -> LensTrace:
    """View every layer in `states` through the unembedding.

    Args:
        architecture: of the model the states came from.
        states: layer number to (tokens, width); holds the final layer L. Row t predicted ids[t].
        ids: the generated tokens.
        decode: token ids to text, for `LensTrace.said`; None leaves it empty.
        block_elements: upper limit for rows × vocabulary of one block.
    """
    import torch

    layers = tuple(sorted(states))
    shape = (len(layers), len(ids))
    parts = [np.zeros(shape, dtype=np.float32) for _ in range(5)]
    likeliest = np.zeros(shape, dtype=np.int64)
    weight = architecture.unembedding.weight
    assert isinstance(weight, torch.Tensor)
    # All layers of a token go through the unembedding together: reading its weights is what costs.
    tokens = max(1, block_elements // (weight.shape[0] * len(layers)))
    with torch.no_grad():
        for begin in range(0, len(ids), tokens):
            block = slice(begin, begin + tokens)
            chosen = torch.tensor(ids[block], device=states[layers[-1]].device)
            logp = torch.log_softmax(_all_logits(architecture, states, layers, block), dim=-1)
            for part, values in zip(parts, _read(logp, chosen), strict=True):
                part[:, block] = values.cpu().numpy()
            likeliest[:, block] = logp.argmax(dim=-1).cpu().numpy()
    return LensTrace(layers, *parts, said=_said(likeliest, decode))


def candidate_lens_trace(
    architecture: Architecture,
    states: Mapping[int, torch.Tensor],
    ids: Sequence[int],
    candidates: torch.Tensor,
    *,
    decode: Callable[[Sequence[int]], str] | None = None,
) -> LensTrace:
    """The fast lens: only candidate tokens are looked at, so no pass over the vocabulary is made.

    Each position's distribution is renormalised over the generated token and its candidates (the likeliest tokens of
    the final layer), at every layer alike: log-probabilities are higher and entropies lower than the exact lens's.

    Args:
        states, ids, decode: as in `lens_trace`.
        candidates: (tokens, k) token ids, distinct in each row; the generated token may be among them.
    """
    import torch

    layers = tuple(sorted(states))
    final = layers[-1]
    weight, bias = architecture.unembedding.weight, getattr(architecture.unembedding, "bias", None)
    assert isinstance(weight, torch.Tensor)
    with torch.no_grad():
        chosen = torch.tensor(list(ids), device=candidates.device)
        looked_at = torch.cat([chosen[:, None], candidates], dim=1)
        readable = torch.stack([architecture.readable(states[layer], final=layer == final) for layer in layers])
        logits = torch.einsum("ltw,tkw->ltk", readable.to(weight.dtype), weight[looked_at]).float()
        if isinstance(bias, torch.Tensor):
            logits = logits + bias[looked_at].float()
        logits = architecture.scaled(logits)
        again = torch.zeros_like(looked_at, dtype=torch.bool)
        again[:, 1:] = candidates == chosen[:, None]  # the generated token counts once
        logp = torch.log_softmax(logits.masked_fill(again, -torch.inf), dim=-1)
        parts = [values.cpu().numpy().astype(np.float32) for values in _read(logp, torch.zeros_like(chosen))]
        best = logp.argmax(dim=-1)
        likeliest = looked_at.unsqueeze(0).expand(len(layers), -1, -1).gather(-1, best.unsqueeze(-1)).squeeze(-1)
    said = _said(likeliest.cpu().numpy(), decode)
    return LensTrace(layers, *parts, said=said, candidates=int(candidates.shape[1]))


def _said(likeliest: NDArray[np.int64], decode: Callable[[Sequence[int]], str] | None) -> tuple[str, ...]:
    """What each layer would have written."""
    return () if decode is None else tuple(decode(row.tolist()) for row in likeliest)


def _all_logits(
    architecture: Architecture, states: Mapping[int, torch.Tensor], layers: Sequence[int], block: slice
) -> torch.Tensor:
    """(layers, tokens, vocabulary)."""
    import torch

    final = architecture.layer_count
    stacked = torch.stack([architecture.readable(states[layer][block], final=layer == final) for layer in layers])
    return architecture.unembed(stacked)


def _read(logp: torch.Tensor, chosen: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Agreement, log-probability, entropy, KL(final || layer) and log-rank of the chosen tokens; each (layers, tokens).

    Args:
        logp: (layers, tokens, vocabulary); the last layer is the final one.
        chosen: (tokens,) token ids.
    """
    import torch

    index = chosen.view(1, -1, 1).expand(logp.shape[0], -1, 1)
    own = logp.gather(-1, index)
    agreement = (logp.argmax(dim=-1) == chosen).float()
    entropy = torch.special.entr(logp.exp()).sum(dim=-1)
    final = logp[-1]
    weight = final.exp()
    kl = torch.stack([_kl(weight, final, layer) for layer in logp])
    log_rank = ((logp > own).sum(dim=-1) + 1).double().log()
    return agreement, own.squeeze(-1), entropy, kl, log_rank


def _kl(weight: torch.Tensor, final: torch.Tensor, layer: torch.Tensor) -> torch.Tensor:
    """KL(final || layer) of each token; what the final layer rules out counts nothing."""
    import torch

    gap = torch.where(final > -torch.inf, final - layer, torch.zeros_like(final))
    return (weight * gap).sum(dim=-1).clamp(min=0.0)


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
