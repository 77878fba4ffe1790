"""Heads fitted on the log of graded calls, kept in SQL beside the artefact that they go on from."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, select

from ...core.database import Database
from ...core.database.outcome_log import OutcomeLog
from ...core.database.tables import learned, outcomes
from ...core.errors import BadInput
from ...core.protocols import Clock
from ...core.record import canonical_json
from ...probes.head import Head
from ...probes.head_storage import head_from_parts, head_to_parts

NAME = "head"


@dataclass(frozen=True)
class LearnedHead:
    """A head that was fitted on the log.

    Attributes:
        identity: of the model whose responses it was fitted on; it judges no other's.
        artefact_id: the artefact in force when it was fitted; None where there was none.
        through: the number of the last outcome that it was fitted on.
        graded: graded responses then, used or not: a new fit is due once these have grown.
        in_use: False: it was no better than what is there, and is kept aside.
        report: figures and reasons, for people.
    """

    head: Head
    tenant: str
    task: str
    identity: str
    artefact_id: str | None
    through: int
    graded: int
    in_use: bool
    report: Mapping[str, Any] = field(default_factory=dict)

    @property
    def calibrator(self) -> str:
        """Its name in confidences. Later fits keep it, so that what calibration learned online goes on."""
        return f"learned:{self.scope[:12]}/{self.head.key}"

    @property
    def scope(self) -> str:
        return scope_of(self.head.arm, self.identity)


def scope_of(arm: str, identity: str) -> str:
    """Where the head of this arm and model is filed."""
    return hashlib.sha256(f"{arm}\0{identity}".encode()).hexdigest()


class LearnedHeads:
    """The store of learned heads: one for each tenant, task, arm and model."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.database = database
        self.clock = clock
        self._outcomes = OutcomeLog(database)
        self._loaded: dict[tuple[str, str, str], tuple[int, LearnedHead | None]] = {}

    def get(self, tenant: str, task: str, arm: str, identity: str) -> LearnedHead | None:
        """The newest head, in use or not; None where outcomes of its task were taken back since it was fitted.

        So a head that rests on what does not count any more is never used, whatever became of whoever took it back
        before `forget` (a crash between the two, say).

        Raises:
            BadInput: what is stored cannot be read back.
            StoreError: the database failed.
        """
        key = (tenant, task, scope_of(arm, identity))
        where = _where(*key)
        with self.database.reading() as connection:
            known = connection.execute(select(learned.c.version, learned.c.through).where(*where)).one_or_none()
            if known is None or _taken_back_since(connection, task, known.through):
                return None
            version: int = known.version
            if key in self._loaded and self._loaded[key][0] == version:
                return self._loaded[key][1]
            state = connection.execute(select(learned.c.state).where(*where)).scalar_one()
        found = _read(state, tenant, task, identity)
        self._loaded[key] = (version, found)
        return found

    def put(self, found: LearnedHead) -> bool:
        """Store a head in place of the one that is there.

        Returns:
            False: it was not stored, because the one that is there was fitted on later outcomes, or because outcomes
            were taken back while it was fitted.
        """
        where = _where(found.tenant, found.task, found.scope)
        values = {"through": found.through, "state": _written(found), "updated_at": self.clock.now()}
        with self.database.transaction() as connection:
            if _taken_back_since(connection, found.task, found.through):
                return False
            known = connection.execute(
                select(learned.c.through, learned.c.version).where(*where).with_for_update()
            ).one_or_none()
            if known is None:
                named = {"name": NAME, "tenant": found.tenant, "task": found.task, "scope": found.scope, "version": 0}
                connection.execute(learned.insert().values(**named, **values))
            elif known.through <= found.through:
                connection.execute(learned.update().where(*where).values(**values, version=known.version + 1))
            else:
                return False
        return True

    def forget(self, tenant: str | None = None, task: str | None = None) -> int:
        """Drop heads: what they were fitted on does not count any more. Returns how many there were."""
        query = learned.delete().where(learned.c.name == NAME)
        for column, value in ((learned.c.tenant, tenant), (learned.c.task, task)):
            if value is not None:
                query = query.where(column == value)
        with self.database.transaction() as connection:
            return int(connection.execute(query).rowcount)

    def all(self, tenant: str | None = None) -> list[LearnedHead]:
        """Every stored head, for reports."""
        query = select(learned.c.tenant, learned.c.task, learned.c.state).where(learned.c.name == NAME)
        if tenant is not None:
            query = query.where(learned.c.tenant == tenant)
        with self.database.reading() as connection:
            rows = connection.execute(query.order_by(learned.c.tenant, learned.c.task, learned.c.scope)).all()
        return [_read(row.state, row.tenant, row.task, json.loads(row.state)["identity"]) for row in rows]


def _taken_back_since(connection: Connection, task: str, through: int) -> bool:
    """Was an outcome of the task taken back after the change of this number?"""
    query = (
        select(outcomes.c.id)
        .where(outcomes.c.change > through, outcomes.c.retracted_at.is_not(None), outcomes.c.task == task)
        .limit(1)
    )
    return connection.execute(query).first() is not None


def _where(tenant: str, task: str, scope: str) -> tuple[Any, ...]:
    named = {"name": NAME, "tenant": tenant, "task": task, "scope": scope}
    return tuple(learned.c[name] == value for name, value in named.items())


def _written(found: LearnedHead) -> str:
    from safetensors.numpy import save

    meta, arrays = head_to_parts(found.head)
    parts = {
        "identity": found.identity,
        "artefact_id": found.artefact_id,
        "through": found.through,
        "graded": found.graded,
        "in_use": found.in_use,
        "report": dict(found.report),
        "head": meta,
        "arrays": base64.b64encode(save(arrays)).decode(),
    }
    return canonical_json(parts)


def _read(state: str, tenant: str, task: str, identity: str) -> LearnedHead:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        parts = json.loads(state)
        head = head_from_parts(parts["head"], load(base64.b64decode(parts["arrays"], validate=True)))
        return LearnedHead(
            head=head,
            tenant=tenant,
            task=task,
            identity=parts["identity"],
            artefact_id=parts["artefact_id"],
            through=parts["through"],
            graded=parts["graded"],
            in_use=parts["in_use"],
            report=parts["report"],
        )
    except (ValueError, KeyError, TypeError, SafetensorError) as error:
        raise BadInput(f"the head learned for task {task!r} cannot be read back: {error}; run demur learn") from error
