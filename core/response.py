"""What came back from a model, with what it cost and the trace of its tokens."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from .record import JsonObject, Record, new_id
from .text import storable

ModelText = Annotated[str, AfterValidator(storable)]
"""What a model wrote; some providers send halves of characters, which are replaced."""


class TopToken(Record):
    """One of the k likeliest tokens at a position; `logprob` in nats."""

    token: ModelText
    logprob: float | None


class TokenTrace(Record):
    """The generated tokens, position by position.

    Attributes:
        ids: token ids; empty where the provider gives none.
        tokens: token strings.
        logprobs: natural-log probability of each chosen token; None where missing. NaN is kept as given and
            treated as missing by every probe.
        top: the likeliest tokens at each position (may be empty).
        entropy: entropy in nats of the full next-token distribution; empty where it is not known.
        uniform_kl: KL(uniform || next-token distribution) in nats, the self-certainty of arXiv 2502.18581; empty where
            it is not known.
        answer_start, answer_end: half-open token span of the answer proper, without scaffolding around it.
        scaffold: positions inside the span that are format and not content (the braces, quotes and keys of a tool
            call), ascending. By position, never by token: a ":" inside an argument is content.
    """

    ids: tuple[int, ...] = ()
    tokens: tuple[ModelText, ...] = ()
    logprobs: tuple[float | None, ...] = ()
    top: tuple[tuple[TopToken, ...], ...] = ()
    entropy: tuple[float | None, ...] = ()
    uniform_kl: tuple[float | None, ...] = ()
    answer_start: int = 0
    answer_end: int | None = None
    scaffold: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _lengths_agree(self) -> TokenTrace:
        count = len(self.logprobs)
        for name in ("ids", "tokens", "top", "entropy", "uniform_kl"):
            length = len(getattr(self, name))
            if length not in (0, count):
                raise ValueError(
                    f"TokenTrace.{name} has {length} entries, logprobs has {count}; they must agree or be empty"
                )
        end = count if self.answer_end is None else self.answer_end
        if not 0 <= self.answer_start <= end <= count:
            raise ValueError(f"answer span [{self.answer_start}, {end}) lies outside the {count} tokens")
        inside = range(self.answer_start, end)
        if list(self.scaffold) != sorted(set(self.scaffold)) or any(place not in inside for place in self.scaffold):
            raise ValueError(
                f"scaffold {self.scaffold[:20]} must ascend within the answer span [{inside.start}, {end})"
            )
        return self

    @property
    def answer_positions(self) -> tuple[int, ...]:
        """Positions of the answer's content: the span without its scaffolding."""
        end = len(self.logprobs) if self.answer_end is None else self.answer_end
        format_only = frozenset(self.scaffold)
        return tuple(place for place in range(self.answer_start, end) if place not in format_only)

    @property
    def answer_logprobs(self) -> tuple[float | None, ...]:
        """Log-probabilities of the answer's content."""
        return tuple(self.logprobs[place] for place in self.answer_positions)


class Cost(Record):
    """What something cost. Adds up with `+`.

    Attributes:
        money: in the unit of the policy (one unit for everything).
        tokens_in, tokens_out: prompt and generated tokens.
        seconds: wall-clock time.
    """

    money: float = Field(default=0.0, allow_inf_nan=False)
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = Field(default=0.0, allow_inf_nan=False)

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            money=self.money + other.money,
            tokens_in=self.tokens_in + other.tokens_in,
            tokens_out=self.tokens_out + other.tokens_out,
            seconds=self.seconds + other.seconds,
        )


class ToolCall(Record):
    """A tool call that a model proposes."""

    id: ModelText | None = None
    name: ModelText
    arguments: JsonObject = Field(default_factory=dict)


class Response(Record):
    """One finished generation.

    Attributes:
        text: what the model wrote; "" when it only proposed tool calls or was stopped before generating.
        trace: None where the model gives no log-probabilities (black box).
        model: the model's name for people; the artefact binds to a fingerprint, not to this.
        stopped_before_generating: the gate after the prompt said that generating is hopeless.
        truncated: generation ended at the token limit, or was stopped early; not at a stop.
        stopped_early: why it was stopped while it was generated; "" where it was not. Such an answer is unfinished and
            never gets a confidence.
    """

    id: str = Field(default_factory=lambda: new_id("resp"))
    text: ModelText = ""
    tool_calls: tuple[ToolCall, ...] = ()
    trace: TokenTrace | None = None
    cost: Cost = Cost()
    model: ModelText = "unknown"
    stopped_before_generating: bool = False
    truncated: bool = False
    stopped_early: str = ""
    created_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
