"""Any Python callable as a model."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from ...core.call import Call
from ...core.errors import ConfigurationError, ModelError
from ...core.evidence import CaptureRequest, Document, Need
from ...core.protocols import Fingerprint, Gate, Generation
from ...core.record import content_hash
from ...core.response import Cost, Response
from .errors import model_error, passes_through
from .huggingface.prompt import PromptTemplate, fill, quote, require_question
from .logprobs import trace_of


class FunctionModel:
    """Wraps a callable; implements `core.protocols.Model`.

    A sync callable used from async code runs in a thread. An async callable used from sync code runs in an event loop
    of its own; inside a running loop that is impossible and raises.

    Args:
        fn: called with the question (or, with `takes="call"`, with the call and the documents); sync or async.
        afn: the async twin, where there is one.
        name: for people.
        text: gets the text out of what `fn` returns; not needed where that is a string.
        logprobs: gets the log-probabilities out of it: a list of numbers or None, OpenAI-style dicts, a TokenTrace, or
            None for none.
        takes: "question" (a string; documents are quoted in it) or "call".
        fingerprint: what an artefact binds to; change it when the function changes. A string or a whole Fingerprint.
            None: unpinned, by the function's name.

    Raises:
        ConfigurationError: a setting cannot work.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        afn: Callable[..., Awaitable[Any]] | None = None,
        *,
        name: str | None = None,
        text: Callable[[Any], str] | None = None,
        logprobs: Callable[[Any], Any] | None = None,
        takes: Literal["question", "call"] = "question",
        prompt_template: PromptTemplate | None = None,
        fingerprint: str | Fingerprint | None = None,
    ) -> None:
        for what, given in (("fn", fn), ("afn", afn), ("text", text), ("logprobs", logprobs)):
            if given is not None and not callable(given):
                raise ConfigurationError(f"{what}={given!r} is not callable")
        if takes not in ("question", "call"):
            raise ConfigurationError(f"takes={takes!r}: use 'question' or 'call'")
        self._fn, self._afn = fn, afn
        home = f"{getattr(fn, '__module__', '?')}.{getattr(fn, '__qualname__', type(fn).__name__)}"
        self.name = name or str(getattr(fn, "__name__", type(fn).__name__))
        self._text, self._logprobs = text, logprobs
        self._takes = takes
        self._template = prompt_template or PromptTemplate()
        self._fingerprint = fingerprint
        self._home = home

    @property
    def provides(self) -> frozenset[Need]:
        return frozenset({Need.TEXT, Need.LOGPROBS}) if self._logprobs else frozenset({Need.TEXT})

    def fingerprint(self) -> Fingerprint:
        """The one that was given; otherwise the function's name, unpinned."""
        if isinstance(self._fingerprint, Fingerprint):
            return self._fingerprint
        return Fingerprint(
            name=self.name,
            identity=self._fingerprint or f"function:{self._home}",
            pinned=self._fingerprint is not None,
            prompt=content_hash({"documents": self._template.chat_documents}),
            decoding=content_hash({}),
        )

    def generate(
        self,
        call: Call,
        *,
        documents: Sequence[Document] = (),
        capture: CaptureRequest | None = None,
        gate: Gate | None = None,
    ) -> Generation:
        """Call the function. `capture` and `gate` are ignored.

        Raises:
            BadInput: the call asks nothing.
            ModelError: the function raised (its error is the cause), or gave no text.
        """
        arguments, started = self._arguments(call, documents), time.perf_counter()
        try:
            value = self._fn(*arguments)
            if inspect.isawaitable(value):
                value = _run(value, self.name)
        except Exception as error:
            if passes_through(error):
                raise
            raise model_error(self.name, error) from error
        return self._generation(value, started)

    async def agenerate(
        self,
        call: Call,
        *,
        documents: Sequence[Document] = (),
        capture: CaptureRequest | None = None,
        gate: Gate | None = None,
    ) -> Generation:
        """`generate` without blocking the event loop."""
        arguments, started = self._arguments(call, documents), time.perf_counter()
        try:
            if self._afn is not None:
                value = await self._afn(*arguments)
            elif inspect.iscoroutinefunction(self._fn):
                value = await self._fn(*arguments)
            else:
                value = await asyncio.to_thread(self._fn, *arguments)
                if inspect.isawaitable(value):
                    value = await value
        except Exception as error:
            if passes_through(error):
                raise
            raise model_error(self.name, error) from error
        return self._generation(value, started)

    def _arguments(self, call: Call, documents: Sequence[Document]) -> tuple[Any, ...]:
        require_question(call)
        if self._takes == "call":
            return call, tuple(documents)
        if not documents:
            return (call.question,)
        return (fill(self._template.chat_documents, {"question": call.question, "documents": quote(documents)}),)

    def _generation(self, value: Any, started: float) -> Generation:
        seconds = time.perf_counter() - started
        try:
            text = self._text(value) if self._text is not None else value
            trace = trace_of(self._logprobs(value)) if self._logprobs is not None else None
        except Exception as error:
            if passes_through(error):
                raise
            raise ModelError(
                f"text= or logprobs= of {self.name!r} failed on a {type(value).__name__}: {error!r}"
            ) from error
        if not isinstance(text, str):
            raise ModelError(
                f"{self.name!r} gave a {type(text).__name__}, not text; pass text= to say where the text is in it"
            )
        tokens_out = len(trace.logprobs) if trace is not None else 0
        return Generation(
            Response(text=text, trace=trace, cost=Cost(tokens_out=tokens_out, seconds=seconds), model=self.name)
        )


def _run(value: Awaitable[Any], name: str) -> Any:
    """Run an awaitable from sync code.

    Raises:
        ModelError: an event loop is running in this thread; waiting for it here would wait for ever.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:

        async def wait() -> Any:
            return await value

        return asyncio.run(wait())
    if inspect.iscoroutine(value):
        value.close()
    raise ModelError(f"{name!r} is async and an event loop is running; use agenerate (or the router's arun) instead")
