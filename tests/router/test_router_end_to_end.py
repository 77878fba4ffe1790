"""A model that knows some facts and not others, read while it answers: what the router lets through is mostly right."""

from __future__ import annotations

import numpy as np
import pytest

from demur import ArtefactMismatch, Call, HuggingFaceModel, Router, Settings
from demur.core.decision import Route, Stage
from demur.core.run import RunState
from demur.probes.artefact import Artefact
from demur.probes.binding import Binding, ModelBinding
from demur.probes.fit_head import fit_head
from demur.router.pipelines.collect import Collector, full_capture
from demur.router.pipelines.fit import before_table
from demur.router.pipelines.rows import QuestionRow
from demur.router.pipelines.table import collected_table
from demur.router.probe_set import inner, probes_for

FITTED = 96
WAYS = ("{}", "Hello. {}", "{} Say it.")


def is_right(answer, row):
    return answer.strip() == row.answer


@pytest.fixture(scope="module")
def artefact_folder(fact_world, tmp_path_factory):
    """Fitted on 96 of the 144 facts, each asked in three ways (enough grades for hidden states to count): on token
    statistics, the lens and hidden states, before and after generation."""
    folder, model = tmp_path_factory.mktemp("fit"), fact_world.model
    facts = [row for row in fact_world.rows[:FITTED] for _ in WAYS]
    asked = [
        QuestionRow(id=f"{row.id}-{number}", question=way.format(row.question), answers=(row.answer,))
        for row in fact_world.rows[:FITTED]
        for number, way in enumerate(WAYS)
    ]
    capture = full_capture(model)
    collected = Collector(model, probes_for(model, capture), capture, folder / "cache").collect(asked)
    graded = collected_table(
        collected, [is_right(each.response, fact) for each, fact in zip(collected, facts, strict=True)]
    )
    y = graded.correct.astype(float)
    early = before_table(graded.table)
    assert early is not None
    # All questions are near-duplicates but for a name: the fact is the group.
    options = {"groups": [fact.id for fact in facts], "arm": "answer", "replicas": 20}
    heads = {
        "answer/after": fit_head(graded.table, y, stage=Stage.AFTER, **options),
        "answer/before": fit_head(early, y, stage=Stage.BEFORE, **options),
    }
    binding = Binding(
        model=ModelBinding.of(model.fingerprint()),
        task="facts",
        extractor=model.answer_extractor,
        grader="alias",
        grader_version="1",
        data=graded.data,
        top_k=5,
        hidden_layers=capture.hidden_layers,
        fast_lens_layers=inner(capture.fast_lens_layers, model.layer_count),
    )
    assert "answer_last.L2" in heads["answer/after"].hidden_names
    assert "prompt_last.L2" in heads["answer/before"].hidden_names
    return Artefact(heads, binding).save(folder / "artefact")


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_what_is_answered_is_righter_than_the_model(fact_world, artefact_folder, tmp_path, how):
    settings = Settings(mode="enforce", costs={"review": None, "abstain": 0.4})
    router = Router(
        fact_world.model, settings=settings, artefacts=[artefact_folder], database=tmp_path / "demur.db", seed=1
    )
    rows = fact_world.rows[FITTED:]
    drafts = fact_world.model.generate_batch([Call.ask(row.question) for row in rows])
    overall = np.mean([is_right(draft.response.text, row) for draft, row in zip(drafts, rows, strict=True)])
    right = []
    for row in rows:
        call = Call.ask(row.question, task="facts")
        result = router.run(call) if how == "sync" else await router.arun(call)
        assert result.state is RunState.DONE
        assert (result.route is Route.ANSWER) == result.delivered
        if result.delivered:
            right.append(is_right(result.value, row))
    assert 10 <= len(right) < len(rows)
    assert np.mean(right) > overall + 0.15
    runs = router.log.list(limit=100)
    assert {round_.decision.stage for run in runs for round_ in run.rounds} == {Stage.BEFORE, Stage.AFTER}
    confidences = [run.rounds[-1].confidence for run in runs]
    assert all(confidence is not None and not confidence.is_prior for confidence in confidences)
    assert any(part.signal.startswith("fast_lens.") for each in confidences if each for part in each.contributions)
    assert any(signal.name == "token.mean_logprob" and signal.available for signal in runs[0].rounds[-1].signals) or (
        runs[0].rounds[-1].decision.stage is Stage.BEFORE
    )


def test_the_same_weights_with_another_prompt_are_refused(fact_world, artefact_folder):
    other = HuggingFaceModel(fact_world.folder, max_new_tokens=8)
    with pytest.raises(ArtefactMismatch, match="prompt template"):
        Router(other, settings=Settings(), artefacts=[artefact_folder], database=":memory:")
