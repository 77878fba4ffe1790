"""Online calibration of every head, kept in SQL: by tenant, task, head and kind of turn."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from ...core.confidence import Confidence, Contribution, Interval, Probability
from ...core.database import Database
from ...core.database.outcome_log import OutcomeLog
from ...core.database.tables import learned, outcomes, rounds, runs
from ...core.protocols import Clock
from ...core.turn import TurnKind
from ...probes.calibration.base import logit
from ...probes.calibration.online import OnlineCalibration
from .follower import Follower
from .graded import Graded, Seen, graded, seen

logger = logging.getLogger("demur")

NAME = "online"
CONTRIBUTION = "online calibration"


class Key(NamedTuple):
    """What shares one online calibration."""

    tenant: str
    task: str
    calibrator: str
    turn: TurnKind

    @property
    def scope(self) -> str:
        return hashlib.sha256(f"{self.calibrator}\0{self.turn.value}".encode()).hexdigest()


class OnlineStore:
    """Learns from outcomes, and says what a head's probability amounts to by now.

    Each response teaches once. Where its grade changed, or was taken back, what it taught is not subtracted (the order
    matters): the key's calibration is made again from the log, in the order of its outcomes.

    Args:
        min_outcomes: with fewer the head is left alone.
    """

    def __init__(self, database: Database, clock: Clock, *, min_outcomes: int = 20) -> None:
        self.database = database
        self.clock = clock
        self.min_outcomes = min_outcomes
        self.follower = Follower(NAME, database, clock, self._learn)
        self._outcomes = OutcomeLog(database)
        self._loaded: dict[Key, OnlineCalibration | None] = {}
        self._at = -1
        self._lock = threading.Lock()

    def catch_up(self) -> int:
        """Take in new outcomes; cheap where there are none. Returns how many changes there were."""
        return self.follower.catch_up()

    def state(self, key: Key) -> OnlineCalibration | None:
        """What was learned for this key, or None. A state that cannot be read back is made again from the log."""
        with self.database.reading() as connection:
            # Not the newest outcome but the last one learned: another process may have recorded one and be learning it
            # just now, and what is read here must not pass for the state after it.
            at = self.follower.through_within(connection)
            with self._lock:
                if at != self._at:
                    self._loaded.clear()
                    self._at = at
                if key in self._loaded:
                    return self._loaded[key]
            stored = connection.execute(select(learned.c.state).where(*_where(key))).scalar_one_or_none()
        found = None if stored is None else (_read(stored) or self._mend(key))
        with self._lock:
            if self._at == at:
                self._loaded[key] = found
        return found

    def rebuild(self) -> int:
        """Forget every state and learn all of them again from the log. Returns the number of changes taken in.

        Calls that come in between are judged by as much as is learned by then.
        """
        return self.follower.start_over(
            lambda connection: connection.execute(learned.delete().where(learned.c.name == NAME))
        )

    def _mend(self, key: Key) -> OnlineCalibration:
        """A state made again from the log, as far as the log is learned."""
        with self.database.transaction() as connection:
            through = self.follower.locked(connection)
            state, version = self._locked(connection, key)
            if state is None:
                state = self._replayed(connection, key, through)
                self._write(connection, key, state, version)
        return state

    def adjusted(self, key: Key, confidence: Confidence) -> Confidence:
        """The confidence with what was learned since its head was fitted; as it is where that is too little."""
        state = self.state(key)
        if confidence.is_prior or state is None or state.count < self.min_outcomes:
            return confidence
        before = confidence.value
        value = state.predict(before)
        low, high = state.interval(before, confidence.interval.low, confidence.interval.high)
        shift = Contribution(signal=CONTRIBUTION, log_odds=float(logit(value) - logit(before)))
        parts = sorted((*confidence.contributions, shift), key=lambda part: (-abs(part.log_odds), part.signal))
        return confidence.model_copy(
            update={
                "probability": Probability(value=value),
                "interval": Interval(low=low, high=high, level=confidence.interval.level),
                "contributions": tuple(parts),
                "labels": confidence.labels + state.count,
                "fused": before,
            }
        )

    def states(self, task: str | None = None, tenant: str | None = None) -> list[tuple[Key, OnlineCalibration]]:
        """Everything that was learned, for reports; what cannot be read back is left out."""
        query = select(learned.c.tenant, learned.c.task, learned.c.state).where(learned.c.name == NAME)
        if task is not None:
            query = query.where(learned.c.task == task)
        if tenant is not None:
            query = query.where(learned.c.tenant == tenant)
        with self.database.reading() as connection:
            rows = connection.execute(query.order_by(learned.c.tenant, learned.c.task, learned.c.scope)).all()
        found = []
        for row in rows:
            state = _read(row.state)
            if state is not None:
                stored = json.loads(row.state)
                found.append((Key(row.tenant, row.task, stored["calibrator"], TurnKind(stored["turn"])), state))
        return found

    def _learn(self, connection: Connection, response_ids: Sequence[str]) -> None:
        known = seen(connection, response_ids)
        changed_before = _changed_before(connection, response_ids)
        in_force = self._outcomes.effective_many(response_ids, connection)
        fresh: dict[Key, list[Graded]] = {}
        again: set[Key] = set()
        for id in response_ids:
            key = key_of(known.get(id))
            if key is None:
                continue
            if id in changed_before or id not in in_force:
                again.add(key)
            else:
                change, outcome = in_force[id]
                fresh.setdefault(key, []).append(Graded(known[id], outcome, change))
        for key in sorted({*fresh, *again}):
            state, version = self._locked(connection, key)
            if key in again or state is None:
                state = self._replayed(connection, key, self._reading_through(connection))
            else:
                for row in sorted(fresh[key], key=lambda row: row.change):
                    teach(state, row)
            self._write(connection, key, state, version)

    def _replayed(self, connection: Connection, key: Key, through: int) -> OnlineCalibration:
        """What everything that teaches this key amounts to, in order, up to a change."""
        turn = rounds.c.turn == key.turn.value
        rows = graded(
            connection,
            self._outcomes,
            runs.c.tenant == key.tenant,
            runs.c.task == key.task,
            rounds.c.calibrator == key.calibrator,
            turn | rounds.c.turn.is_(None) if key.turn is TurnKind.ANSWER else turn,
        )
        state = OnlineCalibration()
        for row in rows:
            if row.change <= through:
                teach(state, row)
        return state

    def _reading_through(self, connection: Connection) -> int:
        """Outcomes after the batch that is being read are left to their own turn."""
        at = self.follower.through_within(connection)
        changes = self._outcomes.changed_since(at, self.follower.batch, connection)
        return changes[-1].number if changes else at

    def _locked(self, connection: Connection, key: Key) -> tuple[OnlineCalibration | None, int]:
        row = connection.execute(
            select(learned.c.state, learned.c.version).where(*_where(key)).with_for_update()
        ).one_or_none()
        return (None, -1) if row is None else (_read(row.state), row.version)

    def _write(self, connection: Connection, key: Key, state: OnlineCalibration, version: int) -> None:
        stored = json.dumps({"calibrator": key.calibrator, "turn": key.turn.value, "online": state.to_dict()})
        values: dict[str, Any] = {"state": stored, "version": version + 1, "updated_at": self.clock.now()}
        if version < 0:
            named = {"name": NAME, "tenant": key.tenant, "task": key.task, "scope": key.scope, "through": 0}
            connection.execute(learned.insert().values(**named, **values))
        else:
            connection.execute(learned.update().where(*_where(key)).values(**values))


def teach(state: OnlineCalibration, row: Graded) -> None:
    """One outcome. A label whose propensity is not known counts once."""
    assert row.seen.fused is not None
    state.update(row.seen.fused, row.outcome.is_right, weight=row.weight or 1.0)


def key_of(one: Seen | None) -> Key | None:
    """What this response teaches; None where no head judged it."""
    if one is None or one.fused is None or one.calibrator is None:
        return None
    return Key(one.tenant, one.task, one.calibrator, one.turn)


def _changed_before(connection: Connection, response_ids: Sequence[str]) -> set[str]:
    """Those whose outcome is not simply new: written again, taken back, or one of several."""
    found: set[str] = set()
    for start in range(0, len(response_ids), 500):
        rows = connection.execute(
            select(outcomes.c.response_id, outcomes.c.revision, outcomes.c.retracted_at).where(
                outcomes.c.response_id.in_(response_ids[start : start + 500])
            )
        ).all()
        told: set[str] = set()
        for row in rows:
            if row.response_id in told or row.revision or row.retracted_at is not None:
                found.add(row.response_id)
            told.add(row.response_id)
    return found


def _where(key: Key) -> tuple[Any, ...]:
    named = {"name": NAME, "tenant": key.tenant, "task": key.task, "scope": key.scope}
    return tuple(learned.c[name] == value for name, value in named.items())


def _read(stored: str) -> OnlineCalibration | None:
    """None where it cannot be read back: the log, from which it can be made again, is the truth (rule 6)."""
    try:
        return OnlineCalibration.from_dict(json.loads(stored)["online"])
    except (ValueError, KeyError, TypeError) as error:  # BadInput is a ValueError
        logger.warning("what was learned online cannot be read back and is made again from the log: %s", error)
        return None
