"""Where things are inside a Hugging Face causal language model, whatever its family.

Layer numbers count as in `output_hidden_states`: 0 is what goes into the first block (the embedding output), l the
output of block l, and L what the unembedding reads: the output of the last block after the final norm. Mamba's own
`hidden_states` leave the embedding out; the numbers here do not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....core.errors import ConfigurationError, ModelError

if TYPE_CHECKING:
    import torch
    from torch import nn

_NORMS = ("norm", "ln_f", "final_layer_norm", "final_layernorm", "norm_f")


@dataclass(frozen=True)
class Architecture:
    """The parts of a model that the window and the logit lens need.

    Attributes:
        decoder: the stack of blocks without the unembedding.
        blocks: the L blocks.
        norm: the final norm; None where the family has none (some OPT).
        project_out: OPT's projection before the unembedding; None elsewhere.
        unembedding: hidden state to logits.
        logits_divisor, logits_factor, softcap: what the family does to the logits afterwards.
    """

    decoder: nn.Module
    blocks: Any
    norm: nn.Module | None
    project_out: nn.Module | None
    unembedding: nn.Module
    logits_divisor: float
    logits_factor: float
    softcap: float | None

    @property
    def layer_count(self) -> int:
        """L, the number of the final layer."""
        return len(self.blocks)

    def readable(self, states: torch.Tensor, *, final: bool) -> torch.Tensor:
        """Hidden states (..., width) as the unembedding reads them.

        Args:
            final: the states are of layer L, already past the final norm; they are not normed twice.
        """
        if final:
            return states
        if self.norm is not None:
            states = self.norm(states)
        return states if self.project_out is None else self.project_out(states)

    def unembed(self, states: torch.Tensor) -> torch.Tensor:
        """Readable states (..., width) to logits (..., vocabulary), float32."""
        import torch

        weight = self.unembedding.weight
        assert isinstance(weight, torch.Tensor)
        return self.scaled(self.unembedding(states.to(weight.dtype)).float())

    def scaled(self, logits: torch.Tensor) -> torch.Tensor:
        """What the family does to what comes out of the unembedding."""
        import torch

        scale = self.logits_factor / self.logits_divisor
        if scale != 1.0:  # a pass over the vocabulary for nothing costs as much as the softmax
            logits = logits * scale
        return logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)

    def logits(self, states: torch.Tensor, *, final: bool) -> torch.Tensor:
        """Hidden states (..., width) to logits (..., vocabulary), float32: the logit lens."""
        return self.unembed(self.readable(states, final=final))


def architecture_of(model: Any) -> Architecture:
    """Find the parts.

    Raises:
        ModelError: the family keeps its blocks or its unembedding somewhere unknown.
    """
    decoder = model.get_decoder()
    blocks = getattr(decoder, "layers", None)
    if blocks is None:
        blocks = getattr(decoder, "h", None)
    unembedding = model.get_output_embeddings()
    if blocks is None or unembedding is None:
        raise ModelError(
            f"{type(model).__name__} keeps its blocks or its unembedding in an unknown place; "
            "hidden states and the logit lens are not available for it"
        )
    config = model.config.get_text_config()
    norm = next((found for name in _NORMS if (found := getattr(decoder, name, None)) is not None), None)
    return Architecture(
        decoder=decoder,
        blocks=blocks,
        norm=norm,
        project_out=getattr(decoder, "project_out", None),
        unembedding=unembedding,
        logits_divisor=float(getattr(config, "logits_scaling", None) or 1.0),
        logits_factor=float(getattr(config, "logit_scale", None) or 1.0),
        softcap=getattr(config, "final_logit_softcapping", None),
    )


def resolve_layers(wanted: Iterable[int] | str | None, layer_count: int, *, what: str) -> tuple[int, ...]:
    """Layer numbers, ascending, without repeats, all non-negative.

    Args:
        wanted: numbers (negative from the end), "all", or None for none.
        what: the name of the setting, for the message.

    Raises:
        ConfigurationError: a number outside the model, or a word other than "all".
    """
    if wanted is None:
        return ()
    if isinstance(wanted, str):
        if wanted != "all":
            raise ConfigurationError(f'{what}={wanted!r}: use "all", None or a tuple of layer numbers')
        return tuple(range(layer_count + 1))
    found = set()
    for number in wanted:
        if not -(layer_count + 1) <= number <= layer_count:
            raise ConfigurationError(
                f"{what} asks for layer {number}; this model has layers 0 to {layer_count} "
                f"(or -{layer_count + 1} to -1 from the end)"
            )
        found.add(number if number >= 0 else number + layer_count + 1)
    return tuple(sorted(found))


def context_limit(model: Any) -> int | None:
    """The largest number of tokens the model can read; None where the architecture has no such limit (Mamba)."""
    config = model.config.get_text_config()
    for name in ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length"):
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return None
