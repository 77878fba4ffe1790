"""Collecting: in batches, once, in the rows' order; broken off and resumed it is the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from demur.core.decision import Stage
from demur.core.errors import BadInput, ConfigurationError, ModelError
from demur.core.evidence import CaptureRequest, Document, Evidence, Need
from demur.core.signal import Signal
from demur.router.pipelines.collect import (
    Collector,
    full_capture,
)
from demur.router.pipelines.evidence_cache import CollectedRow
from demur.router.pipelines.rows import QuestionRow
from demur.router.probe_set import inner, probes_for

Rows = Callable[..., list[QuestionRow]]
Scripted = Callable[..., Any]


def collector(model: Any, folder: Path, **options: Any) -> Collector:
    capture = full_capture(model)
    probes = probes_for(model, capture)
    return Collector(model, probes, capture, folder, batch_size=8, **options)


def plain(rows: list[CollectedRow]) -> list[tuple[Any, ...]]:
    return [
        (
            row.id,
            row.question,
            row.response,
            dict(row.signals),
            {name: vector.tolist() for name, vector in row.hidden.items()},
            row.tokens_in,
            row.tokens_out,
            row.seconds,
        )
        for row in rows
    ]


@pytest.mark.parametrize("batch", [0, 1, 4])
def test_killed_and_resumed_equals_unbroken(scripted: Scripted, questions: Rows, tmp_path: Path, batch: int) -> None:
    rows = questions(40)
    unbroken = collector(scripted(), tmp_path / "one").collect(rows)
    with pytest.raises(ModelError, match="told to die"):
        collector(scripted(dies_in_batch=batch), tmp_path / "two").collect(rows)
    again = scripted()
    resumed = collector(again, tmp_path / "two").collect(rows)
    assert sum(map(len, again.batches)) == 40 - 8 * batch
    assert plain(resumed) == plain(unbroken)
    assert [row.id for row in resumed] == [row.id for row in rows]
    assert plain(collector(scripted(), tmp_path / "two").collect(rows)) == plain(unbroken)


def test_what_is_known_is_not_asked_again(scripted: Scripted, questions: Rows, tmp_path: Path) -> None:
    rows = questions(16)
    collector(scripted(), tmp_path).collect(rows)
    changed = [rows[0].model_copy(update={"question": "Something else?"}), *rows[1:]]
    model = scripted()
    told: list[tuple[int, int]] = []
    found = collector(model, tmp_path).collect(changed, progress=lambda done, total: told.append((done, total)))
    assert model.batches == [["Something else?"]]
    assert told == [(15, 16), (16, 16)]
    assert found[0].question == "Something else?"


def test_another_capture_arm_or_model_has_evidence_of_its_own(
    scripted: Scripted, questions: Rows, tmp_path: Path
) -> None:
    model = scripted()
    keys = {
        collector(model, tmp_path).cache.key,
        collector(model, tmp_path, arm="retrieve").cache.key,
        collector(scripted(white_box=False), tmp_path).cache.key,
        Collector(model, probes_for(model, CaptureRequest()), CaptureRequest(top_k=2), tmp_path).cache.key,
    }
    assert len(keys) == 4


def test_the_row_that_cannot_be_asked_is_named(scripted: Scripted, questions: Rows, tmp_path: Path) -> None:
    rows = [*questions(3), QuestionRow(id="../[red]x\x1b", question=" ", answers=("x",))]
    with pytest.raises(BadInput, match="asks nothing") as caught:
        collector(scripted(), tmp_path).collect(rows)
    assert repr("../[red]x\x1b") in str(caught.value)


def test_an_answer_that_was_stopped_early_is_not_collected(scripted: Scripted, questions: Rows, tmp_path: Path) -> None:
    model, rows = scripted(), questions(3)
    ask_all = model.generate_batch

    def stopped(calls: Any, **options: Any) -> Any:
        first, *others = ask_all(calls, **options)
        ended = first.response.model_copy(update={"stopped_early": "no use", "truncated": True})
        return [replace(first, response=ended), *others]

    model.generate_batch = stopped
    with pytest.raises(ConfigurationError, match=r"row '.*stopped early \(no use\).*early_stop=None"):
        collector(model, tmp_path).collect(rows)
    model.generate_batch = ask_all
    assert plain(collector(model, tmp_path).collect(rows)) == plain(collector(scripted(), tmp_path / "b").collect(rows))


def test_a_probe_that_raises_is_a_missing_signal(scripted: Scripted, questions: Rows, tmp_path: Path) -> None:
    class Broken:
        name, needs, stage, cost_rank = "broken", frozenset({Need.TEXT}), Stage.AFTER, 0
        signal_names = ("broken.one",)

        def measure(self, evidence: Evidence) -> list[Signal]:
            raise RuntimeError("boom")

    (row,) = Collector(scripted(), [Broken()], CaptureRequest(), tmp_path).collect(questions(1))
    assert row.signals == {"broken.one": None}


def test_a_model_without_batches_is_asked_one_by_one_with_its_documents(questions: Rows, tmp_path: Path) -> None:
    from demur.integrations.models.function import FunctionModel

    seen: list[tuple[str, int]] = []

    def answer(call: Any, documents: Any) -> str:
        seen.append((call.question, len(documents)))
        return "right"

    model = FunctionModel(answer, takes="call", fingerprint="f1")
    rows = questions(3)
    documents = {rows[1].id: [Document(id="d", text="right")]}
    capture = full_capture(model)
    found = Collector(model, probes_for(model, capture), capture, tmp_path).collect(rows, documents=documents)
    assert sorted(seen) == sorted((row.question, len(documents.get(row.id, ()))) for row in rows)
    assert [row.response for row in found] == ["right"] * 3
    assert found[0].signals["token.mean_logprob"] is None


def test_captures_follow_the_depth(scripted: Scripted) -> None:
    model = scripted()
    capture = full_capture(model)
    assert capture.hidden_layers == (2, 3, 4)
    assert capture.fast_lens_layers == (2, 4) and capture.lens_layers is None
    assert inner(capture.fast_lens_layers, 4) == (2,)
    assert full_capture(scripted(white_box=False)) == CaptureRequest()
    exact, both = full_capture(model, "exact"), full_capture(model, "both")
    assert (exact.lens_layers, exact.fast_lens_layers, exact.prompt_lens) == ((2, 4), None, True)
    assert (both.lens_layers, both.fast_lens_layers) == ((2, 4), (2, 4))
    with pytest.raises(ConfigurationError, match="both"):
        full_capture(model, "magic")
    read = [{probe.name for probe in probes_for(each, capture)} for each in (scripted(white_box=False), model)]
    assert "fast_lens" not in read[0] and "token" in read[0]
    assert read[0] | {"fast_lens"} <= read[1]
