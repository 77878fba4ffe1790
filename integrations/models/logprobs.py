"""Log-probabilities in the shapes that providers give them, as one `TokenTrace`.

Known: OpenAI and whatever speaks its protocol ({"content": [{"token", "logprob", "top_logprobs"}]}, content null for
none); Ollama (a flat list of objects or mappings with the same fields); a plain list of numbers or None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.response import TokenTrace, TopToken
from .huggingface.answer import AnswerText, answer_span


def trace_of(given: Any) -> TokenTrace | None:
    """The trace, or None where there are no log-probabilities. Never made up, never cut.

    NaN and -inf stay as given (probes treat them as missing); what is not a number becomes None. The answer span leaves
    out whitespace tokens at both ends; without token strings it is everything.
    """
    if given is None or isinstance(given, TokenTrace):
        return given
    if isinstance(given, Mapping):
        given = given.get("content")
    if not isinstance(given, Sequence) or isinstance(given, str | bytes) or len(given) == 0:
        return None
    if all(item is None or _number(item) is not None for item in given):
        return TokenTrace(logprobs=tuple(_number(item) for item in given))
    tokens = tuple(str(_field(item, "token") or "") for item in given)
    answer = AnswerText()
    for token in tokens:
        answer.feed(token)
    first, last = answer_span(tokens, answer)
    top = tuple(_alternatives(item) for item in given)
    return TokenTrace(
        tokens=tokens,
        logprobs=tuple(_number(_field(item, "logprob")) for item in given),
        top=top if any(top) else (),
        answer_start=first,
        answer_end=last,
    )


def _alternatives(item: Any) -> tuple[TopToken, ...]:
    found = _field(item, "top_logprobs")
    if not isinstance(found, Sequence) or isinstance(found, str | bytes):
        return ()
    return tuple(TopToken(token=str(_field(t, "token") or ""), logprob=_number(_field(t, "logprob"))) for t in found)


def _field(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None or isinstance(value, str | bytes | Mapping):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None
