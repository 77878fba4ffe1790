"""The log of runs: what was called, what was seen, what was decided, what came of it.

A decision is committed before anything acts on it (rule 5); a deferral's review item is in the same transaction.
"""

from __future__ import annotations

import asyncio
from typing import Any

from sqlalchemy import Connection, and_, or_, select

from ..core.call import Call, CallKind
from ..core.database import Database
from ..core.database.tables import decisions, effects, rounds, runs
from ..core.decision import Mode, Route
from ..core.errors import BadInput, StaleItem
from ..core.protocols import Clock
from ..core.response import Cost
from ..core.review_item import ReviewItem, ReviewKind
from ..core.run import EffectState, Result, Round, Run, RunState
from ..core.stored_cost import cost_columns
from ..core.stored_result import pack_result
from ..core.text import limited, said
from ..review.parents import tell_parent
from ..review.queue import ReviewQueue
from .deferral import plain_item, waiting_result
from .ending import ERROR_LIMIT, end_by_effects
from .reissue import WaitsAlready, waiting_twin
from .resumption import Resumption, approved_item, resumption_of
from .run_queries import by_key, let_go, let_through_runs, load_run, must_find
from .run_rows import decision_row, round_row, run_row, substance
from .unknown import mark_unknown

Runs = list[Run]
_NAME_LIMIT = 150
_ENDED_BY_A_HUMAN = (RunState.WAITING, RunState.UNKNOWN)


