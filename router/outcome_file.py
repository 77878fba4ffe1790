"""Grades from a JSONL file: all of them, or none."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, select

from ..core.database import Database
from ..core.database.outcome_log import OutcomeLog, Receipt, source_of
from ..core.database.outcome_queries import chunks
from ..core.database.tables import rounds
from ..core.errors import BadInput
from ..core.files import read_named
from ..core.outcome import Outcome
from ..core.record import Record

_FIELDS = frozenset(Outcome.model_fields) - {"id"}
_MOST_TOLD = 10
_BATCH = 1000
_AHEAD = timedelta(days=1)  # clocks differ, and a time without a zone may be up to 14 hours off


@dataclass(frozen=True)
class GradesRead:
    """The grades of a file, in its order, with their lines.

    Attributes:
        undated: places of those that do not say when they were made.
    """

    path: Path
    outcomes: list[Outcome]
    lines: list[int]
    undated: frozenset[int]


class ImportReport(Record):
    """What an import did.

    Attributes:
        stored: grades that changed something.
        known: grades that were there already (or newer ones were).
        retracted: grades that were taken back earlier, and stay so.
        skipped: grades of responses that are not in the log.
    """

    stored: int
    known: int
    retracted: int
    skipped: int


def read_outcomes(path: Path, *, source: str, source_name: str, now: datetime) -> GradesRead:
    """Read and check a file of {response_id, correct | score + cut, corrected_answer?, graded_at?, source?, ...}.

    Args:
        source, source_name: of rows that name none.
        now: when rows were graded that do not say; a time without zone is taken as UTC.

    Raises:
        BadInput: the file cannot be read, lines are no grades, or two lines contradict each other; every one is named.
    """
    source_of(source)
    try:
        text = read_named(path, pipes=True).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from error
    outcomes: list[Outcome] = []
    lines: list[int] = []
    undated: set[int] = set()
    wrong: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            outcome, dated = _outcome(line, {"source": source, "source_name": source_name, "graded_at": now}, now)
        except (ValueError, RecursionError) as error:
            wrong.append((number, _said(error)))
            continue
        if not dated:
            undated.add(len(outcomes))
        outcomes.append(outcome)
        lines.append(number)
    wrong += _contradictions(outcomes, lines)
    if wrong:
        raise BadInput(f"{path}: nothing is imported. {_named(wrong)}")
    if not outcomes:
        raise BadInput(f"{path} holds no grades")
    return GradesRead(path, outcomes, lines, frozenset(undated))


def import_outcomes(
    database: Database,
    given: GradesRead,
    *,
    skip_unknown: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ImportReport:
    """Store grades in one transaction; importing the same file again changes nothing.

    A grade that does not say when it was made is never put in place of one that was taken back.

    Args:
        progress: told (grades done, grades in all) after each batch.

    Raises:
        BadInput: responses that are not in the log (unless `skip_unknown`), or a model's own verdict.
        StoreError: the database failed. In all these cases nothing is stored.
    """
    log = OutcomeLog(database)
    receipts: Counter[Receipt] = Counter()
    with database.transaction() as connection:
        known = _in_log(connection, {one.response_id for one in given.outcomes})
        places = [place for place, one in enumerate(given.outcomes) if one.response_id in known]
        skipped = len(given.outcomes) - len(places)
        if skipped and not skip_unknown:
            raise BadInput(f"{given.path}: nothing is imported. {_unknown(given, known)}")
        for some in chunks(places, _BATCH):
            batch = [given.outcomes[place] for place in some]
            undated = [index for index, place in enumerate(some) if place in given.undated]
            recorded = log.record_many(batch, undated=undated, connection=connection)
            receipts.update(one.receipt for one in recorded)
            if progress is not None:
                progress(receipts.total(), len(places))
    return ImportReport(
        stored=receipts[Receipt.STORED],
        known=receipts[Receipt.KNOWN] + receipts[Receipt.OLDER],
        retracted=receipts[Receipt.RETRACTED],
        skipped=skipped,
    )


def moment(text: str, *, end: bool = False) -> datetime:
    """An ISO 8601 time; one without zone is UTC. A date alone is its first instant, or with `end` its last.

    Raises:
        BadInput: it is none.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadInput(f"{text!r} is no time; write 2026-12-01 or 2026-12-01T14:30+00:00") from error
    if end and len(text.strip()) <= len("2026-12-01") and found.time() == time.min:
        found = datetime.combine(found.date(), time.max)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _outcome(line: str, missing: dict[str, Any], now: datetime) -> tuple[Outcome, bool]:
    """The grade on a line, and whether it says when it was made."""
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError(f"expected an object, found {type(row).__name__}")
    odd = sorted(set(row) - _FIELDS)
    if odd:
        raise ValueError(f"unknown key {odd[0][:100]!r}; known are {', '.join(sorted(_FIELDS))}")
    row = {name: value for name, value in row.items() if value is not None}
    dated = "graded_at" in row
    _check_types(row)
    row = missing | row
    row["source"] = source_of(row["source"])
    if dated:
        row["graded_at"] = moment(row["graded_at"])
        if row["graded_at"] > now + _AHEAD:
            raise ValueError(
                f"graded_at={row['graded_at'].isoformat()} has not come yet; it would outlast any later grade"
            )
    outcome = Outcome.model_validate(row)
    outcome.model_dump_json()  # what cannot be stored is told now, with its line
    return outcome, dated


