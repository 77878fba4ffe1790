"""The rows that `demur fit` and `demur eval` read: questions to be asked, or responses already graded."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, ValidationError, field_validator, model_validator

from ...core.errors import BadInput
from ...core.files import read_named
from ...core.record import Record

LONGEST_LINE = 4_000_000


class QuestionRow(Record):
    """A question with its gold answers; the model is asked. Further keys are kept for the grader."""

    model_config = ConfigDict(frozen=True, extra="allow", ser_json_inf_nan="null", protected_namespaces=())

    id: str = Field(min_length=1)
    question: str
    answers: tuple[str, ...]

    @field_validator("id", mode="before")
    @classmethod
    def _id_as_text(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class GradedRow(Record):
    """A response that somebody graded; no model is needed. Log-probabilities may hold null or NaN: both are missing.

    Attributes:
        tool: what the response calls; a tool with few rows leans on the others.
        conversation, turn: which conversation the response belongs to, and its place in it, counted from 1; both or
            neither. Rows of one conversation stay together.
    """

    model_config = ConfigDict(frozen=True, extra="allow", ser_json_inf_nan="null", protected_namespaces=())

    id: str = Field(min_length=1)
    prompt: str
    response: str
    correct: bool
    logprobs: tuple[float | None, ...] | None = None
    signals: dict[str, float | None] = Field(default_factory=dict)
    tool: str | None = Field(default=None, max_length=200)
    conversation: str | None = Field(default=None, min_length=1, max_length=1000)
    turn: int | None = Field(default=None, ge=1, le=1_000_000, strict=True)

    @field_validator("id", "conversation", mode="before")
    @classmethod
    def _id_as_text(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @model_validator(mode="after")
    def _placed(self) -> GradedRow:
        if (self.conversation is None) != (self.turn is None):
            raise ValueError("conversation and turn belong together: give both or neither")
        return self


Rows = Sequence[QuestionRow] | Sequence[GradedRow]


def read_rows(path: Path, *, limit: int | None = None, seed: int = 0) -> list[QuestionRow] | list[GradedRow]:
    """Read and check a JSONL file; with `limit`, a seeded sample of that many rows in file order.

    Raises:
        BadInput: the file cannot be read, a line is no such row, ids repeat, both forms are mixed, or `limit` is below
            1. The message names the line.
    """
    if limit is not None and limit < 1:
        raise BadInput(f"limit={limit}: at least 1 row is needed")
    try:
        text = read_named(path, pipes=True).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from error
    rows: list[Any] = []
    seen: dict[str, int] = {}
    # Not splitlines: U+2028 and its like are allowed inside JSON strings.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        row = _parse(path, number, line)
        if rows and type(row) is not type(rows[0]):
            raise BadInput(f"{path}:{number}: questions and graded responses are mixed; put them into separate files")
        if row.id in seen:
            raise BadInput(f"{path}:{number}: id {row.id!r} was used in line {seen[row.id]}; ids must be unique")
        seen[row.id] = number
        rows.append(row)
    if not rows:
        raise BadInput(f"{path} holds no rows")
    if limit is not None and limit < len(rows):
        chosen = set(random.Random(seed).sample(range(len(rows)), limit))  # noqa: S311
        rows = [row for index, row in enumerate(rows) if index in chosen]
    return rows


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are all different: of two values nobody knows which was meant."""
    data = dict(pairs)
    if len(data) != len(pairs):
        twice = next(key for index, (key, _) in enumerate(pairs) if key in dict(pairs[:index]))
        raise ValueError(f"the key {twice!r} appears twice")
    return data


def _parse(path: Path, number: int, line: str) -> QuestionRow | GradedRow:
    if len(line) > LONGEST_LINE:
        raise BadInput(f"{path}:{number}: the line has {len(line):,} characters, more than {LONGEST_LINE:,}")
    try:
        data = json.loads(line, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of thousands of digits
        raise BadInput(f"{path}:{number}: not JSON: {error}") from error
    if not isinstance(data, dict):
        raise BadInput(f"{path}:{number}: expected an object, found {type(data).__name__}")
    kind = GradedRow if "response" in data or "correct" in data else QuestionRow
    if kind is GradedRow and isinstance(data.get("correct"), int | float):
        # 0/1 is common in logs; anything between would need a named cut.
        if data["correct"] not in (0, 1) or (isinstance(data["correct"], float) and math.isnan(data["correct"])):
            raise BadInput(f"{path}:{number}: correct={data['correct']!r} must be true, false, 1 or 0")
        data["correct"] = bool(data["correct"])
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "row"
        raise BadInput(
            f"{path}:{number}: {where}: {first['msg']}. Rows are {{id, question, answers}} or "
            "{id, prompt, response, correct, logprobs?, signals?, tool?, conversation?, turn?}"
        ) from error