class RunLog:
    """The store of runs. Methods have async twins (`astart`, ...), which run them in a thread.

    `let_through` and `child_of` have none: only the plan of resuming asks them, and it runs them as `blocking` steps.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self.database = database
        self.clock = clock
        self.queue = ReviewQueue(database, clock)

    def start(self, run: Run, mode: Mode, owner: str, *, model: str | None = None) -> Run:
        """Store a new run, or find the one that its idempotency key already has.

        A key is spent by whatever its run came to. Only a run that failed before its effect (or of which a human
        found that the effect did not happen) lets go of its key: the new run takes it.

        A tool call that already waits in its conversation under another key, or none, is found in the same way: nobody
        is asked twice.

        Args:
            owner: the process that works on it (`this_process()`).
            model: the name of the model that will answer, until a response says its own.

        Returns:
            `run` itself, or the stored run of the same tenant and key, or the one that waits: compare the ids.

        Raises:
            BadInput: the key was used for another call (other messages, tool or arguments).
            StoreError: nothing was stored.
        """
        with self.database.transaction() as connection:
            key = run.call.idempotency_key
            known = None if key is None else by_key(connection, run.call.tenant, key)
            if known is not None:
                found = load_run(connection, known)
                if substance(found.call) != substance(run.call):
                    raise BadInput(
                        f"idempotency key {key!r} was used for another call (run {found.id!r}); use a new key"
                    )
                if not let_go(connection, found):
                    return found
            elif mode is Mode.ENFORCE and run.call.kind is CallKind.TOOL and run.parent_id is None:
                call = run.call
                twin = waiting_twin(connection, call.tenant, call.conversation_id, substance(call))
                if twin is not None:
                    return load_run(connection, twin)
            row = run_row(run, mode, owner, self.clock.now())
            row["model"] = None if model is None else limited(model, _NAME_LIMIT)
            connection.execute(runs.insert().values(row))
            return run

    def record_round(self, run_id: str, round: Round, *, review: ReviewItem | None = None) -> str | None:
        """Store a round and its decision, and where the decision defers the review item, in one transaction.

        An enforced decision to defer makes the run wait. Where no `review` is handed in for it, one is made that
        expires at the call's deadline.

        Args:
            review: the item to queue; one of kind LABEL leaves the run open.

        Returns:
            the id of the queued item, or None.

        Raises:
            StaleItem: the run is no longer open.
            WaitsAlready: the same call came to wait in the same conversation in another run, at the same moment.
            BadInput: the round, its decision and the item do not belong together.
            StoreError: nothing was stored; do not act.
        """
        decision = round.decision
        if decision.run_id != run_id or decision.round != round.number:
            raise BadInput(
                f"decision {decision.id!r} is of round {decision.round} of {decision.run_id!r}, "
                f"not of round {round.number} of {run_id!r}"
            )
        with self.database.transaction() as connection:
            row = must_find(connection, run_id)
            if row.state != RunState.OPEN.value:
                raise StaleItem(f"run {run_id!r} is {row.state}; only an open run takes another round")
            now = self.clock.now()
            connection.execute(rounds.insert().values(round_row(run_id, round, now)))
            connection.execute(decisions.insert().values(decision_row(decision, row.task, row.tenant)))
            changes: dict[str, Any] = {"recommended": decision.route.value, "updated_at": now}
            if round.response is not None:
                changes["model"] = limited(round.response.model, _NAME_LIMIT)
            review_id = None
            defers = decision.route is Route.DEFER and decision.mode is Mode.ENFORCE
            if review is None and defers:
                review = plain_item(Call.model_validate_json(row.call), round)
            if review is not None:
                if review.run_id != run_id or review.decision_id not in (None, decision.id):
                    raise BadInput(f"review item {review.id!r} is of another run or decision than {decision.id!r}")
                review = review.model_copy(update={"decision_id": decision.id})
                if review.kind is ReviewKind.DEFERRED and row.parent_id is None and row.kind == CallKind.TOOL.value:
                    twin = waiting_twin(connection, row.tenant, row.conversation_id, row.substance, run_id)
                    if twin is not None:
                        raise WaitsAlready(twin.id)
                review_id = self.queue.enqueue(review, connection)
                if review.kind is ReviewKind.DEFERRED:
                    changes |= {"state": RunState.WAITING.value, "route": Route.DEFER.value}
                    changes["result"] = pack_result(waiting_result(row.mode, round, review_id))
            connection.execute(runs.update().where(runs.c.id == run_id).values(changes))
            if row.parent_id is not None:
                tell_parent(connection, run_id, now)
            return review_id

    def finish(
        self,
        run_id: str,
        state: RunState,
        result: Result[Any] | None = None,
        cost: Cost | None = None,
        error: str | None = None,
    ) -> None:
        """Store how a run ended.

        A run that waits, or of which a human must find out what it did, ends in the queue: for `waiting` and `unknown`
        only the cost and (while nobody has decided yet) the result are stored. An open run that becomes `unknown`
        takes its started effect along, and a human is asked.

        Args:
            cost: everything the run cost; by default the result's.

        Raises:
            StaleItem: the run has ended already, or waits.
            BadInput: `unknown` for a run without a started effect.
            StoreError: nothing was stored.
        """
        with self.database.transaction() as connection:
            row = must_find(connection, run_id)
            now = self.clock.now()
            changes: dict[str, Any] = {"updated_at": now}
            if cost is None and result is not None:
                cost = result.cost
            if cost is not None:
                changes |= cost_columns(cost)
            if row.state == RunState.OPEN.value and state is RunState.UNKNOWN:
                self._ask_what_happened(connection, run_id)
            # An open run waits by its round alone: by now it may have been approved and be in another's hands.
            closing = row.state == RunState.OPEN.value and state is not RunState.WAITING
            if closing or (row.state == state.value and state in _ENDED_BY_A_HUMAN):
                changes["state"] = state.value
                changes["error"] = None if error is None else limited(error, ERROR_LIMIT)
                if result is not None:
                    changes |= {"route": result.route.value, "recommended": result.recommended.value}
                    changes["result"] = pack_result(result)
                if state in (RunState.DONE, RunState.FAILED):
                    changes["finished_at"] = now
            elif state not in _ENDED_BY_A_HUMAN:
                raise StaleItem(f"run {run_id!r} is {row.state} already and cannot become {state}")
            connection.execute(runs.update().where(runs.c.id == run_id).values(changes))
            if row.parent_id is not None:
                tell_parent(connection, run_id, now)

    def fail(self, run_id: str, error: BaseException, cost: Cost | None = None) -> RunState:
        """End a run that an exception broke off, by what its effects say; a run that has ended already is left alone.

        `done` where its effect is done (only the telling went wrong), `unknown` with a review where an effect was
        started and nobody knows, else `failed`.

        Args:
            cost: what the run had cost until then.

        Returns:
            the state that the run is in now.

        Raises:
            StoreError: nothing was stored.
        """
        text = said(error, ERROR_LIMIT)
        with self.database.transaction() as connection:
            row = must_find(connection, run_id)
            if row.state != RunState.OPEN.value:
                return RunState(row.state)
            if cost is not None:
                connection.execute(runs.update().where(runs.c.id == run_id).values(cost_columns(cost)))
                row = must_find(connection, run_id)
            now, why = self.clock.now(), "how it ended could not be stored"
            return end_by_effects(connection, self.queue, row, now, error=text, why_unknown=why)

    def resume(self, run_id: str, owner: str) -> Resumption:
        """Hand an approved tool call to one process: the run is open again and `owner`'s.

        Raises:
            StaleItem: the run does not wait, nobody has approved it, or another process resumed it first.
            StoreError: nothing was stored.
        """
        with self.database.transaction() as connection:
            row = must_find(connection, run_id)
            item = approved_item(connection, run_id)
            if row.state != RunState.WAITING.value or item is None:
                why = "was not approved by a reviewer" if row.state == RunState.WAITING.value else f"is {row.state}"
                raise StaleItem(f"run {run_id!r} {why}; there is nothing to resume")
            connection.execute(
                runs.update()
                .where(runs.c.id == run_id)
                .values(state=RunState.OPEN.value, owner=owner, updated_at=self.clock.now())
            )
            return resumption_of(load_run(connection, must_find(connection, run_id)), item)

    def let_through(self, run_id: str) -> Resumption | None:
        """What a human let through of a waiting run, without taking it; None while nobody has decided."""
        with self.database.reading() as connection:
            row = connection.execute(select(runs).where(runs.c.id == run_id)).one_or_none()
            item = approved_item(connection, run_id)
            if row is None or item is None or row.state != RunState.WAITING.value:
                return None
            return resumption_of(load_run(connection, row), item)

    def child_of(self, run_id: str) -> Run | None:
        """The run of the call that a reviewer's edit made of this run's call, or None.

        There are several where one failed before anything had happened; one that failed comes last.
        """
        with self.database.reading() as connection:
            row = connection.execute(
                select(runs)
                .where(runs.c.parent_id == run_id)
                .order_by(runs.c.state == RunState.FAILED.value, runs.c.created_at.desc(), runs.c.id)
                .limit(1)
            ).one_or_none()
            return None if row is None else load_run(connection, row)

    def resumable(self, limit: int = 100) -> tuple[str, ...]:
        """Ids of waiting runs whose tool call a human let through, oldest first."""
        with self.database.reading() as connection:
            oldest = let_through_runs(runs.c.id).order_by(runs.c.created_at, runs.c.id).limit(limit)
            return tuple(connection.execute(oldest).scalars())

    def get(self, run_id: str) -> Run | None:
        """The run as it was stored, with every round; None where there is none of this id."""
        with self.database.reading() as connection:
            row = connection.execute(select(runs).where(runs.c.id == run_id)).one_or_none()
            return None if row is None else load_run(connection, row)

    def by_idempotency_key(self, key: str, tenant: str = "default") -> Run | None:
        """The run that has this key now, or None."""
        with self.database.reading() as connection:
            row = by_key(connection, tenant, key)
            return None if row is None else load_run(connection, row)

    def list(
        self,
        state: RunState | None = None,
        tenant: str | None = None,
        task: str | None = None,
        conversation_id: str | None = None,
        limit: int = 100,
        before: str | None = None,
    ) -> Runs:
        """A page of runs, newest first.

        Args:
            before: the id of the last run of the page before.
        """
        if limit < 1:
            raise BadInput(f"limit={limit} must be at least 1")
        wanted = {"state": state and state.value, "tenant": tenant, "task": task, "conversation_id": conversation_id}
        query = select(runs).order_by(runs.c.created_at.desc(), runs.c.id.desc()).limit(limit)
        query = query.where(*(runs.c[name] == value for name, value in wanted.items() if value is not None))
        with self.database.reading() as connection:
            if before is not None:
                last = must_find(connection, before)
                earlier = and_(runs.c.created_at == last.created_at, runs.c.id < last.id)
                query = query.where(or_(runs.c.created_at < last.created_at, earlier))
            return [load_run(connection, row) for row in connection.execute(query).all()]

    def _ask_what_happened(self, connection: Connection, run_id: str) -> None:
        unsure = connection.execute(
            select(effects).where(
                effects.c.run_id == run_id,
                effects.c.state.in_((EffectState.STARTED.value, EffectState.UNKNOWN.value)),
            )
        ).all()
        if not unsure:
            raise BadInput(f"run {run_id!r} has no started effect of which nothing is known; it failed, or is done")
        for effect in unsure:
            mark_unknown(connection, self.queue, effect, "how it ended could not be stored", self.clock.now())

    async def astart(self, run: Run, mode: Mode, owner: str, *, model: str | None = None) -> Run:
        return await asyncio.to_thread(self.start, run, mode, owner, model=model)

    async def arecord_round(
        self,
        run_id: str,
        round: Round,
        *,
        review: ReviewItem | None = None,
    ) -> str | None:
        return await asyncio.to_thread(self.record_round, run_id, round, review=review)

    async def afinish(
        self,
        run_id: str,
        state: RunState,
        result: Result[Any] | None = None,
        cost: Cost | None = None,
        error: str | None = None,
    ) -> None:
        await asyncio.to_thread(self.finish, run_id, state, result, cost, error)

    async def afail(self, run_id: str, error: BaseException, cost: Cost | None = None) -> RunState:
        return await asyncio.to_thread(self.fail, run_id, error, cost)

    async def aresume(self, run_id: str, owner: str) -> Resumption:
        return await asyncio.to_thread(self.resume, run_id, owner)

    async def aresumable(self, limit: int = 100) -> tuple[str, ...]:
        return await asyncio.to_thread(self.resumable, limit)

    async def aget(self, run_id: str) -> Run | None:
        return await asyncio.to_thread(self.get, run_id)

    async def aby_idempotency_key(self, key: str, tenant: str = "default") -> Run | None:
        return await asyncio.to_thread(self.by_idempotency_key, key, tenant)

    async def alist(
        self,
        state: RunState | None = None,
        tenant: str | None = None,
        task: str | None = None,
        conversation_id: str | None = None,
        limit: int = 100,
        before: str | None = None,
    ) -> Runs:
        return await asyncio.to_thread(self.list, state, tenant, task, conversation_id, limit, before)
