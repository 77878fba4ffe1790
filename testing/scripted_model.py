"""A model that answers by script."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from ..core.call import Call
from ..core.errors import BadInput, ConfigurationError
from ..core.evidence import CaptureRequest, Document, Need
from ..core.protocols import Fingerprint, Gate, Generation
from ..core.response import Cost, Response, TokenTrace

Reply = str | Response | BaseException
Script = Sequence[Reply] | Mapping[str, Reply] | Callable[[Call], Reply]


class ScriptedModel:
    """Implements `core.protocols.Model` without a model.

    Args:
        script: replies given one after another; or by question; or a function of the call. A reply is a text, a whole
            `Response`, or an exception, which is raised.
        name: the model's name; its fingerprint is made of it, so two of one name count as the same model.
        logprob: the log-probability of the one token that every text reply is given; None for a black box.

    Attributes:
        calls: every call so far.

    Raises:
        ConfigurationError: an empty script.
    """

    def __init__(self, script: Script, *, name: str = "scripted", logprob: float | None = None) -> None:
        if not callable(script) and not script:
            raise ConfigurationError("ScriptedModel has an empty script; give it at least one reply")
        self._script = dict(script) if isinstance(script, Mapping) else script
        self._logprob = logprob
        self._lock = threading.Lock()
        self.name = name
        self.calls: list[Call] = []

    @property
    def provides(self) -> frozenset[Need]:
        return frozenset({Need.TEXT} if self._logprob is None else {Need.TEXT, Need.LOGPROBS})

    def fingerprint(self) -> Fingerprint:
        return Fingerprint(self.name, f"scripted:{self.name}", pinned=True, prompt="", decoding="")

    def generate(
        self,
        call: Call,
        *,
        documents: Sequence[Document] = (),
        capture: CaptureRequest | None = None,
        gate: Gate | None = None,
    ) -> Generation:
        """The next reply.

        Raises:
            BadInput: the script has no reply for this call: a test that asks more than it planned for is wrong.
        """
        with self._lock:
            number = len(self.calls)
            self.calls.append(call)
        reply = self._reply(call, number)
        if isinstance(reply, BaseException):
            raise reply
        if isinstance(reply, Response):
            return Generation(reply)
        trace = None if self._logprob is None else TokenTrace(tokens=(reply,), logprobs=(self._logprob,))
        cost = Cost(tokens_in=len(call.question.split()), tokens_out=len(reply.split()))
        return Generation(Response(text=reply, trace=trace, model=self.name, cost=cost))

    async def agenerate(
        self,
        call: Call,
        *,
        documents: Sequence[Document] = (),
        capture: CaptureRequest | None = None,
        gate: Gate | None = None,
    ) -> Generation:
        return self.generate(call, documents=documents, capture=capture, gate=gate)

    def _reply(self, call: Call, number: int) -> Reply:
        if isinstance(self._script, Mapping):
            if call.question not in self._script:
                raise BadInput(f"the script of {self.name!r} has no reply to {call.question[:200]!r}")
            return self._script[call.question]
        if callable(self._script):
            return self._script(call)
        if number >= len(self._script):
            raise BadInput(
                f"{self.name!r} was asked {number + 1} times and its script has {len(self._script)} replies; the last "
                f"question was {call.question[:200]!r}"
            )
        return self._script[number]
