"""The two streams of the loop benchmark: 2,000 TriviaQA questions once each, and 2,000 of which 30 % come again."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from evidence import evidence_for
from main import draw
from paraphrase import ORIGINALS, OUT, SEED, originals

from demur.evaluation.graders.registry import get_grader
from demur.integrations.demo.model import small_model
from demur.integrations.models.store import find_model
from demur.router.pipelines.collect import full_capture
from demur.router.pipelines.evidence_cache import CollectedRow
from demur.router.pipelines.grade import grade_rows
from demur.router.pipelines.rows import QuestionRow, read_rows


@dataclass(frozen=True)
class Item:
    """One position of a stream.

    Attributes:
        repeats: the id of the earlier question that this one rewords; None where it is new.
    """

    row: QuestionRow
    evidence: CollectedRow
    correct: bool
    repeats: str | None = None


def streams(data: Path, cache: Path, progress: Callable[[int, int], None]) -> tuple[list[Item], list[Item]]:
    """Both streams in their seeded order, with gemma-270m's answers (committed, or asked where they are missing)."""
    rows = read_rows(data / "triviaqa.jsonl")
    fit, test = draw(rows)
    once = [*fit, *test]
    random.Random(SEED).shuffle(once)
    known = {row.id: row for row in once}
    reworded = []
    for line in OUT.read_text(encoding="utf-8").splitlines():
        told = json.loads(line)
        row = known[told["of"]].model_copy(update={"id": told["id"], "question": told["question"]})
        reworded.append((row, told["of"]))
    items = _items([*once, *(row for row, _ in reworded)], cache, progress)
    first = [items[row.id] for row in once]
    again = {of: replace(items[row.id], repeats=of) for row, of in reworded}
    return first, _mixed([items[row.id] for row in originals(rows)], again)


def _mixed(news: list[Item], again: dict[str, Item]) -> list[Item]:
    """Every rewording at a random place after its original."""
    assert len(news) == ORIGINALS
    draws = random.Random(SEED + 2)
    placed = []
    for place, item in enumerate(news):
        at = (place + 0.5) / len(news)
        placed.append((at, item))
        if item.row.id in again:
            placed.append((draws.uniform(at, 1.0), again[item.row.id]))
    return [item for _, item in sorted(placed, key=lambda pair: pair[0])]


def _items(rows: list[QuestionRow], cache: Path, progress: Callable[[int, int], None]) -> dict[str, Item]:
    collected = evidence_for(
        "gemma-270m", rows, lambda: small_model(find_model("gemma-270m")), full_capture, cache, progress=progress
    )
    grades = grade_rows(rows, collected, get_grader("alias"))
    return {
        row.id: Item(row, evidence, bool(grade)) for row, evidence, grade in zip(rows, collected, grades, strict=True)
    }
