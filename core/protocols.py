"""The protocols that rooms meet at. Anything with these methods can be handed in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from .call import Call
from .decision import Stage
from .evidence import Captured, CaptureRequest, Document, Evidence, Need
from .outcome import Outcome
from .response import Response
from .review_item import ReviewItem
from .signal import Signal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Fingerprint:
    """What an artefact binds to on the model's side (rule 4).

    Attributes:
        identity: hash of weights, config and tokenizer (local) or provider:name:version (hosted).
        pinned: False for a hosted model whose weights can change behind its name.
        prompt: hash of the prompt template.
        decoding: hash of the decoding settings.
    """

    name: str
    identity: str
    pinned: bool
    prompt: str
    decoding: str


@dataclass(frozen=True)
class Generation:
    """A response and what was read off the model while it was made."""

    response: Response
    captured: Captured | None = None


Gate = Callable[[Captured], bool]
"""Asked once, after the prompt was read and before a token is kept: False stops generating."""


@runtime_checkable
class Model(Protocol):
    """Something that answers. `provides` says how far it lets itself be looked into."""

    name: str

    @property
    def provides(self) -> frozenset[Need]:
        """TEXT always; LOGPROBS (grey box); HIDDEN_STATES (white box)."""
        ...

    def fingerprint(self) -> Fingerprint: ...

    def generate(
        self,
        call: Call,
        *,
        documents: Sequence[Document] = (),
        capture: CaptureRequest | None = None,
        gate: Gate | None = None,
    ) -> Generation:
        """Answer the call; with `documents`, answer from them.

        Models that cannot look inside ignore `capture` and `gate`.

        Raises:
            ModelError: it did not answer; the message says why.
        """
        ...

    async def agenerate(
        self,
        call: Call,
        *,
        documents: Sequence[Document] = (),
        capture: CaptureRequest | None = None,
        gate: Gate | None = None,
    ) -> Generation: ...


@runtime_checkable
class Probe(Protocol):
    """Reads evidence, gives signals.

    Attributes:
        name: unique within a router.
        needs: what must be there; the assessor skips the probe (and says so) where the access is not given.
        stage: before generation, or after.
        cost_rank: cheap probes run first (0: arithmetic; 1: small model; 2: further generations).
        signal_names: the names of all signals that `measure` returns, always the same ones.
    """

    name: str
    needs: frozenset[Need]
    stage: Stage
    cost_rank: int

    @property
    def signal_names(self) -> tuple[str, ...]: ...

    def measure(self, evidence: Evidence) -> Sequence[Signal]: ...


@runtime_checkable
class Retriever(Protocol):
    """Finds passages."""

    def retrieve(self, query: str, *, limit: int = 5) -> Sequence[Document]: ...

    async def aretrieve(self, query: str, *, limit: int = 5) -> Sequence[Document]: ...


@runtime_checkable
class Embedder(Protocol):
    """Text to unit vectors of shape (n, width), float32."""

    name: str
    width: int

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]: ...


@runtime_checkable
class ReviewSink(Protocol):
    """Where deferred calls go. The router hands the item to the store in the decision's own transaction."""

    def enqueue(self, item: ReviewItem) -> str: ...


@runtime_checkable
class OutcomeSink(Protocol):
    """Where grades go."""

    def record(self, outcome: Outcome) -> str: ...


@runtime_checkable
class Clock(Protocol):
    """Time, so that tests can hold it."""

    def now(self) -> datetime:
        """Aware, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds; only differences mean something."""
        ...


@runtime_checkable
class Grader(Protocol):
    """Grades a response against gold answers.

    Raises:
        BadInput: the row cannot be graded by this grader (say, no gold answer).
    """

    name: str

    def grade(self, response: str, answers: Sequence[str], row: Mapping[str, object]) -> bool: ...
