"""From what was read to the records that flow through Demur."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ....core.evidence import Captured, CaptureRequest
from ....core.protocols import Generation
from ....core.response import Cost, Response, TokenTrace, TopToken
from .architecture import Architecture, resolve_layers
from .lens import lens_trace
from .recorder import Tape, TokenStatistics, Window
from .row import Row

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Plan:
    """A capture request with its layer numbers settled for one model.

    Attributes:
        hidden_layers, lens_layers: ascending, non-negative; lens_layers ends with the final layer or is empty.
    """

    top_k: int
    hidden_layers: tuple[int, ...]
    lens_layers: tuple[int, ...]

    @property
    def layers(self) -> tuple[int, ...]:
        """All layers that need a hook."""
        return tuple(sorted({*self.hidden_layers, *self.lens_layers}))


def plan_of(request: CaptureRequest, layer_count: int) -> Plan:
    """Settle the layers.

    Raises:
        ConfigurationError: a layer lies outside the model, or top_k is negative.
    """
    from ....core.errors import ConfigurationError

    if request.top_k < 0:
        raise ConfigurationError(f"top_k={request.top_k} must be 0 or more")
    hidden = resolve_layers(request.hidden_layers, layer_count, what="hidden_layers")
    lens = resolve_layers(request.lens_layers, layer_count, what="lens_layers")
    if lens and lens[-1] != layer_count:
        lens = (*lens, layer_count)  # KL is against the final layer
    return Plan(request.top_k, hidden, lens)


def _vector(tensor: torch.Tensor) -> NDArray[np.float32]:
    return tensor.float().cpu().numpy().astype(np.float32, copy=True)


def captured_prompt(window: Window, statistics: TokenStatistics, plan: Plan, prompt_tokens: int) -> Captured:
    """What is known when the prompt was read and nothing is generated yet; for the gate (one row)."""
    hidden = {f"prompt_last.L{layer}": _vector(window.states[layer][0, -1]) for layer in plan.hidden_layers}
    return Captured(
        hidden=hidden,
        prompt_entropy=float(statistics.entropy[0]),
        prompt_top_logprob=float(statistics.best[0]),
        prompt_tokens=prompt_tokens,
    )


def stopped_generation(captured: Captured, *, model: str, seconds: float) -> Generation:
    """The gate said no: no text, no trace, the prompt paid for."""
    cost = Cost(tokens_in=captured.prompt_tokens or 0, seconds=seconds)
    return Generation(Response(model=model, cost=cost, stopped_before_generating=True), captured)


@dataclass(frozen=True)
class Assembler:
    """Makes generations from a tape. Vectors are float32.

    `prompt_last.L`: the last prompt token, the position that predicted the first generated token.
    `answer_mean.L`: mean over the answer span of the tokens' *own* positions (the state after reading each token).
    `answer_last.L`: the own position of the last token of the answer span.
    The lens reads the position *before* each token of the answer span, the one that predicted it.
    `answer_*` are left out where the answer is empty.
    """

    tokenizer: Any
    architecture: Architecture
    plan: Plan
    name: str

    def generation(self, tape: Tape, index: int, row: Row, *, prompt_tokens: int, seconds: float) -> Generation:
        """Row `index` of the tape."""
        import torch

        count = len(row.ids)
        first, last = row.span
        hidden: dict[str, NDArray[np.float32]] = {}
        for layer in self.plan.hidden_layers:
            states = torch.stack([step[index] for step in tape.states[layer][: count + 1]]).float()
            hidden[f"prompt_last.L{layer}"] = _vector(states[0])
            if last > first:
                # Step t holds the position that predicted token t, so token t's own position is step t + 1.
                own = states[first + 1 : last + 1]
                hidden[f"answer_mean.L{layer}"] = _vector(own.mean(dim=0))
                hidden[f"answer_last.L{layer}"] = _vector(own[-1])
        lens = None
        if self.plan.lens_layers and last > first:
            predicting = {
                layer: torch.stack([step[index] for step in tape.states[layer][first:last]])
                for layer in self.plan.lens_layers
            }
            lens = lens_trace(self.architecture, predicting, row.ids[first:last])
        captured = Captured(
            hidden=hidden,
            lens=lens,
            prompt_entropy=float(tape.entropies[0][index]),
            prompt_top_logprob=float(tape.best[0][index]),
            prompt_tokens=prompt_tokens,
        )
        response = Response(
            text=row.answer.text,
            trace=self._trace(tape, index, row),
            cost=Cost(tokens_in=prompt_tokens, tokens_out=count, seconds=seconds),
            model=self.name,
            truncated=row.truncated,
        )
        return Generation(response, captured)

    def _trace(self, tape: Tape, index: int, row: Row) -> TokenTrace:
        count = len(row.ids)
        first, last = row.span
        top: tuple[tuple[TopToken, ...], ...] = ()
        if self.plan.top_k:
            top = tuple(
                tuple(
                    TopToken(token=self._token(token_id), logprob=logprob)
                    for token_id, logprob in zip(ids[index].tolist(), logprobs[index].tolist(), strict=True)
                )
                for ids, logprobs in zip(tape.top_ids[:count], tape.top_logprobs[:count], strict=True)
            )
        return TokenTrace(
            ids=tuple(row.ids),
            tokens=tuple(piece or self._token(token_id) for piece, token_id in zip(row.pieces, row.ids, strict=True)),
            logprobs=tuple(float(step[index]) for step in tape.logprobs[:count]),
            top=top,
            entropy=tuple(float(step[index]) for step in tape.entropies[:count]),
            answer_start=first,
            answer_end=last,
        )

    def _token(self, token_id: int) -> str:
        return self.tokenizer.decode([token_id], skip_special_tokens=False, clean_up_tokenization_spaces=False)
