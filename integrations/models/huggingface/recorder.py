"""Reading a model from inside while it generates, in the same forward passes.

Forward hooks keep only the positions that are wanted (the last one of each pass), so a long prompt costs no memory.
They return None: a hook that returns a value would replace the layer's output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from .architecture import Architecture

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch


def _first(output: Any) -> torch.Tensor:
    """The hidden states in what a module returned: a tensor, a tuple that starts with one, or a model output."""
    if isinstance(output, tuple):
        return output[0]
    return getattr(output, "last_hidden_state", output)


class Window:
    """Hooks on a model. After each forward pass `states` and `logits` hold the last `keep` positions.

    Attributes:
        states: layer number to (rows, keep, width).
        logits: (rows, keep, vocabulary), as the model returns them: after scaling and soft-capping, before any
            processing for sampling.
        prompt_states: (rows, keep_of_prompt, width), the final layer's last positions in the first pass.
    """

    def __init__(
        self, architecture: Architecture, layers: Sequence[int], *, keep: int = 1, keep_of_prompt: int = 0
    ) -> None:
        self._architecture = architecture
        self._layers = tuple(layers)
        self._keep = keep
        self._keep_of_prompt = keep_of_prompt
        self.prompt_states: torch.Tensor | None = None
        self.states: dict[int, torch.Tensor] = {}
        self.logits: torch.Tensor | None = None

    def _tail(self, tensor: torch.Tensor) -> torch.Tensor:
        # A view would keep the whole prompt's states alive.
        return tensor[:, -self._keep :].detach().clone()

    def _store(self, layer: int) -> Callable[..., None]:
        def hook(module: Any, args: Any, output: Any) -> None:
            self.states[layer] = self._tail(_first(output))

        return hook

    def _store_prompt(self, module: Any, args: Any, output: Any) -> None:
        if self.prompt_states is None:
            self.prompt_states = _first(output)[:, -self._keep_of_prompt :].detach().clone()

    def _store_input(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.states[0] = self._tail(args[0] if args else kwargs["hidden_states"])

    def _store_logits(self, module: Any, args: Any, output: Any) -> None:
        self.logits = self._tail(output.logits)

    @contextmanager
    def open(self, model: Any) -> Iterator[Window]:
        """Attach the hooks; they are removed again whatever happens."""
        parts = self._architecture
        with ExitStack() as stack:
            stack.callback(model.register_forward_hook(self._store_logits).remove)
            if self._keep_of_prompt:
                stack.callback(parts.decoder.register_forward_hook(self._store_prompt).remove)
            for layer in self._layers:
                if layer == parts.layer_count:
                    # Not the last block: its output is not normed yet.
                    handle = parts.decoder.register_forward_hook(self._store(layer))
                elif layer == 0:
                    handle = parts.blocks[0].register_forward_pre_hook(self._store_input, with_kwargs=True)
                else:
                    handle = parts.blocks[layer - 1].register_forward_hook(self._store(layer))
                stack.callback(handle.remove)
            yield self


class TokenStatistics:
    """Per-position numbers of the next-token distribution, kept instead of the distribution itself."""

    def __init__(self, logits: torch.Tensor, top_k: int) -> None:
        """Args: logits (rows, vocabulary); top_k ≥ 0."""
        import torch

        logits = logits.float()
        self._logits = logits
        self._normaliser = torch.logsumexp(logits, dim=-1)
        logp = logits - self._normaliser.unsqueeze(-1)
        self.entropy = torch.special.entr(logp.exp()).sum(dim=-1)
        self.uniform_kl = -(logp.mean(dim=-1) + math.log(logits.shape[-1]))
        top = torch.topk(logp, min(max(top_k, 1), logits.shape[-1]), dim=-1)
        self.best = top.values[:, 0]
        self.best_ids = top.indices[:, 0]
        self.top_logprobs = top.values[:, :top_k]
        self.top_ids = top.indices[:, :top_k]

    def logprob(self, ids: torch.Tensor) -> torch.Tensor:
        """Log-probability of `ids` (rows,)."""
        return self._logits.gather(1, ids.unsqueeze(1)).squeeze(1) - self._normaliser


class Tape:
    """What was read at each step, for all rows of a batch.

    Attributes:
        ids: per step (rows,), the token that was chosen.
        logprobs, entropies, uniform_kls: per step (rows,).
        top_logprobs, top_ids: per step (rows, k).
        best, best_ids: per step (rows,), the likeliest token and its log-probability.
        states: layer number to a list per step of (rows, width): the position that predicted the step's token.
            May hold one step more than `ids`: the last token's own state.
        question_logprobs: a row each, (tokens,) of the question in its prompt; None where it is not known.
    """

    def __init__(self) -> None:
        self.ids: list[torch.Tensor] = []
        self.logprobs: list[torch.Tensor] = []
        self.entropies: list[torch.Tensor] = []
        self.uniform_kls: list[torch.Tensor] = []
        self.top_logprobs: list[torch.Tensor] = []
        self.top_ids: list[torch.Tensor] = []
        self.best: list[torch.Tensor] = []
        self.best_ids: list[torch.Tensor] = []
        self.states: dict[int, list[torch.Tensor]] = {}
        self.question_logprobs: list[torch.Tensor | None] = []

    def add_token(self, statistics: TokenStatistics, ids: torch.Tensor) -> None:
        """One step's token and its numbers."""
        self.ids.append(ids)
        self.logprobs.append(statistics.logprob(ids))
        self.entropies.append(statistics.entropy)
        self.uniform_kls.append(statistics.uniform_kl)
        self.best.append(statistics.best)
        self.best_ids.append(statistics.best_ids)
        self.top_logprobs.append(statistics.top_logprobs)
        self.top_ids.append(statistics.top_ids)

    def add_states(self, states: dict[int, torch.Tensor], position: int) -> None:
        """One position's states; `states` as in `Window`."""
        for layer, tensor in states.items():
            self.states.setdefault(layer, []).append(tensor[:, position])