def _check_types(row: dict[str, Any]) -> None:
    """A grade is what it says, not what it might be read as: "no" is not false."""
    if "correct" in row:
        if isinstance(row["correct"], str | float) or row["correct"] not in (True, False):
            raise ValueError(f"correct={row['correct']!r} must be true or false")
        row["correct"] = bool(row["correct"])
    for name in ("score", "cut", "label_propensity"):
        if isinstance(row.get(name), bool | str):
            raise ValueError(f"{name}={row[name]!r} must be a number in [0, 1]")
    for name in ("response_id", "source", "source_name", "graded_at", "corrected_answer"):
        if name in row and not isinstance(row[name], str):
            raise ValueError(f"{name}={row[name]!r} must be text")
    if not row.get("response_id"):
        raise ValueError("response_id is missing")
    if len(row.get("source_name", "")) > 200:
        raise ValueError(f"source_name has {len(row['source_name'])} characters, at most 200 are stored")


def _contradictions(outcomes: list[Outcome], lines: list[int]) -> list[tuple[int, str]]:
    """Lines of which nobody could say which is the newer word."""
    first: dict[tuple[str, str, str, datetime], tuple[Outcome, int]] = {}
    found = []
    for one, line in zip(outcomes, lines, strict=True):
        key = (one.response_id, one.source.value, one.source_name, one.graded_at)
        other, where = first.setdefault(key, (one, line))
        if other.model_dump(exclude={"id"}) != one.model_dump(exclude={"id"}):
            found.append((line, f"contradicts line {where}: same response, source and time; say graded_at"))
    return found


def _named(wrong: Iterable[tuple[int, str]]) -> str:
    """What is wrong with the first lines, and the numbers of the others."""
    in_order = sorted(wrong)
    said = "; ".join(f"line {number}: {why}" for number, why in in_order[:_MOST_TOLD])
    rest = [number for number, _ in in_order[_MOST_TOLD:]]
    return f"{said}; and {len(rest)} more lines: {_ranges(rest)}" if rest else said


def _ranges(numbers: list[int]) -> str:
    """4–7, 9."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}–{high}" for low, high in runs)


def _unknown(given: GradesRead, known: Collection[str]) -> str:
    strange = [
        (line, f"no response {one.response_id[:100]!r} in this log")
        for one, line in zip(given.outcomes, given.lines, strict=True)
        if one.response_id not in known
    ]
    return f"{_named(strange)}. Grade Result.response_id, or leave them out with --skip-unknown"


def _in_log(connection: Connection, ids: Collection[str]) -> set[str]:
    found: set[str] = set()
    for some in chunks(sorted(ids)):
        query = select(rounds.c.response_id).where(rounds.c.response_id.in_(some))
        found.update(connection.execute(query).scalars())
    return found


def _said(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        return f"{where}: {first['msg']}" if where else str(first["msg"])
    return str(error)[:300]
