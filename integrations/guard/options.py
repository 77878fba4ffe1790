"""What a guard was told, checked when the function is decorated and not at its first call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ...core.call import SideEffects
from ...core.errors import ConfigurationError
from ...router.waiting import check_timeout

RAISE: Literal["raise"] = "raise"
WAIT: Literal["wait"] = "wait"

_CALLABLES = ("text", "logprobs", "question", "build", "proposal", "idempotency_key")
_OF_ANSWERS = ("text", "logprobs", "question", "build", "documents")


@dataclass(frozen=True)
class GuardOptions:
    """The arguments of `Router.guard`.

    Attributes:
        name: what the log, the queue and `[tools.NAME]` in the settings call it (default: its qualified name).
        task: the population that shares a calibration.
        tenant: whose calls these are.
        text: gets the text out of what the function returns (default: the value itself if it is a str, else `str`).
        logprobs: gets the token log-probabilities out of it: floats, OpenAI-style dicts, or a `TokenTrace`.
        question: gets the question out of the arguments (default: the first str argument).
        build: makes the function's own type out of a larger model's text; without it, and where the function is not
            annotated `-> str`, escalation is not available.
        documents: the keyword through which the function takes retrieved documents; without it, retrieval is not
            available.
        side_effects: anything but "none" makes it a tool: decided upon before it runs, and run at most once.
        tool: a tool without side effects.
        proposal: for tools, gets the response that proposed the call out of the arguments, to judge it by.
        idempotent: running the tool twice under one key is harmless.
        idempotency_key: gets the key out of the arguments; the same key never has its effect twice.
        conversation: gets the conversation's id out of the arguments, or names the parameter that holds it.
        on_abstain, on_defer: "raise", a value to return instead, or a callable that gets the `Result`.
            `on_defer="wait"` waits until a human has decided, and then returns or raises as that says.
        wait_timeout: seconds that waiting may take; then `StillWaiting` is raised. None: for ever.
        stream: for generators, None buffers until the decision; "late" emits at once and ends with the `Result`.

    Raises:
        ConfigurationError: an option cannot work.
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
    conversation: Callable[..., Any] | str | None = None
    on_abstain: Any = RAISE
    on_defer: Any = RAISE
    wait_timeout: float | None = None
    stream: str | None = None

    def __post_init__(self) -> None:
        for option in ("name", "task", "tenant"):
            value = getattr(self, option)
            if not isinstance(value, str) or not 1 <= len(value) <= 200:
                raise ConfigurationError(f"guard({option}={value!r}): needs a text of 1 to 200 characters")
        for option in _CALLABLES:
            value = getattr(self, option)
            if value is not None and not callable(value):
                self._refuse(f"{option}={value!r}", "needs a callable")
        for option in ("tool", "idempotent"):
            if not isinstance(getattr(self, option), bool):
                self._refuse(f"{option}={getattr(self, option)!r}", "needs True or False")
        if self.documents is not None and not isinstance(self.documents, str):
            self._refuse(f"documents={self.documents!r}", "needs the name of a keyword")
        if self.conversation is not None and not (isinstance(self.conversation, str) or callable(self.conversation)):
            self._refuse(f"conversation={self.conversation!r}", "needs a callable or the name of a parameter")
        if self.stream not in (None, "late"):
            self._refuse(f"stream={self.stream!r}", "use None (buffer) or 'late'")
        self._check_waiting()
        if self.is_tool:
            self._check_tool()
        else:
            self._check_answer()

    def _check_waiting(self) -> None:
        if self.wait_timeout is not None and not self.waits:
            self._refuse(f"wait_timeout={self.wait_timeout!r}", "only with on_defer='wait'")
        try:
            check_timeout(self.wait_timeout)
        except ConfigurationError as error:
            self._refuse(f"wait_timeout={self.wait_timeout!r}", str(error))
        if self.waits and self.stream == "late":
            self._refuse("on_defer='wait'", "with stream='late' everything is out before it is judged")

    def _check_tool(self) -> None:
        if self.stream == "late":
            self._refuse("stream='late'", "a tool's effect cannot be taken back once emitted; leave stream out")
        for option in _OF_ANSWERS:
            if getattr(self, option) is not None:
                self._refuse(f"{option}=...", "only for functions that answer; a tool is judged by its proposal=")

    def _check_answer(self) -> None:
        if self.proposal is not None:
            self._refuse("proposal=...", "only tools are proposed; add side_effects= or tool=True")
        if self.idempotent:
            self._refuse("idempotent=True", "only tools have effects; add side_effects= or tool=True")
        if self.stream == "late" and self.idempotency_key is not None:
            self._refuse("idempotency_key=...", "with stream='late' the function has run before its key is looked up")

    def _refuse(self, given: str, why: str) -> None:
        raise ConfigurationError(f"guard({given}) of {self.name}: {why}")

    @property
    def waits(self) -> bool:
        """Does a call wait for the human? Of all texts this one alone is not returned as a value."""
        return isinstance(self.on_defer, str) and self.on_defer == WAIT

    @property
    def is_tool(self) -> bool:
        return self.tool or self.side_effects is not SideEffects.NONE
