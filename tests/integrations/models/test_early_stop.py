"""A rule that watches answers as they are generated ends exactly the rows it gives up; those are never answers."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from demur.core.call import Call
from demur.core.decision import Stage
from demur.core.errors import ConfigurationError, ModelError
from demur.core.evidence import CaptureRequest, Evidence
from demur.core.response import Response
from demur.core.turn import TurnKind
from demur.evaluation.turn_kind import turn_kind
from demur.probes.prefix_confidence import EarlyStop, StopVerdict
from demur.probes.prefix_positions import Positions
from demur.probes.prompt_statistics import PromptStatistics
from demur.probes.signal_table import SignalTable
from demur.router.assessor import Assessor
from demur.router.pipelines.fit import fit_artefact
from demur.router.pipelines.grade import GIVEN
from demur.router.pipelines.table import GradedTable

CALLS = [Call.ask("Who wrote the book about the whale?"), Call.ask("Why?"), Call.ask("What is 2 + 2?")]
HIDDEN = CaptureRequest(top_k=3, hidden_layers=(1,))


class After:
    """Stops what began with this token at its n-th token, and notes what it is told."""

    def __init__(self, first: str | None, count: int) -> None:
        self.first, self.count = first, count
        self.told: list[list[dict[str, Any]]] = []

    def begin(self) -> Any:
        seen: list[dict[str, Any]] = []
        self.told.append(seen)

        def hook(token: str, logprob: float | None, **more: Any) -> StopVerdict:
            seen.append({"token": token, "logprob": logprob, **more})
            mine = self.first is None or seen[0]["token"] == self.first
            return StopVerdict(mine and len(seen) == self.count, "no use", len(seen))

        return hook


@pytest.mark.parametrize("capture", [CaptureRequest(top_k=3), HIDDEN], ids=["plain", "hidden"])
def test_it_ends_at_that_token_and_is_told_what_the_trace_holds(hugging: Any, capture: CaptureRequest) -> None:
    ours = hugging("llama", max_new_tokens=8)
    whole = ours.generate(CALLS[0], capture=capture).response
    assert not whole.stopped_early and len(whole.trace.ids) == 8
    rule = After(None, 3)
    stopped = ours.with_decoding(early_stop=rule).generate(CALLS[0], capture=capture)
    response = stopped.response
    assert response.trace.ids == whole.trace.ids[:3]
    assert (response.truncated, response.stopped_early, response.cost.tokens_out) == (True, "no use", 3)
    (told,) = rule.told
    # Characters that take several tokens come with the last of them.
    assert "".join(each["token"] for each in told) == response.text
    assert [each["logprob"] for each in told] == pytest.approx(response.trace.logprobs)
    assert [each["entropy"] for each in told] == pytest.approx(response.trace.entropy)
    assert [each["uniform_kl"] for each in told] == pytest.approx(response.trace.uniform_kl)
    assert [[top.logprob for top in each["top"]] for each in told] == [
        pytest.approx([top.logprob for top in place]) for place in response.trace.top
    ]
    if capture is HIDDEN:
        assert set(stopped.captured.hidden) == {"prompt_last.L1", "answer_mean.L1", "answer_last.L1"}


def test_the_other_rows_of_a_batch_go_on_as_they_would(hugging: Any) -> None:
    ours = hugging("llama", max_new_tokens=6)
    alone = [ours.generate(call).response for call in CALLS]
    first = alone[1].trace.tokens[0]
    same = [each.trace.tokens[0] == first for each in alone]
    got = ours.with_decoding(early_stop=After(first, 2)).generate_batch(CALLS, batch_size=3)
    for response, before, stops in zip((each.response for each in got), alone, same, strict=True):
        assert response.trace.ids == (before.trace.ids[:2] if stops else before.trace.ids)
        assert bool(response.stopped_early) is stops
    assert any(same) and ours.fingerprint() == ours.with_decoding(early_stop=After(None, 1)).fingerprint()


def test_the_rule_of_prefix_confidence(hugging: Any) -> None:
    ours = hugging("llama", max_new_tokens=8)
    positions = Positions(every=2, earliest=2)
    never = ours.with_decoding(early_stop=EarlyStop(-1e9, positions)).generate(CALLS[0]).response
    assert not never.stopped_early and len(never.trace.ids) == 8
    at_once = ours.with_decoding(early_stop=EarlyStop(0.0, positions)).generate(CALLS[0]).response
    assert len(at_once.trace.ids) == 2 and "confidence after 2 tokens" in at_once.stopped_early


def test_samples_are_whole(hugging: Any) -> None:
    rule = After(None, 1)
    ours = hugging("llama", max_new_tokens=4).with_decoding(early_stop=rule)
    for response in ours.sample(CALLS[0], 2, seed=1):
        assert not response.stopped_early
    assert rule.told == []


def test_what_reads_like_a_refusal_so_far_is_none() -> None:
    refusal = "I do not know."
    assert turn_kind(Response(text=refusal, truncated=True), refusal) is TurnKind.REFUSAL
    stopped = Response(text=refusal, truncated=True, stopped_early="no use")
    assert turn_kind(stopped, refusal) is TurnKind.ANSWER


@pytest.mark.parametrize("verdict", [ValueError("broken rule"), None], ids=["raises", "gives nothing back"])
def test_a_rule_that_fails_is_a_failed_model(hugging: Any, verdict: Any) -> None:
    class Broken:
        def begin(self) -> Any:
            def hook(*_: Any, **__: Any) -> Any:
                if verdict is not None:
                    raise verdict
                return None

            return hook

    with pytest.raises(ModelError, match="early_stop failed at token 1"):
        hugging("llama").with_decoding(early_stop=Broken()).generate(CALLS[0])
    with pytest.raises(ConfigurationError, match=r"early_stop=.* has no begin"):
        hugging("llama").with_decoding(early_stop=0.5)


def test_a_stop_without_a_reason_is_one_all_the_same(hugging: Any) -> None:
    class Silent(After):
        def begin(self) -> Any:
            return lambda *_, **__: StopVerdict(True, "", 1)

    response = hugging("llama").with_decoding(early_stop=Silent(None, 1)).generate(CALLS[0]).response
    assert response.stopped_early and len(response.trace.ids) == 1


def test_an_assistant_model_and_a_rule_do_not_go_together(hugging: Any, tiny_model: Any) -> None:
    ours = hugging("llama", assistant_model=tiny_model("llama")[0])
    with pytest.raises(ConfigurationError, match="early_stop"):
        ours.with_decoding(early_stop=After(None, 1)).generate(CALLS[0])


def test_a_stopped_answer_gets_no_confidence_whatever_its_signals_say() -> None:
    draw = np.random.default_rng(0)
    values = draw.normal(size=(200, 1))
    correct = draw.random(200) < 1 / (1 + np.exp(-3 * values[:, 0]))
    rows = GradedTable(
        ids=tuple(map(str, range(200))),
        responses=("x",) * 200,
        table=SignalTable(("prompt.log_question_length",), values),
        correct=correct,
        groups=np.arange(200),
        data="d",
    )
    assessor = Assessor((PromptStatistics(),), fit_artefact(rows, task="t", grader=GIVEN, model=None))
    evidence = Evidence(call=CALLS[0], response=Response(text="Paris"))
    assert assessor.assess(evidence, Stage.AFTER).confidence is not None
    stopped = dataclasses.replace(evidence, response=Response(text="Paris", stopped_early="no use", truncated=True))
    assessment = assessor.assess(stopped, Stage.AFTER)
    assert assessment.confidence is None and "stopped early: no use" in assessment.why_not
