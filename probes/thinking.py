"""Where a trace stops thinking and begins to answer."""

from __future__ import annotations

from itertools import accumulate

from ..core.response import TokenTrace


def thinking_end(trace: TokenTrace, mark: str) -> tuple[int, str]:
    """How many tokens from the beginning are thinking; or 0 and why that is not known.

    Thinking is what stands before the token in which `mark` (say "</think>") first begins, wherever the tokens cut it.
    Without the mark it is what stands before the answer span, if that begins in the second half of the trace: a span
    that begins earlier is an answer with an explanation after it, and nothing shows which tokens thought.
    """
    place = "".join(trace.tokens).find(mark)
    if place >= 0:
        ends = accumulate(map(len, trace.tokens))
        length = next(index for index, end in enumerate(ends) if end > place)
        return (length, "") if length else (0, f"nothing stands before {mark!r}")
    start, count = trace.answer_start, len(trace.logprobs)
    if not trace.answer_positions:
        return 0, f"there is no {mark!r} and no answer"
    if start == 0:
        return 0, f"there is no {mark!r} and no token before the answer: nothing shows what was thinking"
    if 2 * start < count:
        return 0, f"there is no {mark!r} and the answer begins at token {start} of {count}: not at the end"
    return start, ""
