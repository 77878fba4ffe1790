"""What can be said before a token is generated: how open the model is after the prompt, and how long it is."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..core.decision import Stage
from ..core.evidence import Captured, Evidence, Need
from ..core.signal import Direction, Signal

_NOT_CAPTURED = "nothing was captured after the prompt"


class PromptStatistics:
    """Signals before generation.

    `prompt.entropy` (nats, lower is surer) and `prompt.top_logprob` (nats, higher is surer) describe the distribution
    of the first token; `prompt.log_tokens` and `prompt.log_question_length` are ln(1 + tokens) and ln(1 + characters),
    lower is surer. Lengths are logged because one prompt of 100,000 characters would drown the rest.

    It needs text only: where the model lets nothing be captured, the first three are unavailable and the last remains.
    """

    name = "prompt"
    needs = frozenset({Need.TEXT})
    stage = Stage.BEFORE
    cost_rank = 0
    signal_names: tuple[str, ...] = (
        "prompt.entropy",
        "prompt.top_logprob",
        "prompt.log_tokens",
        "prompt.log_question_length",
    )

    def measure(self, evidence: Evidence) -> Sequence[Signal]:
        captured = evidence.captured or Captured()
        return [
            self._entropy(captured.prompt_entropy),
            self._top_logprob(captured.prompt_top_logprob),
            self._tokens(captured.prompt_tokens),
            self._question(evidence.call.question),
        ]

    @staticmethod
    def _entropy(value: float | None) -> Signal:
        if value is not None and value < -0.01:
            return Signal.missing("prompt.entropy", f"an entropy cannot be {value}")
        return Signal.of("prompt.entropy", value, Direction.LOWER_IS_SURER, missing=_NOT_CAPTURED)

    @staticmethod
    def _top_logprob(value: float | None) -> Signal:
        if value is not None and value > 0.01:
            return Signal.missing("prompt.top_logprob", f"a log-probability cannot be {value}")
        return Signal.of("prompt.top_logprob", value, missing=_NOT_CAPTURED)

    @staticmethod
    def _tokens(count: int | None) -> Signal:
        if count is None or count <= 0:
            return Signal.missing("prompt.log_tokens", _NOT_CAPTURED if count is None else f"{count} prompt tokens")
        return Signal.of("prompt.log_tokens", math.log1p(count), Direction.LOWER_IS_SURER)

    @staticmethod
    def _question(question: str) -> Signal:
        if not question.strip():
            return Signal.missing("prompt.log_question_length", "the question is empty")
        return Signal.of("prompt.log_question_length", math.log1p(len(question)), Direction.LOWER_IS_SURER)
