"""What the log knows of a response that is graded: whose it is, who gave it, and its chance of being graded."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from .outcome_queries import chunks
from .tables import decisions, rounds, runs


class KnownResponse(NamedTuple):
    """A response in the log.

    Attributes:
        task, tenant: those of its run; of the first run where it proposed several tool calls.
        models: names of the model that gave it, for comparing; filled where asked for.
        label_propensity: of the decision that stood in the end; None where there was none.
    """

    task: str
    tenant: str
    models: frozenset[str]
    label_propensity: float | None


def known_responses(
    connection: Connection, ids: Collection[str], *, whose: Collection[str] = ()
) -> dict[str, KnownResponse]:
    """Those of the responses that are in the log, by id.

    Args:
        whose: responses of which the model's names are wanted; reading them takes the stored response.
    """
    query = (
        select(rounds.c.response_id, rounds.c.run_id, rounds.c.number, runs.c.task, runs.c.tenant)
        .join(runs, runs.c.id == rounds.c.run_id)
        .order_by(rounds.c.created_at, rounds.c.run_id, rounds.c.number)
    )
    rows: list[Any] = []
    for some in chunks(sorted(ids)):
        rows += connection.execute(query.where(rounds.c.response_id.in_(some))).all()
    standing = _standing(connection, sorted({row.run_id for row in rows}))
    models = _models(connection, whose)
    chances: dict[str, list[float | None]] = {}
    found: dict[str, KnownResponse] = {}
    for row in rows:
        chances.setdefault(row.response_id, []).append(standing.get((row.run_id, row.number)))
        if row.response_id not in found:
            names = models.get(row.response_id, frozenset())
            found[row.response_id] = KnownResponse(row.task, row.tenant, names, None)
    return {id: known._replace(label_propensity=chance_of_any(chances[id])) for id, known in found.items()}


def chance_of_any(chances: Sequence[float | None]) -> float | None:
    """The chance that at least one of several independent draws meets; None where one of them is not known."""
    known = [chance for chance in chances if chance is not None]
    if not known or len(known) < len(chances):
        return None
    return known[0] if len(known) == 1 else 1.0 - math.prod(1.0 - chance for chance in known)


def name_for_comparing(name: str) -> str:
    """Two spellings of one model's name are one name."""
    return " ".join(name.split()).casefold()


def _standing(connection: Connection, run_ids: list[str]) -> dict[tuple[str, int], float | None]:
    """The label propensity that stood in the end, by run and the number of the round of a response.

    A round without a response of its own decides anew about the draft of the round before: it was to be retrieved for,
    that failed, and a human was asked after all.
    """
    query = (
        select(rounds.c.run_id, rounds.c.number, rounds.c.response_id, decisions.c.label_propensity)
        .outerjoin(decisions, (decisions.c.run_id == rounds.c.run_id) & (decisions.c.round == rounds.c.number))
        .order_by(rounds.c.run_id, rounds.c.number)
    )
    found: dict[tuple[str, int], float | None] = {}
    for some in chunks(run_ids):
        draft: tuple[str, int] | None = None
        for row in connection.execute(query.where(rounds.c.run_id.in_(some))):
            if row.response_id is not None:
                draft = (row.run_id, row.number)
            if draft is not None and draft[0] == row.run_id:
                found[draft] = row.label_propensity
    return found


def _models(connection: Connection, ids: Collection[str]) -> dict[str, frozenset[str]]:
    query = select(rounds.c.response_id, rounds.c.fingerprint, rounds.c.response, runs.c.model).join(
        runs, runs.c.id == rounds.c.run_id
    )
    found: dict[str, set[str]] = {}
    for some in chunks(sorted(ids), 50):  # responses may be long
        for row in connection.execute(query.where(rounds.c.response_id.in_(some))):
            names = [_entry(row.fingerprint, "name"), _entry(row.fingerprint, "identity")]
            names.append(_entry(row.response, "model") or row.model)
            found.setdefault(row.response_id, set()).update(name_for_comparing(name) for name in names if name)
    return {id: frozenset(names) for id, names in found.items()}


def _entry(document: str | None, name: str) -> str | None:
    try:
        found = None if document is None else json.loads(document).get(name)
    except (ValueError, AttributeError, RecursionError):  # a damaged row names nobody
        return None
    return found if isinstance(found, str) else None
