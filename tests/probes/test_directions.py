"""The directions that fits are held to are those that the probes give with their scores."""

from __future__ import annotations

import math

import numpy as np
import pytest

from demur.core.call import Call
from demur.core.evidence import Captured, Document, Evidence, LensTrace
from demur.core.protocols import Probe
from demur.core.response import Response, TokenTrace, TopToken
from demur.core.signal import Direction, RawScore
from demur.probes.directions import signs_of, standard_direction, stated_directions
from demur.probes.grounding import GroundingProbe
from demur.probes.lens import LensProbe
from demur.probes.prefix_confidence import PrefixConfidence
from demur.probes.prefix_positions import Positions
from demur.probes.prompt_statistics import PromptStatistics
from demur.probes.question_likelihood import QuestionLikelihood
from demur.probes.signal_table import SignalTable
from demur.probes.token_statistics import TokenStatistics
from demur.probes.trajectory import Trajectory, TrajectorySettings

HIGHER, LOWER = Direction.HIGHER_IS_SURER, Direction.LOWER_IS_SURER
UNSTATED = {"trajectory.consilience", "trajectory.consilience_kl", "prefix.slope"}


def evidence() -> Evidence:
    peaks = np.linspace(0.4, 0.9, 40)
    rows = [np.log([p, *[(1 - p) / 7] * 7]) for p in peaks]
    trace = TokenTrace(
        tokens=("paris ",) * 40,
        logprobs=tuple(float(row[0]) for row in rows),
        top=tuple(tuple(TopToken(token=str(i), logprob=float(v)) for i, v in enumerate(row[:5])) for row in rows),
        entropy=tuple(float(-(np.exp(row) * row).sum()) for row in rows),
        uniform_kl=tuple(float(-math.log(8) - row.mean()) for row in rows),
        answer_start=30,
    )
    flat = np.full((2, 10), 0.5, np.float32)
    lens = LensTrace(layers=(1, 2), agreement=flat, logprob=-flat, entropy=flat, kl=flat, log_rank=flat)
    captured = Captured(
        lens=lens,
        prompt_entropy=1.0,
        prompt_top_logprob=-1.0,
        prompt_tokens=9,
        question_logprobs=np.full(5, -1.0, np.float32),
    )
    documents = tuple(
        Document(id=str(i), text=text, score=float(i), metadata={"retrieval": {"cosine": 0.3}})
        for i, text in enumerate(("paris is large", "rome"))
    )
    return Evidence(
        call=Call.ask("capital?"), response=Response(text="paris", trace=trace), captured=captured, documents=documents
    )


@pytest.mark.parametrize(
    "probe",
    [
        TokenStatistics(),
        TokenStatistics(top_k=3),
        PromptStatistics(),
        QuestionLikelihood(),
        LensProbe((1, 2)),
        Trajectory(TrajectorySettings(window=8)),
        Trajectory(TrajectorySettings(window=8, self_certainty=True)),
        PrefixConfidence(Positions(every=8)),
        GroundingProbe(),
    ],
    ids=lambda probe: probe.name,
)
def test_every_standard_signal_points_as_its_probe_says(probe: Probe) -> None:
    for signal in probe.measure(evidence()):
        assert isinstance(signal.score, RawScore), signal
        if signal.name in UNSTATED:
            assert standard_direction(signal.name) is None
        else:
            assert standard_direction(signal.name) is signal.score.direction, signal.name


def test_scores_of_probes_are_log_odds_and_strangers_state_nothing() -> None:
    assert standard_direction("hidden.answer_mean.L12") is HIGHER
    assert standard_direction("hidden.question.minilm") is HIGHER
    assert standard_direction("votes") is None
    assert standard_direction("token.mean_logprob_of_mine") is None
    assert standard_direction("xtoken.mean_logprob") is None


def test_a_tables_lower_is_a_statement_and_its_higher_is_none() -> None:
    names = ("token.perplexity", "spread", "votes")
    table = SignalTable(names, np.zeros((2, 3)), directions=(HIGHER, LOWER, HIGHER))
    assert stated_directions(table) == {"token.perplexity": LOWER, "spread": LOWER}
    assert signs_of(names, stated_directions(table)).tolist() == [-1, -1, 0]
    assert signs_of(("votes", "token.count", "hidden.x"), None).tolist() == [0, -1, 1]
    assert signs_of(("token.count",), {"token.count": HIGHER}).tolist() == [1]
