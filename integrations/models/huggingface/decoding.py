"""How tokens are chosen. What changes the answers is stated here and hashed; nothing is inherited silently."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ....core.errors import ConfigurationError

if TYPE_CHECKING:
    from ....probes.prefix_confidence import StopHook


class EarlyStopRule(Protocol):
    """Judges answers while they are generated."""

    def begin(self) -> StopHook:
        """The hook of one generation."""
        ...


@dataclass(frozen=True)
class Decoding:
    """Greedy by default.

    Attributes:
        max_new_tokens: at most this many tokens are generated.
        stop: strings that end the answer.
        do_sample: draw from the distribution instead of taking the likeliest token.
        temperature, top_p, top_k: used when sampling; top_k 0 is off.
        seed: the same seed gives the same draws; None draws afresh. It does not change the distribution and so is
            not part of the hash.
        early_stop: watches each answer while it is generated and may end it, such as
            `probes.prefix_confidence.EarlyStop`. Answers that it lets finish are what they would have been, so it is no
            part of the hash either.

    Raises:
        ConfigurationError: a value is out of range.
    """

    max_new_tokens: int = 32
    stop: tuple[str, ...] = ()
    do_sample: bool = False
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    early_stop: EarlyStopRule | None = None

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise ConfigurationError(f"max_new_tokens={self.max_new_tokens} must be at least 1")
        if isinstance(self.stop, str) or any(not s for s in self.stop):
            raise ConfigurationError(f"stop={self.stop!r} must be a tuple of strings that are not empty")
        if not (math.isfinite(self.temperature) and self.temperature > 0.0):
            raise ConfigurationError(
                f"temperature={self.temperature} must be above 0; for the likeliest token use do_sample=False"
            )
        if not 0.0 < self.top_p <= 1.0:
            raise ConfigurationError(f"top_p={self.top_p} must lie in (0, 1]")
        if self.early_stop is not None and not callable(getattr(self.early_stop, "begin", None)):
            raise ConfigurationError(
                f"early_stop={self.early_stop!r} has no begin(); use probes.prefix_confidence.EarlyStop"
            )
        if self.top_k < 0:
            raise ConfigurationError(f"top_k={self.top_k} must be 0 (off) or more")

    def settings(self) -> dict[str, Any]:
        """What changes the distribution of answers, for hashing."""
        chosen: dict[str, Any] = {
            "max_new_tokens": self.max_new_tokens,
            "stop": list(self.stop),
            "do_sample": self.do_sample,
        }
        if self.do_sample:
            chosen |= {"temperature": self.temperature, "top_p": self.top_p, "top_k": self.top_k}
        return chosen

    def generation_config(self, *, eos: Sequence[int], pad: int, extra_tokens: int = 0) -> Any:
        """The same as a transformers GenerationConfig."""
        from transformers import GenerationConfig

        sampling: dict[str, Any] = {}
        if self.do_sample:
            sampling = {"temperature": self.temperature, "top_p": self.top_p, "top_k": self.top_k}
        return GenerationConfig(
            max_new_tokens=self.max_new_tokens + extra_tokens,
            do_sample=self.do_sample,
            eos_token_id=list(eos) or None,
            pad_token_id=pad,
            **sampling,
        )


@contextmanager
def neutral_defaults(model: Any) -> Iterator[None]:
    """Hide the model's own generation defaults while it generates.

    transformers fills every unset option from them, so a repetition penalty shipped with a model would change greedy
    answers without being in any hash.
    """
    from transformers import GenerationConfig

    shipped = model.generation_config
    model.generation_config = GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = shipped


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """torch's generator set to `seed` inside, and put back after; does nothing for None."""
    if seed is None:
        yield
        return
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def stop_strings(stop: Sequence[str] | None) -> tuple[str, ...]:
    """Stop strings as given by a user; one bare text would be taken for its letters."""
    if isinstance(stop, str):
        raise ConfigurationError(f"stop={stop!r} must be a list of strings, such as [{stop!r}]")
    return tuple(stop or ())
