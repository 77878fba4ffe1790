"""What a guard was told, checked when the function is decorated and not at its first call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ...core.call import SideEffects
from ...core.errors import ConfigurationError

RAISE: Literal["raise"] = "raise"


@dataclass(frozen=True)
class GuardOptions:
    """The arguments of `Router.guard`.

    Attributes:
        task: the population that shares a calibration.
        text: gets the text out of what the function returns (default: the value itself if it is a str, else `str`).
        logprobs: gets the token log-probabilities out of it: floats, OpenAI-style dicts, or a `TokenTrace`.
        question: gets the question out of the arguments (default: the first str argument).
        build: makes the function's own type out of a larger model's text; without it, and where the function does
            not return str, escalation is not available.
        documents: the keyword through which the function takes retrieved documents; without it, retrieval is not
            available.
        side_effects: anything but "none" makes it a tool: decided upon before it runs, and run at most once.
        tool: a tool without side effects.
        proposal: for tools, gets the response that proposed the call out of the arguments, to judge it by.
        idempotent: running the tool twice under one key is harmless.
        idempotency_key: gets the key out of the arguments; the same key never has its effect twice.
        on_abstain, on_defer: "raise", a value to return instead, or a callable that gets the `Result`.
        stream: for generators, None buffers until the decision; "late" emits at once and ends with the `Result`.
    """

    name: str
    task: str
    tenant: str
    text: Callable[[Any], str] | None = None
    logprobs: Callable[[Any], Any] | None = None
    question: Callable[..., str] | None = None
    build: Callable[[str], Any] | None = None
    documents: str | None = None
    side_effects: SideEffects = SideEffects.NONE
    tool: bool = False
    proposal: Callable[..., Any] | None = None
    idempotent: bool = False
    idempotency_key: Callable[..., str] | None = None
    on_abstain: Any = RAISE
    on_defer: Any = RAISE
    stream: str | None = None

    def __post_init__(self) -> None:
        for option in ("text", "logprobs", "question", "build", "proposal", "idempotency_key"):
            value = getattr(self, option)
            if value is not None and not callable(value):
                raise ConfigurationError(f"guard({option}={value!r}) of {self.name}: needs a callable")
        if self.stream not in (None, "late"):
            raise ConfigurationError(f"guard(stream={self.stream!r}) of {self.name}: use None (buffer) or 'late'")
        if self.is_tool and self.stream == "late":
            raise ConfigurationError(
                f"guard(stream='late') of {self.name}: a tool's effect cannot be taken back after it was emitted; "
                "leave stream out"
            )
        if self.proposal is not None and not self.is_tool:
            raise ConfigurationError(f"guard(proposal=...) of {self.name}: only tools are proposed; add side_effects=")
        if self.idempotent and not self.is_tool:
            raise ConfigurationError(
                f"guard(idempotent=True) of {self.name}: only tools have effects; add side_effects="
            )

    @property
    def is_tool(self) -> bool:
        return self.tool or self.side_effects is not SideEffects.NONE
