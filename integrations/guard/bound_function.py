"""One use of a decorated function, as the model of its run."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.call import Call
from ...core.decision import Route
from ...core.errors import ConfigurationError
from ...core.evidence import CaptureRequest, Document, Need
from ...core.protocols import Fingerprint, Gate, Generation
from ...core.response import Cost, Response, TokenTrace
from ...core.run import Result
from ...core.text import said, storable
from ..models.logprobs import trace_of
from .kinds import Kind, kind_of, returns_text
from .options import GuardOptions

logger = logging.getLogger("demur")

_NOTHING = object()


@dataclass
class Heard:
    """What a late generator has emitted already, how long that took, and the error it ended with."""

    items: list[Any] = field(default_factory=list)
    seconds: float = 0.0
    error: Exception | None = None


class Items(list[Any]):
    """What a generator emitted, and what it returned at its end (to `yield from`)."""

    returned: Any = None

    @classmethod
    def of(cls, source: Generator[Any, None, Any]) -> Items:
        items = cls()
        while True:
            try:
                items.append(next(source))
            except StopIteration as end:
                items.returned = end.value
                return items


class BoundFunction:
    """The function with the arguments of one call; implements `core.protocols.Model`.

    It keeps the value in the function's own type, so that what is delivered is what the function returned, and lets
    the function's own exceptions through as they are.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        options: GuardOptions,
        *,
        heard: Heard | None = None,
    ) -> None:
        self._function = function
        self._args = args
        self._kwargs = dict(kwargs)
        self._options = options
        self._heard = heard
        self._value: Any = _NOTHING
        self._of_response: str | None = None
        self._said = ""
        self.kind = kind_of(function)
        self.name = options.name

    @property
    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments of the call."""
        return self._args, self._kwargs

    @property
    def provides(self) -> frozenset[Need]:
        return frozenset({Need.TEXT, Need.LOGPROBS}) if self._options.logprobs else frozenset({Need.TEXT})

    def fingerprint(self) -> Fingerprint:
        """By the function's name, unpinned: what it calls can change."""
        home = f"{getattr(self._function, '__module__', '?')}.{self._options.name}"
        return Fingerprint(name=self.name, identity=f"function:{home}", pinned=False, prompt="", decoding="")

    def call(self, documents: Sequence[Document] = ()) -> Any:
        """Run the function; a generator is read to its end, into a list.

        Raises:
            ConfigurationError: a plain function returned something that has yet to run.
        """
        args, kwargs = self._with(documents)
        value = self._function(*args, **kwargs)
        if self.kind is Kind.GENERATOR:
            return Items.of(value)
        self._refuse_unfinished(value)
        return value

    async def acall(self, documents: Sequence[Document] = ()) -> Any:
        """`call`, for async functions and generators."""
        args, kwargs = self._with(documents)
        if self.kind is Kind.ASYNC_GENERATOR:
            return [item async for item in self._function(*args, **kwargs)]
        return await self._function(*args, **kwargs)

    def _refuse_unfinished(self, value: Any) -> None:
        """What is judged is the answer, not the promise of one."""
        if inspect.iscoroutine(value):
            value.close()
        if inspect.isawaitable(value) or inspect.isgenerator(value) or inspect.isasyncgen(value):
            raise ConfigurationError(
                f"{self.name} is a plain function that returned a {type(value).__name__}; put guard right on the async "
                "or generator function, below other decorators"
            )

    def _with(self, documents: Sequence[Document]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, with the documents in their place, however the caller passed that one."""
        keyword = self._options.documents
        if not documents or keyword is None:
            return self._args, self._kwargs
        signature = inspect.signature(self._function)
        if keyword not in signature.parameters:  # it goes into **kwargs
            return self._args, {**self._kwargs, keyword: list(documents)}
        bound = signature.bind_partial(*self._args, **self._kwargs)
        bound.arguments[keyword] = list(documents)
        return bound.args, bound.kwargs

    def generate(
        self,
        call: Call,
        *,
        documents: Sequence[Document] = (),
        capture: CaptureRequest | None = None,
        gate: Gate | None = None,
    ) -> Generation:
        """The function's answer as a response."""
        if self._heard is not None:
            return self._emitted(self._heard)
        started = time.perf_counter()
        value = self.call(documents)
        return self._generation(value, time.perf_counter() - started)

    async def agenerate(
        self,
        call: Call,
        *,
        documents: Sequence[Document] = (),
        capture: CaptureRequest | None = None,
        gate: Gate | None = None,
    ) -> Generation:
        if self._heard is not None:
            return await asyncio.to_thread(self._emitted, self._heard)
        started = time.perf_counter()
        value = await self.acall(documents)
        return await asyncio.to_thread(self._generation, value, time.perf_counter() - started)

    def _emitted(self, heard: Heard) -> Generation:
        if heard.error is not None:
            raise heard.error
        return self._generation(heard.items, heard.seconds)

    def _generation(self, value: Any, seconds: float) -> Generation:
        trace = self._trace(value)
        tokens = len(trace.logprobs) if trace is not None else 0
        cost = Cost(seconds=seconds, tokens_out=tokens)
        response = Response(text=self._text(value), trace=trace, cost=cost, model=self.name)
        self._value, self._of_response, self._said = value, response.id, response.text
        return Generation(response)

    def _text(self, value: Any) -> str:
        """The text to judge and to show. An extractor that fails is reported; it must not break a working function."""
        if self._options.text is not None:
            try:
                text = self._options.text(value)
            except Exception as error:  # noqa: BLE001 - the user's code, beside the point of the call
                logger.warning("guard(text=...) of %s raised %s", self.name, said(error))
            else:
                if isinstance(text, str):
                    return storable(text)
                logger.warning("guard(text=...) of %s returned %s, not str", self.name, type(text).__name__)
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return storable("".join(value))
        try:
            return storable(str(value))
        except Exception as error:  # noqa: BLE001 - a foreign __str__ may raise anything
            return f"<{type(value).__qualname__} without text: {type(error).__name__}>"

    def _trace(self, value: Any) -> TokenTrace | None:
        if self._options.logprobs is None:
            return None
        try:
            return trace_of(self._options.logprobs(value))
        except Exception as error:  # noqa: BLE001 - rule 1: a crashing extractor is a missing signal
            logger.warning("guard(logprobs=...) of %s raised %s", self.name, said(error))
            return None

    def routes_it_cannot_take(self) -> dict[str, str]:
        """Routes whose result this function could not hand out in its own type, or that it could not be asked for."""
        closed: dict[str, str] = {}
        if self._options.documents is None:
            closed[Route.RETRIEVE.value] = "the function takes no documents; name the keyword: guard(documents=...)"
        if self._options.build is None and not returns_text(self._function):
            closed[Route.ESCALATE.value] = (
                "another model's text cannot be made into what the function returns; guard(build=...) says how"
            )
        return closed

    def proposal(self) -> Generation | None:
        """The response that proposed this tool call, where the user says where to find it.

        A crashing extractor means that nothing is known of it (rule 1): the configured fallback then acts.

        Raises:
            ConfigurationError: it gave something else than a response, a generation or None.
        """
        if self._options.proposal is None:
            return None
        try:
            given = self._options.proposal(*self._args, **self._kwargs)
        except Exception as error:  # noqa: BLE001
            logger.warning("guard(proposal=...) of %s raised %s", self.name, said(error))
            return None
        if given is None or isinstance(given, Generation):
            return given
        if isinstance(given, Response):
            return Generation(given)
        raise ConfigurationError(
            f"guard(proposal=...) of {self.name} returned {type(given).__name__}; "
            "return a Response, a Generation or None"
        )

    def in_own_type(self, result: Result[Any]) -> Result[Any]:
        """The result with its value in the function's own type."""
        if not result.delivered:
            return result
        # A reviewer may have approved what the function said, or written something else.
        its_own = result.response_id == self._of_response and result.value == self._said
        if self._value is not _NOTHING and its_own:
            return result.model_copy(update={"value": self._value})
        build = self._options.build
        if build is not None and isinstance(result.value, str):
            return result.model_copy(update={"value": build(result.value)})
        return result
