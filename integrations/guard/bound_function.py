"""One use of a decorated function, as the model of its run."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ...core.call import Call
from ...core.decision import Route
from ...core.errors import ConfigurationError, ModelError
from ...core.evidence import CaptureRequest, Document, Need
from ...core.protocols import Fingerprint, Gate, Generation
from ...core.response import Cost, Response, TokenTrace
from ...core.run import Result
from ..models.logprobs import trace_of
from .options import GuardOptions

logger = logging.getLogger("demur")

_NOTHING = object()


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
        already: Any = _NOTHING,
    ) -> None:
        self._function = function
        self._args = args
        self._kwargs = dict(kwargs)
        self._options = options
        self._value: Any = already
        self._of_response: str | None = None
        self._error: Exception | None = None
        self.name = options.name

    @property
    def provides(self) -> frozenset[Need]:
        return frozenset({Need.TEXT, Need.LOGPROBS}) if self._options.logprobs else frozenset({Need.TEXT})

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self._function) or inspect.isasyncgenfunction(self._function)

    def fingerprint(self) -> Fingerprint:
        """By the function's name, unpinned: what it calls can change."""
        home = f"{getattr(self._function, '__module__', '?')}.{self._options.name}"
        return Fingerprint(name=self.name, identity=f"function:{home}", pinned=False, prompt="", decoding="")

    def call(self, documents: Sequence[Document] = ()) -> Any:
        """Run the function; a generator is read to its end, into a list."""
        value = self._function(*self._args, **self._with(documents))
        return list(value) if inspect.isgenerator(value) else value

    async def acall(self, documents: Sequence[Document] = ()) -> Any:
        """`call`, for async functions; a sync one runs in a thread."""
        if inspect.isasyncgenfunction(self._function):
            return [item async for item in self._function(*self._args, **self._with(documents))]
        if self.is_async:
            return await self._function(*self._args, **self._with(documents))
        return await asyncio.to_thread(self.call, documents)

    def _with(self, documents: Sequence[Document]) -> dict[str, Any]:
        keyword = self._options.documents
        return {**self._kwargs, keyword: list(documents)} if documents and keyword else self._kwargs

    def generate(
        self,
        call: Call,
        *,
        documents: Sequence[Document] = (),
        capture: CaptureRequest | None = None,
        gate: Gate | None = None,
    ) -> Generation:
        """The function's answer as a response."""
        started = time.perf_counter()
        if self._value is not _NOTHING and not documents:
            return self._generation(self._value, 0.0)  # it was streamed already
        with self._kept_error():
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
        started = time.perf_counter()
        if self._value is not _NOTHING and not documents:
            return self._generation(self._value, 0.0)
        with self._kept_error():
            value = await self.acall(documents)
        return self._generation(value, time.perf_counter() - started)

    def _generation(self, value: Any, seconds: float) -> Generation:
        response = Response(
            text=self._text(value), trace=self._trace(value), cost=Cost(seconds=seconds), model=self.name
        )
        self._value, self._of_response = value, response.id
        return Generation(response)

    def _text(self, value: Any) -> str:
        """The text to judge and to show. An extractor that fails is reported; it must not break a working function."""
        if self._options.text is not None:
            try:
                text = self._options.text(value)
            except Exception as error:  # noqa: BLE001 - the user's code, beside the point of the call
                logger.warning("guard(text=...) of %s raised %s: %s", self.name, type(error).__name__, error)
                return str(value)
            if isinstance(text, str):
                return text
            logger.warning("guard(text=...) of %s returned %s, not str", self.name, type(text).__name__)
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return "".join(value)
        return str(value)

    def _trace(self, value: Any) -> TokenTrace | None:
        if self._options.logprobs is None:
            return None
        try:
            return trace_of(self._options.logprobs(value))
        except Exception as error:  # noqa: BLE001 - rule 1: a crashing extractor is a missing signal
            logger.warning("guard(logprobs=...) of %s raised %s: %s", self.name, type(error).__name__, error)
            return None

    @contextmanager
    def _kept_error(self) -> Iterator[None]:
        """Later routes treat a failing draft like any model's failure; `own_errors` gives the exception back."""
        try:
            yield
        except Exception as error:
            self._error = error
            raise

    @contextmanager
    def own_errors(self) -> Iterator[None]:
        """Let the function's own exception out as it is, even where it was dressed as a model's failure."""
        try:
            yield
        except ModelError:
            if self._error is not None and not isinstance(self._error, ModelError):
                raise self._error from None
            raise

    def routes_it_cannot_take(self) -> dict[str, str]:
        """Routes whose result this function could not hand out in its own type, or that it could not be asked for."""
        closed: dict[str, str] = {}
        if self._options.documents is None:
            closed[Route.RETRIEVE.value] = "the function takes no documents; name the keyword: guard(documents=...)"
        returns = inspect.signature(self._function).return_annotation
        if self._options.build is None and returns not in (str, "str"):
            closed[Route.ESCALATE.value] = (
                "another model's text cannot be made into what the function returns; guard(build=...) says how"
            )
        return closed

    def proposal(self) -> Generation | None:
        """The response that proposed this tool call, where the user says where to find it."""
        if self._options.proposal is None:
            return None
        given = self._options.proposal(*self._args, **self._kwargs)
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
        if self._value is not _NOTHING and result.response_id == self._of_response:
            return result.model_copy(update={"value": self._value})
        build = self._options.build
        if build is not None and isinstance(result.value, str):
            return result.model_copy(update={"value": build(result.value)})
        return result
