"""One artefact for white, grey and black access: whatever is missing falls to the head below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from demur.core.call import Call
from demur.core.decision import Stage
from demur.core.errors import BadInput
from demur.core.evidence import CaptureRequest, Evidence, Need
from demur.core.protocols import Probe
from demur.core.response import Response
from demur.core.signal import Signal
from demur.probes.access import Access, access_to, visible
from demur.probes.artefact import Artefact
from demur.probes.fit_head import fit_head
from demur.probes.signal_table import SignalTable
from demur.router.assessor import Assessor
from demur.router.pipelines.evaluate import evaluate_artefact
from demur.router.pipelines.fit import before_table, fit_artefact
from demur.router.pipelines.grade import GIVEN
from demur.router.pipelines.table import GradedTable

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
SIGNALS = ("lens.logprob.L2", "token.mean_logprob", "prompt.entropy", "prompt.log_question_length", "own")


def table_of(n: int, *, seed: int = 0, black: float = 1.0) -> GradedTable:
    """What is right shows through the lens most, less in log-probabilities, and by `black` in what text tells."""
    draw = np.random.default_rng(seed)
    truth = draw.normal(size=n)
    correct = draw.random(n) < 1 / (1 + np.exp(-3 * truth))
    noise = draw.normal(size=(n, len(SIGNALS)))
    values = truth[:, None] * np.array([1.0, 1.0, 0.6, -black, black]) + noise * np.array([0.2, 0.7, 1.0, 1.0, 1.0])
    hidden = {"answer_mean.L2": (truth[:, None] + draw.normal(size=(n, 3))).astype(np.float32)}
    return GradedTable(
        ids=tuple(f"r{i}" for i in range(n)),
        responses=("x",) * n,
        table=SignalTable(SIGNALS, values, hidden),
        correct=correct,
        groups=np.arange(n),
        data="d",
    )


def fit(rows: GradedTable, **options: Any) -> Artefact:
    options = {"method": "logistic", "fitted_at": MOMENT, **options}
    return fit_artefact(rows, task="t", grader=GIVEN, model=None, **options)


@pytest.fixture(scope="module")
def artefact() -> Artefact:
    return fit(table_of(400))


def lacking(table: SignalTable, *names: str, hidden: bool = False) -> SignalTable:
    values = table.values.copy()
    for name in names:
        values[:, table.names.index(name)] = np.nan
    return replace(table, values=values, hidden={} if hidden else table.hidden)


@pytest.mark.parametrize(
    ("name", "access"),
    [
        ("lens.kl.L3", Access.WHITE),
        ("prompt_lens.kl.L3", Access.WHITE),
        ("mice.L4", Access.WHITE),
        ("convergence.ratio", Access.WHITE),
        ("semantic.cosine", Access.WHITE),
        ("hidden.answer_mean.L3", Access.WHITE),
        ("hidden.prompt_last.L3", Access.WHITE),
        ("prompt.entropy", Access.WHITE),
        ("prompt.question_mean_logprob", Access.WHITE),
        ("token.mean_entropy", Access.WHITE),
        ("token.self_certainty", Access.WHITE),
        ("trajectory.tail_kl", Access.WHITE),
        ("token.mean_entropy_top5", Access.GREY),
        ("token.mean_logprob", Access.GREY),
        ("trajectory.tail", Access.GREY),
        ("prefix.slope", Access.GREY),
        ("grounding.adjusted_logprob", Access.GREY),
        ("grounding.recall", Access.BLACK),
        ("prompt.log_question_length", Access.BLACK),
        ("hidden.question.minilm", Access.BLACK),
        ("hidden.answer_text.minilm", Access.BLACK),
        ("question.words", Access.BLACK),
        ("verbal.percent", Access.BLACK),
        ("votes", Access.BLACK),
    ],
)
def test_what_it_takes_to_see_a_signal(name: str, access: Access) -> None:
    assert access_to(name) is access


def test_what_is_visible() -> None:
    table = table_of(20).table
    white = visible(table, Access.WHITE)
    assert white is not None and white.names == table.names and list(white.hidden) == list(table.hidden)
    grey, black = visible(table, Access.GREY), visible(table, Access.BLACK)
    assert grey is not None and black is not None
    assert grey.names == ("token.mean_logprob", "prompt.log_question_length", "own")
    assert black.names == ("prompt.log_question_length", "own")
    assert (black.values == table.values[:, 3:]).all()
    assert dict(grey.hidden) == {}
    embedded = replace(table, hidden={"question.e": np.zeros((20, 2), np.float32), **table.hidden})
    kept = visible(embedded, Access.BLACK)
    assert kept is not None and list(kept.hidden) == ["question.e"]
    assert visible(SignalTable(("lens.kl.L1",), np.zeros((3, 1))), Access.GREY) is None


def test_a_head_for_less_access_refuses_what_takes_more() -> None:
    rows = table_of(100)
    with pytest.raises(BadInput, match=r"lens.logprob.L2.*white-box access.*grey-box"):
        fit_head(rows.table, rows.correct, None, arm="answer", stage=Stage.AFTER, access=Access.GREY)


def test_heads_for_every_access_and_stage(artefact: Artefact) -> None:
    assert list(artefact.heads) == [
        "answer/after",
        "answer/after@grey",
        "answer/after@black",
        "answer/before",
        "answer/before@black",
    ]
    heads = artefact.heads_for("answer", Stage.AFTER)
    assert [head.access for head in heads] == [Access.WHITE, Access.GREY, Access.BLACK]
    assert artefact.head("answer", Stage.AFTER) is heads[0]
    assert heads[1].signal_names == ("token.mean_logprob", "prompt.log_question_length", "own")
    assert heads[2].signal_names == ("prompt.log_question_length", "own")
    assert artefact.heads["answer/before@black"].signal_names == ("prompt.log_question_length",)
    assert artefact.heads_for("retrieve", Stage.AFTER) == ()
    # Each knows less than the one above it.
    brier = [np.nanmean((one.out_of_fold.probability - one.out_of_fold.correct) ** 2) for one in heads]
    assert brier[0] < brier[1] < brier[2]


def test_it_survives_the_disk_and_asks_for_no_more_capture(artefact: Artefact, tmp_path: Any) -> None:
    loaded = Artefact.load(artefact.save(tmp_path / "a"))
    assert loaded.id == artefact.id
    assert list(loaded.heads) == sorted(artefact.heads) or list(loaded.heads) == list(artefact.heads)
    assert [head.key for head in loaded.heads_for("answer", Stage.AFTER)] == [
        "answer/after",
        "answer/after@grey",
        "answer/after@black",
    ]
    white = Artefact(
        {"answer/after": artefact.heads["answer/after"]}, artefact.binding.model_copy(update={"feature_schema": ""})
    )
    assert artefact.needed_capture("answer") == artefact.needed_capture() == white.needed_capture()
    assert white.needed_capture() == CaptureRequest(top_k=0, hidden_layers=(2,), lens_layers=(2,))


def test_whatever_is_missing_falls_to_the_head_below(artefact: Artefact) -> None:
    table = table_of(200, seed=5).table
    white, grey, black = (head for head in artefact.heads_for("answer", Stage.AFTER))
    blind = lacking(table, "lens.logprob.L2", "prompt.entropy", "token.mean_logprob", hidden=True)
    for part, expected in (
        (table, white.predict_table(table)),
        (lacking(table, "lens.logprob.L2", "prompt.entropy", hidden=True), None),
        (blind, black.predict_table(blind)),
    ):
        said = artefact.predict_table(part, "answer", Stage.AFTER)
        assert said.available.all()
        if expected is not None:
            assert (said.probability == expected.probability).all()
            assert (said.low <= said.probability).all() and (said.probability <= said.high).all()
    # They could guess what is missing from what is there, but it is the head below that was fitted for that.
    assert not white.predict_table(blind).own_seen.any()
    assert not grey.predict_table(blind).own_seen.any()
    nothing = lacking(table, *SIGNALS, hidden=True)
    assert not artefact.predict_table(nothing, "answer", Stage.AFTER).available.any()
    mixed = replace(table, values=np.where(np.arange(200)[:, None] < 100, table.values, blind.values))
    half = replace(
        mixed,
        hidden={"answer_mean.L2": np.where(np.arange(200)[:, None] < 100, table.hidden["answer_mean.L2"], np.nan)},
    )
    said = artefact.predict_table(half, "answer", Stage.AFTER)
    assert (said.probability[:100] == white.predict_table(table).probability[:100]).all()
    assert (said.probability[100:] == black.predict_table(blind).probability[100:]).all()


def test_evaluation_scores_as_the_router_does(artefact: Artefact) -> None:
    rows = table_of(150, seed=6)
    blind = replace(
        rows, table=lacking(rows.table, "lens.logprob.L2", "prompt.entropy", "token.mean_logprob", hidden=True)
    )
    found = evaluate_artefact(artefact, blind)
    assert found.metrics["unavailable"]["value"] == 0
    assert found.metrics["auroc"]["value"] > 0.6


class Given:
    """A probe that says what it is told to."""

    name = "given"
    needs = frozenset({Need.TEXT})
    stage = Stage.BEFORE
    cost_rank = 0
    signal_names = SIGNALS

    def __init__(self, values: dict[str, float]) -> None:
        self.values = values

    def measure(self, evidence: Evidence) -> list[Signal]:
        return [Signal.of(name, self.values.get(name)) for name in SIGNALS]


@pytest.fixture
def assessed(artefact: Artefact) -> Callable[..., Any]:
    def assess(**values: float) -> Any:
        probe: Probe = Given({name.replace("__", "."): value for name, value in values.items()})
        evidence = Evidence(call=Call.ask("why?"), response=Response(text="x"))
        return Assessor([probe], artefact).assess(evidence, Stage.AFTER)

    return assess


def test_the_assessor_asks_the_first_head_that_has_enough(artefact: Artefact, assessed: Callable[..., Any]) -> None:
    grey = assessed(token__mean_logprob=1.0, prompt__log_question_length=-0.5, own=0.3).confidence
    assert grey.calibrator == f"{artefact.id[:16]}:answer/after@grey"
    black = assessed(prompt__log_question_length=-0.5, own=0.3).confidence
    assert black.calibrator == f"{artefact.id[:16]}:answer/after@black"
    assert {part.signal for part in black.contributions} == {"prompt.log_question_length", "own"}
    nothing = assessed()
    assert nothing.confidence is None
    assert "head answer/after goes by" in nothing.why_not


def test_with_everything_the_white_head_speaks(artefact: Artefact) -> None:
    rows = table_of(3, seed=9).table
    head = artefact.heads["answer/after"]
    lens = {name: float(value) for name, value in zip(SIGNALS, rows.values[0], strict=True)}
    evidence = Evidence(call=Call.ask("why?"), response=Response(text="x"))
    said = Assessor([Given(lens)], artefact).assess(evidence, Stage.AFTER).confidence
    alone = head.predict([Signal.of(name, value) for name, value in lens.items()])
    assert said is not None
    assert said.calibrator.endswith(":answer/after")
    assert said.value == alone.value  # type: ignore[union-attr]


def test_a_head_that_knows_only_the_base_rate_is_a_note() -> None:
    artefact = fit(table_of(400, black=0.0))
    assert "answer/after@black" not in artefact.heads
    assert any("answer/after@black: out of fold" in note for note in artefact.notes)
    # Then too little is known, and nobody says the base rate of every call.
    blind = lacking(table_of(50).table, "lens.logprob.L2", "prompt.entropy", "token.mean_logprob", hidden=True)
    assert not artefact.predict_table(blind, "answer", Stage.AFTER).available.any()


def test_what_takes_no_more_access_makes_no_further_head() -> None:
    rows = table_of(200)
    grey = visible(rows.table, Access.GREY)
    assert grey is not None
    artefact = fit(replace(rows, table=grey))
    assert list(artefact.heads) == ["answer/after", "answer/after@black", "answer/before"]


def test_every_head_is_fitted_by_the_method_asked_for() -> None:
    from demur.probes.ensemble_fusion import BoostedFusion

    artefact = fit(table_of(120), method="boosted")
    assert len(artefact.heads) >= 2
    assert all(isinstance(head.fusion, BoostedFusion) for head in artefact.heads.values())


def test_what_is_known_before_generation() -> None:
    names = ("prompt.entropy", "prompt_lens.kl.L1", "convergence.a", "semantic.b", "question.c", "lens.kl.L1", "own")
    hidden = {
        name: np.zeros((2, 1), np.float32)
        for name in ("prompt_last.L1", "question.e", "answer_text.e", "answer_mean.L1")
    }
    early = before_table(SignalTable(names, np.zeros((2, 7)), hidden))
    assert early is not None
    assert early.names == names[:5]
    assert list(early.hidden) == ["prompt_last.L1", "question.e"]
    for late in ("mice.L1", "trajectory.tail", "prefix.slope", "lens.kl.L1"):
        table = SignalTable((late, "prompt.entropy"), np.random.default_rng(0).normal(size=(60, 2)))
        with pytest.raises(BadInput, match="only after generation"):
            fit_head(table, np.arange(60) % 2, None, arm="answer", stage=Stage.BEFORE)
    embedded = SignalTable((), np.empty((60, 0)), {"answer_text.e": np.ones((60, 2), np.float32)})
    with pytest.raises(BadInput, match="only after generation"):
        fit_head(embedded, np.arange(60) % 2, None, arm="answer", stage=Stage.BEFORE)
