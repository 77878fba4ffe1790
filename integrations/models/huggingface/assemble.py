"""From what was read to the records that flow through Demur."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ....core.evidence import Captured, CaptureRequest, LensTrace
from ....core.protocols import Generation
from ....core.response import Cost, Response, TokenTrace, TopToken
from .architecture import Architecture, resolve_layers
from .lens import candidate_lens_trace, lens_trace
from .recorder import Tape, TokenStatistics, Window
from .row import Row

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Plan:
    """A capture request with its layer numbers settled for one model.

    Attributes:
        hidden_layers, lens_layers, fast_lens_layers: ascending, non-negative; those of a lens end with the final layer
            or are empty.
        candidates: tokens a position that the fast lens looks at; 0 without one.
        prompt_lens, question_logprobs: see `CaptureRequest`.
    """

    top_k: int
    hidden_layers: tuple[int, ...]
    lens_layers: tuple[int, ...]
    fast_lens_layers: tuple[int, ...] = ()
    candidates: int = 0
    prompt_lens: bool = False
    question_logprobs: bool = False

    @property
    def layers(self) -> tuple[int, ...]:
        """All layers that need a hook."""
        return tuple(sorted({*self.hidden_layers, *self.lens_layers, *self.fast_lens_layers}))

    @property
    def kept_top(self) -> int:
        """How many of the likeliest tokens are needed at each position, for whatever purpose."""
        return max(self.top_k, self.candidates)


def plan_of(request: CaptureRequest, layer_count: int) -> Plan:
    """Settle the layers.

    Raises:
        ConfigurationError: a layer lies outside the model, top_k is negative, or there are fewer than 2 candidates.
    """
    from ....core.errors import ConfigurationError

    if request.top_k < 0:
        raise ConfigurationError(f"top_k={request.top_k} must be 0 or more")
    if request.lens_candidates < 2:
        raise ConfigurationError(f"lens_candidates={request.lens_candidates} must be at least 2")
    hidden = resolve_layers(request.hidden_layers, layer_count, what="hidden_layers")
    lens = _with_final(resolve_layers(request.lens_layers, layer_count, what="lens_layers"), layer_count)
    fast = _with_final(resolve_layers(request.fast_lens_layers, layer_count, what="fast_lens_layers"), layer_count)
    if request.prompt_lens and not lens:
        raise ConfigurationError("prompt_lens needs lens_layers: it views the same layers")
    return Plan(
        request.top_k,
        hidden,
        lens,
        fast,
        candidates=request.lens_candidates if fast else 0,
        prompt_lens=request.prompt_lens,
        question_logprobs=request.question_logprobs,
    )


def _with_final(layers: tuple[int, ...], layer_count: int) -> tuple[int, ...]:
    """KL is against the final layer."""
    return layers if not layers or layers[-1] == layer_count else (*layers, layer_count)


def _vector(tensor: torch.Tensor) -> NDArray[np.float32]:
    return tensor.float().cpu().numpy().astype(np.float32, copy=True)


def captured_prompt(
    architecture: Architecture,
    window: Window,
    statistics: TokenStatistics,
    plan: Plan,
    prompt_tokens: int,
    question_logprobs: torch.Tensor | None = None,
) -> Captured:
    """What is known when the prompt was read and nothing is generated yet; for the gate (one row)."""
    hidden = {f"prompt_last.L{layer}": _vector(window.states[layer][0, -1]) for layer in plan.hidden_layers}
    states = {layer: window.states[layer][0, -1:] for layer in plan.lens_layers}
    return Captured(
        hidden=hidden,
        prompt_lens=_lens_of_prompt(architecture, states, int(statistics.best_ids[0])) if plan.prompt_lens else None,
        question_logprobs=None if question_logprobs is None else _vector(question_logprobs),
        prompt_entropy=float(statistics.entropy[0]),
        prompt_top_logprob=float(statistics.best[0]),
        prompt_tokens=prompt_tokens,
    )


def _lens_of_prompt(architecture: Architecture, states: dict[int, torch.Tensor], likeliest: int) -> LensTrace:
    """The lens at the last prompt token, for the token that is likeliest to come first."""
    return lens_trace(architecture, states, [likeliest])


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
    The lens reads the position *before* each token of the answer's content, the one that predicted it.
    `answer_*` and both lenses leave scaffolding out by position, and are left out where the answer is empty.
    """

    tokenizer: Any
    architecture: Architecture
    plan: Plan
    name: str

    def generation(self, tape: Tape, index: int, row: Row, *, prompt_tokens: int, seconds: float) -> Generation:
        """Row `index` of the tape."""
        import torch

        count = len(row.ids)
        content = row.content
        hidden: dict[str, NDArray[np.float32]] = {}
        for layer in self.plan.hidden_layers:
            steps = tape.states[layer]
            hidden[f"prompt_last.L{layer}"] = _vector(steps[0][index].float())
            if content:
                # Step t holds the position that predicted token t, so token t's own position is step t + 1.
                own = torch.stack([steps[place + 1][index] for place in content]).float()
                hidden[f"answer_mean.L{layer}"] = _vector(own.mean(dim=0))
                hidden[f"answer_last.L{layer}"] = _vector(own[-1])
        question = tape.question_logprobs[index] if tape.question_logprobs else None
        captured = Captured(
            hidden=hidden,
            lens=self._lens(tape, index, row, content) if self.plan.lens_layers and content else None,
            fast_lens=self._fast_lens(tape, index, row, content) if self.plan.fast_lens_layers and content else None,
            prompt_lens=self._prompt_lens(tape, index) if self.plan.prompt_lens else None,
            question_logprobs=None if question is None else _vector(question),
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
            stopped_early=row.stopped_early,
        )
        return Generation(response, captured)

    def _predicting(
        self, tape: Tape, index: int, layers: Sequence[int], positions: Sequence[int]
    ) -> dict[int, torch.Tensor]:
        """Layer number to (positions, width): the states that predicted the tokens there."""
        import torch

        return {layer: torch.stack([tape.states[layer][place][index] for place in positions]) for layer in layers}

    def _lens(self, tape: Tape, index: int, row: Row, content: Sequence[int]) -> LensTrace:
        states = self._predicting(tape, index, self.plan.lens_layers, content)
        return lens_trace(self.architecture, states, [row.ids[place] for place in content], decode=self._text)

    def _fast_lens(self, tape: Tape, index: int, row: Row, content: Sequence[int]) -> LensTrace:
        import torch

        states = self._predicting(tape, index, self.plan.fast_lens_layers, content)
        candidates = torch.stack([tape.top_ids[place][index][: self.plan.candidates] for place in content])
        ids = [row.ids[place] for place in content]
        return candidate_lens_trace(self.architecture, states, ids, candidates, decode=self._text)

    def _prompt_lens(self, tape: Tape, index: int) -> LensTrace:
        states = self._predicting(tape, index, self.plan.lens_layers, [0])
        return _lens_of_prompt(self.architecture, states, int(tape.best_ids[0][index]))

    def _text(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def _trace(self, tape: Tape, index: int, row: Row) -> TokenTrace:
        count = len(row.ids)
        first, last = row.span
        content = frozenset(row.content)
        top: tuple[tuple[TopToken, ...], ...] = ()
        if self.plan.top_k:
            top = tuple(
                tuple(
                    TopToken(token=self._token(token_id), logprob=logprob)
                    for token_id, logprob in zip(
                        ids[index][: self.plan.top_k].tolist(), logprobs[index][: self.plan.top_k].tolist(), strict=True
                    )
                )
                for ids, logprobs in zip(tape.top_ids[:count], tape.top_logprobs[:count], strict=True)
            )
        return TokenTrace(
            ids=tuple(row.ids),
            tokens=tuple(piece or self._token(token_id) for piece, token_id in zip(row.pieces, row.ids, strict=True)),
            logprobs=tuple(float(step[index]) for step in tape.logprobs[:count]),
            top=top,
            entropy=tuple(float(step[index]) for step in tape.entropies[:count]),
            uniform_kl=tuple(float(step[index]) for step in tape.uniform_kls[:count]),
            answer_start=first,
            answer_end=last,
            scaffold=tuple(place for place in range(first, last) if place not in content),
        )

    def _token(self, token_id: int) -> str:
        return self.tokenizer.decode([token_id], skip_special_tokens=False, clean_up_tokenization_spaces=False)
