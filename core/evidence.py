"""Evidence: everything that was captured about one response, for probes to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pydantic import Field

from .call import Call
from .record import JsonObject, Record
from .response import Response

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .protocols import Model


class Need(StrEnum):
    """What a probe needs to see. The access a model gives decides which probes can run."""

    LOGPROBS = "logprobs"
    HIDDEN_STATES = "hidden_states"
    SAMPLES = "samples"
    TEXT = "text"
    DOCUMENTS = "documents"
    MEMORY = "memory"
    MODEL = "model"


class Document(Record):
    """A retrieved passage. Its text is data, never instructions.

    Attributes:
        score: the retriever's own score, higher is closer; None where it gives none.
    """

    id: str
    text: str
    source: str = ""
    score: float | None = None
    metadata: JsonObject = Field(default_factory=dict)


@dataclass(frozen=True)
class LensTrace:
    """Logit lens: every chosen layer's view of each generated token (nats; natural log).

    All arrays have shape (layers, tokens); tokens are those of the answer's content
    (`TokenTrace.answer_positions`). Layer numbers count as in
    Hugging Face's `hidden_states`: 0 is the embedding output, L the final layer (after the final norm).

    Attributes:
        layers: the layer numbers, ascending; the last one is the final layer.
        agreement: 1.0 where the layer's likeliest token is the token that was generated.
        logprob: log-probability the layer gives the generated token.
        entropy: entropy of the layer's distribution.
        kl: KL(final layer || this layer).
        log_rank: natural log of the 1-based rank of the generated token in the layer's distribution.
        said: per layer, what it would have written: its likeliest token at each position, decoded together (MICE,
            arXiv 2504.20168); empty where it was not read.
        candidates: 0 where every token of the vocabulary was looked at (exact); k where only the k likeliest of the
            final layer (and the generated one) were, renormalised (fast: another scale).
    """

    layers: tuple[int, ...]
    agreement: NDArray[np.float32]
    logprob: NDArray[np.float32]
    entropy: NDArray[np.float32]
    kl: NDArray[np.float32]
    log_rank: NDArray[np.float32]
    said: tuple[str, ...] = ()
    candidates: int = 0


@dataclass(frozen=True)
class Captured:
    """What was read off a white-box model in the forward passes that made the response.

    Attributes:
        hidden: vectors by name, "prompt_last.L12", "answer_mean.L12", "answer_last.L12"; each (width,) float32.
        lens: the exact logit lens, or None where it was not asked for.
        fast_lens: the lens over candidate tokens only; None where it was not asked for.
        prompt_lens: the lens at the last prompt token, before anything is generated: one "token", the likeliest first
            one; None where it was not asked for.
        question_logprobs: (tokens,) log-probability (nats) the model gave each token of the question when it read it;
            None where it was not asked for or the question is not found in the prompt.
        prompt_entropy: entropy (nats) of the next-token distribution after the prompt.
        prompt_top_logprob: log-probability of the likeliest first token.
        prompt_tokens: length of the prompt.
    """

    hidden: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    lens: LensTrace | None = None
    fast_lens: LensTrace | None = None
    prompt_lens: LensTrace | None = None
    question_logprobs: NDArray[np.float32] | None = None
    prompt_entropy: float | None = None
    prompt_top_logprob: float | None = None
    prompt_tokens: int | None = None


@dataclass(frozen=True)
class CaptureRequest:
    """What a model is asked to read while it generates.

    Attributes:
        top_k: likeliest tokens to keep at each position (0: none).
        hidden_layers: layer numbers whose vectors are kept; negative counts from the end (-1 is the final layer).
        lens_layers: layer numbers to view through the logit lens; "all" or a tuple; None for no lens.
        fast_lens_layers: the same for the fast lens, which looks at `lens_candidates` tokens a position.
        lens_candidates: how many of the final layer's likeliest tokens the fast lens looks at.
        prompt_lens: view the last prompt token through the lens of the same layers, too.
        question_logprobs: read how likely each token of the question was.
    """

    top_k: int = 5
    hidden_layers: tuple[int, ...] = ()
    lens_layers: tuple[int, ...] | str | None = None
    fast_lens_layers: tuple[int, ...] | str | None = None
    lens_candidates: int = 64
    prompt_lens: bool = False
    question_logprobs: bool = False


@dataclass(frozen=True)
class Evidence:
    """Call + response + captures. `response` is None before generation.

    Attributes:
        arm: how the response came about: "answer", "retrieve", or "escalate:NAME"; calibration is per arm.
        samples: further generations for the same call, where they were drawn.
        episodes: recalled experience (opaque here; memory knows the type).
        model: the model itself, for probes that need to ask it.
        asked_at: when the call was made, for replays: later experience may not speak. None: now.
    """

    call: Call
    response: Response | None = None
    captured: Captured | None = None
    arm: str = "answer"
    samples: tuple[Response, ...] = ()
    documents: tuple[Document, ...] = ()
    episodes: tuple[Any, ...] = ()
    model: Model | None = None
    asked_at: datetime | None = None
