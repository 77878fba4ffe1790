"""Some grades on their way into the log of outcomes: what is stored already, and what will be."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, select

from ..errors import BadInput
from ..outcome import Outcome, OutcomeSource
from .counters import OUTCOMES, next_numbers
from .known_responses import KnownResponse, known_responses, name_for_comparing
from .outcome_queries import STRENGTH
from .tables import outcomes


class Receipt(StrEnum):
    """What became of a grade that was handed in."""

    STORED = "stored"
    KNOWN = "known already"
    OLDER = "older than what is stored"
    RETRACTED = "taken back earlier, and stays so"


class Recorded(NamedTuple):
    """The id of the outcome that is stored now for this response, source and name, and whether it is the one given."""

    id: str
    receipt: Receipt


class OutcomeBatch:
    """Some grades on their way into the table: what is stored there, and what it will be."""

    def __init__(self, connection: Connection, given: Sequence[Outcome], task: str | None, tenant: str | None) -> None:
        self._connection, self._task, self._tenant = connection, task, tenant
        ids = sorted({one.response_id for one in given})
        judged = {one.response_id for one in given if one.source is OutcomeSource.JUDGE and one.source_name}
        self._known = known_responses(connection, ids, whose=judged)
        self._rows: dict[str, dict[tuple[str, str], Any]] = {id: {} for id in ids}
        stored = connection.execute(select(outcomes).where(outcomes.c.response_id.in_(ids))).mappings()
        for row in stored:
            self._rows[row["response_id"]][row["source"], row["source_name"]] = dict(row) | {"stored_id": row["id"]}
        self._changed: dict[tuple[str, str, str], dict[str, Any]] = {}

    def take(self, outcome: Outcome, undated: bool, revive: bool) -> Recorded:
        """Work out what becomes of a grade, in the light of what is stored and was taken before."""
        known = self._known.get(outcome.response_id)
        _refuse_own_verdict(outcome, known)
        rows = self._rows[outcome.response_id]
        stored = rows.get((outcome.source.value, outcome.source_name))
        if stored is not None:
            receipt = self._receipt(stored, outcome, undated, revive)
            if receipt is not Receipt.STORED:
                return Recorded(stored["id"], receipt)
        if outcome.label_propensity is None and known is not None:
            outcome = outcome.model_copy(update={"label_propensity": known.label_propensity})
        row = {
            "id": outcome.id,
            "response_id": outcome.response_id,
            "task": self._task if self._task is not None else (known.task if known else None),
            "tenant": self._tenant if self._tenant is not None else (known.tenant if known else None),
            "is_right": outcome.is_right,
            "source": outcome.source.value,
            "source_name": outcome.source_name,
            "label_propensity": outcome.label_propensity,
            "outcome": outcome.model_dump_json(),
            "graded_at": outcome.graded_at,
            "revision": 0 if stored is None or stored["stored_id"] is None else stored["revision"] + 1,
            "retracted_at": None,
            "retracted_because": None,
            "stored_id": None if stored is None else stored["stored_id"],
        }
        rows[row["source"], row["source_name"]] = row
        key = (row["response_id"], row["source"], row["source_name"])
        self._changed.pop(key, None)  # numbered in the order of the last word
        self._changed[key] = row
        return Recorded(outcome.id, Receipt.STORED)

    def write(self) -> None:
        """Number and store what changed."""
        if not self._changed:
            return
        numbers = next_numbers(self._connection, OUTCOMES, len(self._changed))
        rows = [row | {"change": number} for row, number in zip(self._changed.values(), numbers, strict=True)]
        names = [column.name for column in outcomes.columns]
        fresh = [{name: row[name] for name in names} for row in rows if row["stored_id"] is None]
        again = [
            {"was": row["stored_id"], **{f"new_{name}": row[name] for name in names}}
            for row in rows
            if row["stored_id"] is not None
        ]
        if again:
            values = {name: bindparam(f"new_{name}", type_=outcomes.c[name].type) for name in names}
            query = outcomes.update().where(outcomes.c.id == bindparam("was")).values(values)
            self._connection.execute(query, again)
        if fresh:
            self._connection.execute(outcomes.insert(), fresh)

    def _receipt(self, stored: dict[str, Any], outcome: Outcome, undated: bool, revive: bool) -> Receipt:
        """STORED where the grade is to take the place of what is stored."""
        if stored["retracted_at"] is not None:
            stays = not revive if undated else outcome.graded_at <= stored["retracted_at"]
            return Receipt.RETRACTED if stays else Receipt.STORED
        if outcome.graded_at < stored["graded_at"]:
            return Receipt.OLDER
        if not _says_the_same(Outcome.model_validate_json(stored["outcome"]), outcome):
            return Receipt.STORED
        # Of several people of one kind the newest word is in force: to say it again then takes force back.
        nothing_new = outcome.graded_at == stored["graded_at"] or (undated and self._is_in_force(stored))
        return Receipt.KNOWN if nothing_new else Receipt.STORED

    def _is_in_force(self, row: dict[str, Any]) -> bool:
        counting = [each for each in self._rows[row["response_id"]].values() if each["retracted_at"] is None]
        counting.sort(key=lambda each: each["id"])
        return max(counting, key=lambda each: (STRENGTH[each["source"]], each["graded_at"])) is row


def _refuse_own_verdict(outcome: Outcome, known: KnownResponse | None) -> None:
    if known is None or outcome.source is not OutcomeSource.JUDGE:
        return
    if name_for_comparing(outcome.source_name) in known.models:
        raise BadInput(
            f"judge {outcome.source_name!r} is the model that gave response {outcome.response_id!r}: a model's own "
            "verdict never counts; grade with another model, a test or a person"
        )


def _says_the_same(stored: Outcome, given: Outcome) -> bool:
    told = ("correct", "score", "cut", "corrected_answer")
    same = all(getattr(stored, name) == getattr(given, name) for name in told)
    return same and given.label_propensity in (None, stored.label_propensity)
