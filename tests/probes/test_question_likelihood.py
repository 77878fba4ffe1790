from __future__ import annotations

import math

import numpy as np
import pytest

from demur.core.call import Call
from demur.core.decision import Stage
from demur.core.errors import ConfigurationError
from demur.core.evidence import Captured, Evidence
from demur.core.signal import Unavailable
from demur.probes.question_likelihood import QuestionLikelihood


def measured(values: object, *, tail_share: float = 0.2) -> list[float | None]:
    captured = None if values is None else Captured(question_logprobs=np.asarray(values, dtype=np.float32))
    evidence = Evidence(call=Call.ask("q"), captured=captured)
    return [signal.value for signal in QuestionLikelihood(tail_share=tail_share).measure(evidence)]


def test_worked_by_hand() -> None:
    # Ten tokens, -1 ... -10: mean -5.5, least -10, sum -55, lowest fifth (-10 - 9)/2.
    assert measured([-float(n) for n in range(1, 11)]) == [-5.5, -10.0, -55.0, -9.5]
    assert measured([-float(n) for n in range(1, 11)], tail_share=1.0) == [-5.5, -10.0, -55.0, -5.5]


def test_the_tail_is_never_empty() -> None:
    assert measured([-2.0, -4.0]) == [-3.0, -4.0, -6.0, -4.0]


@pytest.mark.parametrize("values", [None, [], [[-1.0]], [-1.0, math.nan], [-1.0, -math.inf], [-1.0, 0.5]])
def test_unusable_is_unavailable(values: object) -> None:
    assert measured(values) == [None] * 4


def test_the_reason_names_the_token() -> None:
    captured = Captured(question_logprobs=np.array([-1.0, np.nan], dtype=np.float32))
    score = QuestionLikelihood().measure(Evidence(call=Call.ask("q"), captured=captured))[0].score
    assert isinstance(score, Unavailable)
    assert score.reason == "question: log-probability of token 1 is nan"


def test_it_speaks_before_generation() -> None:
    assert QuestionLikelihood.stage is Stage.BEFORE


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5, math.nan])
def test_a_share_outside_its_range_is_refused(share: float) -> None:
    with pytest.raises(ConfigurationError, match="tail_share"):
        QuestionLikelihood(tail_share=share)
