"""Outcomes write episodes: every graded response is experience, once, with its newest grade."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from sqlalchemy import Connection

from ...core.call import Call, CallKind
from ...core.database import Database
from ...core.database.outcome_log import OutcomeLog
from ...core.outcome import Outcome
from ...core.protocols import Clock
from ...core.record import canonical_json
from ...core.response import Response
from ...memory.episode import Episode
from ...memory.episode_store import EpisodeStore
from .follower import Follower
from .graded import Seen, contents, seen

NAME = "episodes"


class EpisodeWriter:
    """Follows the outcomes and keeps the episodes in step with them.

    A grade that changed changes its episode; one that was taken back, with no other left, takes its episode along.
    """

    def __init__(self, store: EpisodeStore, database: Database, clock: Clock) -> None:
        self.store = store
        self.follower = Follower(NAME, database, clock, self._learn)
        self._outcomes = OutcomeLog(database)

    def catch_up(self) -> int:
        """Write what is new. Returns how many changes of outcomes there were."""
        return self.follower.catch_up()

    def rebuild(self) -> int:
        """Write every graded response's episode again; those of other origin stay. Returns the number of changes."""
        return self.follower.start_over(lambda connection: None)

    def _learn(self, connection: Connection, response_ids: Sequence[str]) -> None:
        in_force = self._outcomes.effective_many(response_ids, connection)
        known = seen(connection, response_ids)
        graded_ids = [id for id in response_ids if id in in_force]
        content = {id: (call, response) for id, call, response, _ in contents(connection, graded_ids)}
        for id in response_ids:  # numbered in the order of their grades
            if id in content:
                self.store.put_graded(episode_of(known[id], *content[id], in_force[id][1]), connection)
            elif id not in in_force:
                self.store.drop(episode_id(id), connection)


def episode_id(response_id: str) -> str:
    """One episode a response, whoever writes it and however often."""
    return f"epi_{hashlib.sha256(response_id.encode()).hexdigest()[:32]}"


def episode_of(one: Seen, call: Call, response: Response, outcome: Outcome) -> Episode:
    """What a graded response is remembered as. The confidence is the head's own, before anything learned since."""
    is_tool = call.kind is CallKind.TOOL
    proposed = f"{call.tool_name} {canonical_json(call.arguments)}" if is_tool else ""
    return Episode(
        id=episode_id(one.response_id),
        response_id=one.response_id,
        task=one.task,
        tenant=one.tenant,
        model=response.model[:200] or "unknown",
        question=proposed if is_tool else call.question,
        answer=proposed if is_tool else response.text,
        confidence=one.fused,
        is_right=outcome.is_right,
        graded_at=outcome.graded_at,
        corrected_answer=outcome.corrected_answer,
        tool_name=call.tool_name,
        arguments=call.arguments,
        created_at=one.created_at,
    )
