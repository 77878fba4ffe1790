"""Evaluated rows of several kinds, and what a strict reader sees in a page."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest

from demur.core.response import Cost
from demur.probes.artefact import Artefact
from demur.router.pipelines.evaluate import Evaluation, evaluate_artefact
from demur.router.pipelines.fit import fit_artefact
from demur.router.pipelines.grade import GIVEN
from demur.router.pipelines.rows import GradedRow
from demur.router.pipelines.table import GradedTable, graded_table
from demur.router.reports.page import Provenance, report

VOID = {"meta", "link", "br", "hr", "img", "input"}
SVG_EMPTY = {"polyline", "polygon", "rect", "circle", "line"}


class Reader(HTMLParser):
    """Checks that every tag is closed in order; gathers tags, attributes and texts."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(set(names)) != len(names):
            self.faults.append(f"{tag} repeats an attribute")
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID | SVG_EMPTY:
            self.faults.append(f"<{tag}/> closes itself")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())


def read_page(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.faults == [] and reader.open == []
    return reader


@pytest.fixture(scope="session")
def read() -> Callable[[str], Reader]:
    """`read(page)`: parsed, and refused where it is not well-formed."""
    return read_page


def graded(
    count: int,
    start: int = 0,
    *,
    logprobs: bool = True,
    right: bool | None = None,
    signals: tuple[str, ...] = ("votes",),
    text: str = "text",
) -> list[GradedRow]:
    draw = random.Random(f"report {start}")
    rows = []
    for number in range(count):
        sure = draw.gauss(0.4, 1.0)
        correct = draw.random() < 1.0 / (1.0 + math.exp(-2.0 * sure)) if right is None else right
        row: dict[str, Any] = {
            "id": f"r{start + number}{text[:3]}",
            "prompt": f"Say {draw.getrandbits(60):x} {draw.getrandbits(60):x} {text}",
            "response": text,
            "correct": correct,
            "signals": {name: sure + draw.gauss(0.0, 1.0 + place) for place, name in enumerate(signals)},
        }
        if logprobs:
            row["logprobs"] = [-math.exp(-sure), -math.exp(-sure + draw.gauss(0.0, 0.3))]
        rows.append(GradedRow.model_validate(row))
    return rows


@dataclass(frozen=True)
class World:
    """An artefact, and rows that it was not fitted on, evaluated."""

    artefact: Artefact
    rows: GradedTable
    found: Evaluation

    def page(self, *, command: str = "demur eval", examples: bool = True) -> str:
        source = Provenance(command, made_at=datetime(2026, 12, 1, tzinfo=UTC), judging_seconds=0.5)
        return report(self.found, self.rows, self.artefact, source, examples=examples)


@pytest.fixture(scope="session")
def world() -> Callable[..., World]:
    """`world(rows, **options of graded)`; `task` and `costs` go to the artefact and to the table. Kept."""
    kept: dict[str, World] = {}
    artefacts: dict[str, Artefact] = {}

    def build(count: int = 240, *, task: str = "t", costs: bool = False, **options: Any) -> World:
        fitted_with = {key: value for key, value in options.items() if key != "right"}
        artefact_key = f"{task} {sorted(fitted_with.items())}"
        key = f"{artefact_key} {count} {costs} {options.get('right')}"
        if key not in kept:
            if artefact_key not in artefacts:
                table = graded_table(graded(200, **fitted_with))
                artefacts[artefact_key] = fit_artefact(table, task=task, grader=GIVEN, model=None)
            rows = graded_table(graded(count, 5000, **options))
            if costs:
                each = tuple(Cost(tokens_in=20, tokens_out=7, seconds=0.5) for _ in range(count))
                rows = GradedTable(**{**vars(rows), "costs": each})
            kept[key] = World(artefacts[artefact_key], rows, evaluate_artefact(artefacts[artefact_key], rows))
        return kept[key]

    return build
