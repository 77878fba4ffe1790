"""A scripted model whose log-probabilities tell how likely it is right, and graded rows of the same kind."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from demur.core.call import Call
from demur.core.errors import BadInput, ModelError
from demur.core.evidence import Captured, CaptureRequest, Document, Need
from demur.core.protocols import Fingerprint, Generation
from demur.core.response import Cost, Response, TokenTrace, TopToken
from demur.router.pipelines.rows import GradedRow, QuestionRow


class ScriptedModel:
    """Answers by arithmetic on the question; dies in the batch it is told to."""

    name = "scripted"
    answer_extractor = "scripted/1"

    def __init__(self, *, dies_in_batch: int | None = None, white_box: bool = True) -> None:
        self.dies_in_batch = dies_in_batch
        self.white_box = white_box
        self.batches: list[list[str]] = []

    layer_count = 4

    @property
    def provides(self) -> frozenset[Need]:
        inside = {Need.HIDDEN_STATES} if self.white_box else set()
        return frozenset({Need.TEXT, Need.LOGPROBS, *inside})

    def fingerprint(self) -> Fingerprint:
        return Fingerprint(name=self.name, identity="scripted-1", pinned=True, prompt="p", decoding="d")

    def generate_batch(
        self,
        calls: Sequence[Call],
        *,
        documents: Sequence[Sequence[Document]] | None = None,
        capture: CaptureRequest | None = None,
    ) -> list[Generation]:
        self.batches.append([call.question for call in calls])
        if len(self.batches) - 1 == self.dies_in_batch:
            raise ModelError("the scripted model was told to die here")
        return [self.generate(call, capture=capture) for call in calls]

    def generate(self, call: Call, *, capture: CaptureRequest | None = None, **_: Any) -> Generation:
        if not call.question.strip():
            raise BadInput("the call asks nothing")
        draw = random.Random(call.question)
        sure = draw.gauss(0.0, 1.0)
        right = draw.random() < 1.0 / (1.0 + math.exp(-2.0 * sure))
        logprob = -math.exp(-sure) - 1e-9 / 3
        position = (TopToken(token="a", logprob=logprob), *(TopToken(token=c, logprob=-9.0) for c in "bcde"))
        captured = None
        if self.white_box and capture is not None:
            vector = np.array([sure + draw.gauss(0.0, 1.0), draw.gauss(0.0, 1.0), 1.0 / 3.0], dtype=np.float32)
            hidden = {
                f"{kind}.L{layer}": vector * layer
                for kind in ("prompt_last", "answer_mean")
                for layer in capture.hidden_layers
            }
            captured = Captured(
                hidden=hidden,
                prompt_entropy=1.0 - math.tanh(sure) + draw.random(),
                prompt_top_logprob=logprob - draw.random(),
                prompt_tokens=len(call.question),
            )
        response = Response(
            text="right" if right else "wrong\u2028really",
            trace=TokenTrace(logprobs=(logprob, logprob / 3.0), top=(position, position)),
            cost=Cost(tokens_in=len(call.question), tokens_out=2, seconds=draw.random()),
            model=self.name,
        )
        return Generation(response, captured)


@pytest.fixture(scope="session")
def scripted() -> Callable[..., ScriptedModel]:
    """`scripted(dies_in_batch=None, white_box=True)`."""
    return ScriptedModel


def question_rows(count: int, *, start: int = 0) -> list[QuestionRow]:
    draw = random.Random(start)
    words = [f"{draw.getrandbits(60):x} {draw.getrandbits(60):x}" for _ in range(count)]
    return [
        QuestionRow(id=f"q{start + number}", question=f"What of {word}?", answers=("right",))
        for number, word in enumerate(words)
    ]


@pytest.fixture(scope="session")
def questions() -> Callable[..., list[QuestionRow]]:
    """`questions(count, start=0)`: rows that are no near-duplicates."""
    return question_rows


def graded_rows(count: int, *, start: int = 0, wrong: int | None = None) -> list[GradedRow]:
    draw = random.Random(f"graded {start}")
    rows = []
    for number in range(count):
        sure = draw.gauss(0.5, 1.0)
        right = draw.random() < 1.0 / (1.0 + math.exp(-2.0 * sure)) if wrong is None else number >= wrong
        row = {
            "id": f"g{start + number}",
            "prompt": f"Say {draw.getrandbits(60):x} {draw.getrandbits(60):x}",
            "response": "text",
            "correct": right,
            "logprobs": [-math.exp(-sure), -math.exp(-sure + draw.gauss(0.0, 0.3))],
            "signals": {"votes": sure + draw.gauss(0.0, 1.0)},
        }
        rows.append(GradedRow.model_validate(row))
    return rows


@pytest.fixture(scope="session")
def graded() -> Callable[..., list[GradedRow]]:
    """`graded(count, start=0, wrong=None)`: rows whose log-probabilities and own signal tell something."""
    return graded_rows


@pytest.fixture
def write_jsonl(tmp_path: Path) -> Callable[..., Path]:
    """`write_jsonl(rows_or_lines, name="rows.jsonl")`: dicts are dumped, strings are written as they are."""

    def write(rows: Sequence[Any], name: str = "rows.jsonl") -> Path:
        path = tmp_path / name
        lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
        path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
        return path

    return write
