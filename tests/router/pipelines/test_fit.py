"""From graded rows to an artefact: tables, tiers, what is bound, and what it may serve."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from demur.core.decision import Route, Stage
from demur.core.errors import ArtefactMismatch, BadInput, ConfigurationError, NotEnoughLabels
from demur.core.protocols import Fingerprint
from demur.evaluation.graders.registry import get_grader
from demur.memory.recall_probe import LOG_ODDS, MASS, REPEAT
from demur.probes.artefact import Artefact
from demur.probes.concatenated_states import ConcatenatedStates
from demur.probes.contradiction import ContradictionProbe
from demur.probes.semantic_alignment import SemanticAlignment
from demur.router.learning.relearn import ARTEFACT_SCORE
from demur.router.pipelines.evidence_cache import CollectedRow
from demur.router.pipelines.fit import extractor_of, fit_artefact, with_arm
from demur.router.pipelines.gather import check_rows, gather, make_grader
from demur.router.pipelines.grade import GIVEN, grade_rows, grader_key
from demur.router.pipelines.report import fit_report
from demur.router.pipelines.rows import GradedRow, QuestionRow
from demur.router.pipelines.table import BUILT_IN, GradedTable, collected_table, graded_table
from demur.router.probe_set import inside_probes, text_and_token_probes

Graded = Callable[..., list[GradedRow]]
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
LARGE = Fingerprint(name="large", identity="large-1", pinned=False, prompt="", decoding="")


def records_artefact(rows: GradedTable, method: str = "logistic", **options: Any) -> Artefact:
    return fit_artefact(rows, task="t", grader=GIVEN, model=None, method=method, **{"fitted_at": MOMENT, **options})


def graded_row(**fields: Any) -> GradedRow:
    return GradedRow.model_validate({"id": "r", "prompt": "P", "response": "R", "correct": True, **fields})


def test_a_graded_row_gives_token_statistics_and_its_own_signals() -> None:
    rows = [
        graded_row(id="a", logprobs=[-1.0, -3.0], signals={"votes": 0.5, "gone": None}),
        graded_row(id="b", correct=False, logprobs=[-1.0, math.nan], signals={"votes": math.inf}),
        graded_row(id="c"),
    ]
    found = graded_table(rows)
    assert found.correct.tolist() == [True, False, True]
    columns = found.table.columns(["token.mean_logprob", "token.first_logprob", "votes", "gone"])
    assert columns[0].tolist()[:3] == [-2.0, -1.0, 0.5]
    assert np.isnan(columns[0, 3])
    assert np.isnan(columns[1, [0, 2, 3]]).all()
    assert columns[1, 1] == -1.0
    assert np.isnan(columns[2]).all()


def test_without_any_log_probabilities_there_are_no_token_columns() -> None:
    assert graded_table([graded_row(signals={"votes": 1.0}, logprobs=[])]).table.names == ("votes",)


@pytest.mark.parametrize(
    "name",
    [
        *("token.mean_logprob", "prompt.entropy", "lens.kl.L3", "hidden.x", "grounding.recall", "trajectory.tail"),
        *(
            "prefix.last",
            "fast_lens.kl.L3",
            "prompt_lens.kl.L3",
            "mice.L3",
            "convergence.raw",
            "semantic.prompt_last.L3",
        ),
        *("evidence.entailment", "samples.contradiction", "recall.log_odds", "question.minilm", "head.log_odds"),
    ],
)
def test_a_signal_named_like_a_built_in_one_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match=r"row 'r': signal .* rename it"):
        graded_table([graded_row(signals={name: 1.0})])


def test_every_signal_of_demurs_own_is_known_as_such() -> None:
    probes: list[Any] = [
        *text_and_token_probes(),
        *inside_probes((1, 2, 3), fast_layers=(1, 2, 3), candidates=5, hidden_layers=(1, 2, 3, 4, 5)),
        SemanticAlignment("prompt_last.L4", "question.minilm"),
        ConcatenatedStates("prompt_last", (1, 2)),
    ]
    names = {name for probe in probes for name in probe.signal_names}
    names |= {*ContradictionProbe.signal_names, LOG_ODDS, MASS, REPEAT, ARTEFACT_SCORE}
    assert len(names) > 60
    assert [name for name in sorted(names) if not name.startswith(BUILT_IN)] == []
    # No prefix stands there for nothing.
    named = {name.partition(".")[0] + "." for name in names}
    assert set(BUILT_IN) - named == {"question.", "prompt_last.", "answer_mean.", "answer_last.", "answer_text."}


def test_near_duplicates_share_a_group_and_the_hash_names_the_data() -> None:
    rows = [graded_row(id="a", prompt="Who wrote Hamlet?"), graded_row(id="b", prompt="who wrote hamlet")]
    found = graded_table([*rows, graded_row(id="c", prompt="How far is the moon?")])
    assert found.groups.tolist() == [0, 0, 1]
    assert graded_table(rows).data == graded_table(rows[::-1]).data
    assert graded_table(rows).data != graded_table([rows[0], graded_row(id="b", correct=False)]).data


def test_grading_names_the_row_that_cannot_be_graded() -> None:
    questions = [
        QuestionRow(id="[red]1", question="Q", answers=("Paris",)),
        QuestionRow(id="2", question="Q", answers=()),
    ]
    answers = [CollectedRow(id=row.id, question="Q", response="paris.\nmore", signals={}) for row in questions]
    assert grade_rows(questions[:1], answers[:1], get_grader("alias")).tolist() == [True]
    with pytest.raises(BadInput, match="row '2' has no gold answer"):
        grade_rows(questions, answers, get_grader("alias"))
    with pytest.raises(BadInput, match="do not belong together"):
        grade_rows(questions, answers[::-1], get_grader("alias"))


def test_another_refusal_text_is_another_grader() -> None:
    assert grader_key(make_grader(None)) == ("alias", "1")
    assert grader_key(make_grader("abstain_ok")) == ("abstain_ok", "1")
    assert grader_key(make_grader("abstain_ok", "no idea")) == ("abstain_ok", "1:refusal=no idea")
    with pytest.raises(ConfigurationError, match="alias"):
        make_grader("alais")
    with pytest.raises(ConfigurationError, match="cannot be built"):
        make_grader("alias", "no idea")
    with pytest.raises(ConfigurationError, match="error is measured"):
        make_grader("llm_judge")


def test_rows_and_options_must_belong_together(graded: Graded) -> None:
    asked = [QuestionRow(id="a", question="Q", answers=("x",))]
    check_rows(asked, has_model=True, grader="alias", refusal=None)
    check_rows(graded(1), has_model=False, grader=None, refusal=None)
    with pytest.raises(BadInput, match="give --model"):
        check_rows(asked, has_model=False, grader=None, refusal=None)
    with pytest.raises(BadInput, match="--model and --grader would not be used"):
        check_rows(graded(1), has_model=True, grader="alias", refusal=None)


def test_nine_wrong_rows_are_refused_and_ten_fit_the_lowest_tier(graded: Graded) -> None:
    with pytest.raises(NotEnoughLabels, match="so 1 more wrong") as caught:
        records_artefact(graded_table(graded(60, wrong=9)))
    assert (caught.value.have, caught.value.need) == (9, 10)
    head = records_artefact(graded_table(graded(60, wrong=10))).heads["answer/after"]
    assert head.tier == "under 25"
    assert len(head.signal_names) <= 3
    assert head.calibrator.name == "platt_prior"


def test_the_same_rows_seed_and_moment_give_the_same_artefact(graded: Graded) -> None:
    rows = graded_table(graded(200))
    first = records_artefact(rows, seed=3)
    assert first.id == records_artefact(rows, seed=3).id
    assert first.id != records_artefact(rows, seed=4).id
    later = records_artefact(rows, seed=3, fitted_at=MOMENT.replace(year=2027))
    assert first.id != later.id  # the moment is part of the content


def test_graded_rows_are_learned_from(graded: Graded) -> None:
    rows = graded_table(graded(400))
    artefact = records_artefact(rows)
    assert list(artefact.heads) == ["answer/after", "answer/after@black"]
    assert "votes" in artefact.signal_names
    assert artefact.heads["answer/after@black"].signal_names == ("votes",)
    assert artefact.overlap(["g3", "h3"]) == ("g3",)
    report, _ = fit_report(artefact, rows)
    assert (report.right, report.wrong) == (rows.right, 400 - rows.right)
    assert (report.metrics["auroc"].value or 0.0) > 0.75
    high = report.metrics["brier_minus_base_rate"].high
    assert high is not None and high < 0.0
    assert report.metrics["mean_logprob_auroc"].n == 400
    assert report.metrics["fused_minus_mean_logprob_auroc"].value == pytest.approx(
        (report.metrics["auroc"].value or 0.0) - (report.metrics["mean_logprob_auroc"].value or 0.0)
    )


def test_an_artefact_of_records_vouches_for_no_model_but_serves_functions(
    graded: Graded, scripted: Callable[..., Any], tmp_path: Path
) -> None:
    from demur.integrations.router import Router
    from demur.router.settings import Settings

    rows = [row.model_copy(update={"signals": {}}) for row in graded(200)]
    artefact = records_artefact(graded_table(rows))
    folder = artefact.save(tmp_path / "artefact")
    with pytest.raises(ArtefactMismatch, match=r"graded records.*vouches for no model.*guarded functions"):
        Router(scripted(), settings=Settings(), artefacts=[folder], database=tmp_path / "a.db")
    router = Router(settings=Settings(), artefacts=[folder], database=tmp_path / "b.db")

    @router.guard(
        task="t",
        text=lambda value: value["text"],
        logprobs=lambda value: value["logprobs"],
        build=lambda text: {"text": text},
    )
    def ask(question: str) -> dict[str, Any]:
        return {"text": "x", "logprobs": [-0.01 if "easy" in question else -4.0] * 2}

    easy, hard = ask.decide("easy").confidence, ask.decide("hard").confidence
    router.close()
    assert easy is not None and hard is not None
    assert easy.value > hard.value + 0.2
    assert easy.labels == 200


def white_box_rows(
    scripted: Callable[..., Any], questions: Callable[..., Any], folder: Path, count: int
) -> GradedTable:
    return gather(questions(count), scripted(), make_grader(None), folder)


@pytest.fixture(scope="module")
def fitted(
    scripted: Callable[..., Any], questions: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Artefact, GradedTable]:
    """An artefact of the scripted model on 300 questions."""
    rows = white_box_rows(scripted, questions, tmp_path_factory.mktemp("evidence"), 300)
    model = scripted()
    artefact = fit_artefact(
        rows,
        task="t",
        grader=("alias", "1"),
        model=model.fingerprint(),
        extractor=extractor_of(model),
        fitted_at=MOMENT,
        method="logistic",
    )
    return artefact, rows


def test_what_was_captured_is_bound(fitted: tuple[Artefact, GradedTable], scripted: Callable[..., Any]) -> None:
    artefact, rows = fitted
    bound = artefact.binding
    assert (bound.top_k, bound.hidden_layers, bound.lens_layers) == (5, (2, 3, 4), ())  # no row had a lens
    assert (bound.extractor, bound.grader, bound.task, bound.data) == ("scripted/1", "alias", "t", rows.data)
    assert len(bound.fit_ids) == 300
    artefact.check(scripted().fingerprint(), extractor="scripted/1", grader=("alias", "1"), task="t")
    with pytest.raises(ArtefactMismatch, match="answer extractor"):
        artefact.check(extractor="whole-text/1")


def test_what_is_known_before_generation_gets_a_head_of_its_own(fitted: tuple[Artefact, GradedTable]) -> None:
    artefact, _ = fitted
    before, after = artefact.heads["answer/before"], artefact.heads["answer/after"]
    assert all(name.startswith("prompt.") for name in before.signal_names)
    assert all(name.startswith("prompt_last.") for name in before.hidden_names)
    assert "prompt.entropy" in after.signal_names
    assert before.stage is Stage.BEFORE


def test_nothing_known_before_generation_is_a_note(
    scripted: Callable[..., Any], questions: Any, tmp_path: Path
) -> None:
    rows = white_box_rows(scripted, questions, tmp_path, 60)
    keep = [name for name in rows.table.names if not name.startswith("prompt.") or name == "prompt.log_tokens"]
    same = rows.table.columns(keep)
    same[:, keep.index("prompt.log_tokens")] = 3.0
    table = type(rows.table)(tuple(keep), same)
    bare = GradedTable(rows.ids, rows.responses, table, rows.correct, rows.groups, rows.data)
    artefact = fit_artefact(bare, task="t", grader=GIVEN, model=LARGE)
    assert list(artefact.heads) == ["answer/after"]
    assert "no head before generation" in artefact.notes[0]
    assert "answer/after@black: none of the signals is visible" in artefact.notes[1]


def later_rows(table: GradedTable, right: float) -> tuple[np.ndarray, np.ndarray]:
    """Grades of a later route that is right more often, and what the first head says."""
    draw = np.random.default_rng(0)
    return table.correct | (draw.random(len(table)) < right), draw.random(len(table))


def test_a_later_arm_brings_a_head_and_a_chance(fitted: tuple[Artefact, GradedTable], tmp_path: Path) -> None:
    artefact, rows = fitted
    correct, _ = later_rows(rows, 0.3)
    base = artefact.heads["answer/after"].out_of_fold.probability
    options: dict[str, Any] = {"ids": ["later"], "data": "d", "fitted_at": MOMENT, "method": "logistic"}
    grown = with_arm(artefact, "retrieve", rows.table, correct, rows.groups, base, **options)
    assert list(grown.heads) == [*artefact.heads, "retrieve/after", "retrieve/after@grey"]
    assert grown.chances["retrieve"].route is Route.RETRIEVE
    assert grown.chances["retrieve"].labels == 300
    assert grown.chances["retrieve"].at(0.9) > grown.chances["retrieve"].at(0.1)
    assert grown.overlap(["later", "q1"]) == ("later", "q1")
    assert grown.binding.data != artefact.binding.data
    assert list(artefact.chances) == []
    loaded = Artefact.load(grown.save(tmp_path / "grown"))
    assert loaded.id == grown.id


def test_an_escalation_binds_its_target_and_may_go_without_a_head(fitted: tuple[Artefact, GradedTable]) -> None:
    artefact, rows = fitted
    correct, base = later_rows(rows, 0.5)
    base[:100] = np.nan
    grown = with_arm(
        artefact, "escalate:big", rows.table, correct, rows.groups, base, target=LARGE, head=False, fitted_at=MOMENT
    )
    assert "escalate:big/after" not in grown.heads
    assert grown.chances["escalate:big"].target == "big"
    assert grown.chances["escalate:big"].labels == 200
    with pytest.raises(ArtefactMismatch, match="escalation target big"):
        grown.check(targets={"big": Fingerprint(name="x", identity="other", pinned=True, prompt="", decoding="")})


def test_few_later_rows_give_a_chance_and_a_note_and_fewer_nothing(fitted: tuple[Artefact, GradedTable]) -> None:
    artefact, rows = fitted
    few = np.arange(25)
    table, groups, base = rows.table.take(few), rows.groups[few], np.full(25, 0.5)
    grown = with_arm(artefact, "retrieve", table, np.arange(25) < 20, groups, base)
    assert "retrieve/after" not in grown.heads
    assert "no head for retrieve" in grown.notes[-1]
    assert grown.chances["retrieve"].constant == pytest.approx(21 / 27)
    base[:10] = np.nan
    with pytest.raises(NotEnoughLabels, match="success chance of retrieve"):
        with_arm(artefact, "retrieve", table, np.arange(25) < 20, groups, base)


def test_arms_that_cannot_be(fitted: tuple[Artefact, GradedTable]) -> None:
    artefact, rows = fitted
    correct, base = later_rows(rows, 0.5)
    for arm, target in (("answer", None), ("escalate:", LARGE), ("escalate:big", None), ("retrieve", LARGE)):
        with pytest.raises(ConfigurationError, match=f"arm '{arm}'"):
            with_arm(artefact, arm, rows.table, correct, rows.groups, base, target=target)
    with pytest.raises(BadInput, match="base probabilities"):
        with_arm(artefact, "retrieve", rows.table, correct, rows.groups, base[:-1])
    other = type(rows.table)(("lens.kl.L1",), rows.table.values[:, :1])
    with pytest.raises(BadInput, match=r"lens of these rows has layers \(1,\)"):
        with_arm(artefact, "retrieve", other, correct, rows.groups, base)


def test_grades_must_be_as_many_as_rows() -> None:
    with pytest.raises(BadInput, match="1 rows came with grades"):
        collected_table([CollectedRow(id="a", question="Q", response="R", signals={})], [True, False])
