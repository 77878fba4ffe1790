"""What the demo ships: questions, passages, artefact, policy, and the figures measured at fit time."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...core.record import Record


class DemoQuestion(Record):
    """A question with its accepted answers. `base_probability`: of the small model's draft, out of sample."""

    id: str
    question: str
    answers: tuple[str, ...]
    base_probability: float | None = None


def folder() -> Path:
    """Where the demo's data lies."""
    return Path(str(files("demur.integrations.demo")))


def questions() -> list[DemoQuestion]:
    """The 24 questions of the demo, in the order of the seeded draw."""
    return _read("questions.jsonl")


def measuring_questions() -> list[DemoQuestion]:
    """Tuning rows on which a larger model's success chance is measured; none of them is a demo question."""
    return _read("measuring.jsonl")


def report() -> dict[str, Any]:
    """Figures on 200 further rows, measured when the artefact was fitted; None where a part was not measured."""
    return json.loads((folder() / "report.json").read_text(encoding="utf-8"))


def _read(name: str) -> list[DemoQuestion]:
    lines = (folder() / name).read_text(encoding="utf-8").split("\n")
    return [DemoQuestion.model_validate_json(line) for line in lines if line]
