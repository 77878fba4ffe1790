"""Grades from a JSONL file: all of them, or none."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import select

from ..core.database import Database
from ..core.database.outcome_log import OutcomeLog, source_of
from ..core.database.tables import rounds
from ..core.errors import BadInput
from ..core.files import read_named
from ..core.outcome import Outcome
from ..core.record import Record

_FIELDS = frozenset(Outcome.model_fields) - {"id"}
_MOST_TOLD = 10


class ImportReport(Record):
    """What an import did.

    Attributes:
        stored: grades that changed something.
        known: grades that were there already (or newer ones were).
        skipped: grades of responses that are not in the log.
    """

    stored: int
    known: int
    skipped: int


def read_outcomes(path: Path, *, source: str, source_name: str, now: datetime) -> list[Outcome]:
    """Read and check a file of {response_id, correct | score + cut, corrected_answer?, graded_at?, source?, ...}.

    Args:
        source, source_name: of rows that name none.
        now: when rows were graded that do not say; a time without zone is taken as UTC.

    Raises:
        BadInput: the file cannot be read, or lines are no grades; the first ten are named.
    """
    source_of(source)
    try:
        text = read_named(path, pipes=True).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from error
    found: list[Outcome] = []
    wrong: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            found.append(_outcome(line, {"source": source, "source_name": source_name, "graded_at": now}))
        except (ValueError, RecursionError) as error:
            wrong.append(f"line {number}: {_said(error)}")
    if wrong:
        more = f"; and {len(wrong) - _MOST_TOLD} more" if len(wrong) > _MOST_TOLD else ""
        raise BadInput(f"{path}: nothing is imported. {'; '.join(wrong[:_MOST_TOLD])}{more}")
    if not found:
        raise BadInput(f"{path} holds no grades")
    return found


def import_outcomes(database: Database, outcomes: list[Outcome], *, skip_unknown: bool = False) -> ImportReport:
    """Store grades in one transaction; importing the same file again changes nothing.

    Raises:
        BadInput: responses that are not in the log (unless `skip_unknown`), or a model's own verdict.
        StoreError: the database failed. In all these cases nothing is stored.
    """
    log = OutcomeLog(database)
    stored = skipped = 0
    with database.transaction() as connection:
        known = _in_log(connection, {one.response_id for one in outcomes})
        unknown = sorted({one.response_id for one in outcomes} - known)
        if unknown and not skip_unknown:
            raise BadInput(
                f"{len(unknown)} responses are not in this log: {', '.join(map(repr, unknown[:5]))}; grade "
                "Result.response_id, or leave them out with --skip-unknown"
            )
        for one in outcomes:
            if one.response_id not in known:
                skipped += 1
            elif log.record(one, connection=connection) == one.id:
                stored += 1
    return ImportReport(stored=stored, known=len(outcomes) - stored - skipped, skipped=skipped)


def _in_log(connection: Any, ids: Collection[str]) -> set[str]:
    wanted, found = sorted(ids), set()
    for start in range(0, len(wanted), 500):
        query = select(rounds.c.response_id).where(rounds.c.response_id.in_(wanted[start : start + 500]))
        found.update(connection.execute(query).scalars())
    return found


def _outcome(line: str, missing: dict[str, Any]) -> Outcome:
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError(f"expected an object, found {type(row).__name__}")
    odd = sorted(set(row) - _FIELDS)
    if odd:
        raise ValueError(f"unknown key {odd[0]!r}; known are {', '.join(sorted(_FIELDS))}")
    row = missing | {name: value for name, value in row.items() if value is not None}
    if isinstance(row.get("correct"), int) and row["correct"] in (0, 1):
        row["correct"] = bool(row["correct"])
    row["source"] = source_of(row["source"])
    if isinstance(row["graded_at"], str):
        row["graded_at"] = moment(row["graded_at"])
    return Outcome.model_validate(row)


def moment(text: str) -> datetime:
    """An ISO 8601 time; one without zone is UTC.

    Raises:
        BadInput: it is none.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadInput(f"{text!r} is no time; write 2026-12-01 or 2026-12-01T14:30+00:00") from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _said(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        return f"{where}: {first['msg']}" if where else str(first["msg"])
    return str(error)[:300]
