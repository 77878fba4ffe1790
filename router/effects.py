"""Effects: what a tool does to the world, at most once for each key (rule 5).

`started` is committed before the tool is called, `done` after it. What a state means for a second call under the key:

| state      | what is known                                   | a second call                                  |
|------------|-------------------------------------------------|------------------------------------------------|
| `intended` | it did not start                                | runs it                                        |
| `started`  | its owner is at it, or died over it             | `EffectBusy`, or `EffectUnknown`               |
| `done`     | it happened                                     | gets the stored result, without running it     |
| `failed`   | the tool itself reported a failure              | `EffectFailed` (see below)                     |
| `unknown`  | it was interrupted; nobody knows                | `EffectUnknown`                                |

An exception that the tool raises is its own report that it failed, so the effect is `failed`, not `unknown`. But the
report may be wrong about the world (a timeout after the request was sent), so the key stays spent; who wants to try
again takes a new key. Only where it is *known* that nothing happened (`may_run_again`: withdrawn before the tool was
called, or found out by a human) does the key run again. KeyboardInterrupt, SystemExit and cancellation are no report
by the tool: the effect is `unknown` and a human is asked. A tool declared idempotent under its key is run again in
every state but `done` and a live `started`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from pydantic import JsonValue

from ..core.database import Database
from ..core.database.tables import effects
from ..core.errors import (
    BadInput,
    DemurError,
    EffectBusy,
    EffectUnknown,
    ResultNotStored,
    StoreError,
)
from ..core.protocols import Clock
from ..core.record import canonical_json
from ..core.run import Effect, EffectState, RunState
from ..core.stored_value import pack
from ..core.text import limited, said
from ..review.queue import ReviewQueue
from .effect_rows import check_may_run, effect_of, find_effect, run_row_of, update_effect
from .settled import settled
from .steps import is_control_flow
from .unknown import mark_unknown

T = TypeVar("T")
_ERROR_LIMIT = 10_000


class EffectLog:
    """The store of effects. Keys are scoped to the tenant of the run they are used in."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.database = database
        self.clock = clock
        self.queue = ReviewQueue(database, clock)

    def run_once(
        self,
        key: str,
        run_id: str,
        tool_name: str,
        arguments: Mapping[str, JsonValue],
        fn: Callable[[], T],
        *,
        idempotent: bool = False,
        tenant: str | None = None,
    ) -> T:
        """Call `fn` unless the key was used before; then give back what it gave the first time.

        Args:
            run_id: an open run of this process.
            tool_name, arguments: what `fn` does, for the record; the same key always means the same.
            fn: the tool, its arguments already in.
            idempotent: running it again under its key is harmless.
            tenant: must be the run's own, where it is given.

        Raises:
            EffectBusy: another thread or live process is at it.
            EffectUnknown: nobody knows whether it happened; also where it ran and its end could not be stored.
            EffectFailed: the tool reported a failure under this key before.
            ResultNotStored: it is done, but its result could not be kept.
            StoreError: the database failed before the tool was called; nothing happened.
            BadInput: the key was used for another tool or other arguments, or there is no such run.
        """
        done, value = self._prepare(key, run_id, tool_name, arguments, idempotent, tenant)
        if done:
            return value
        self.start(key, run_id)
        try:
            value = fn()
        except Exception as error:
            self._report(key, run_id, error)
            raise
        except BaseException as error:
            self._interrupted(key, run_id, error, idempotent)
            raise
        self._done(key, run_id, value)
        return value

    async def arun_once(
        self,
        key: str,
        run_id: str,
        tool_name: str,
        arguments: Mapping[str, JsonValue],
        fn: Callable[[], Awaitable[T] | T],
        *,
        idempotent: bool = False,
        tenant: str | None = None,
    ) -> T:
        """The async twin of `run_once`. `fn` is called in the event loop; hand in what does not block it.

        Cancelled before the tool is called, the effect is withdrawn; while it runs, it is `unknown`.
        """
        done, value = await settled(self._prepare, key, run_id, tool_name, arguments, idempotent, tenant)
        if done:
            return value
        started: list[bool] = []
        try:
            await settled(lambda: started.append(self.start(key, run_id) is None))
        except asyncio.CancelledError:
            if started:  # by this very call: what another one started is not ours to withdraw
                await settled(self.withdraw, key, run_id)
            raise
        try:
            called: Any = fn()
            value = await called if inspect.isawaitable(called) else called
        except Exception as error:
            await settled(self._report, key, run_id, error)
            raise
        except BaseException as error:
            await settled(self._interrupted, key, run_id, error, idempotent)
            raise
        await settled(self._done, key, run_id, value)
        return value

    def intend(
        self,
        key: str,
        run_id: str,
        tool_name: str,
        arguments: Mapping[str, JsonValue],
        *,
        idempotent: bool = False,
        tenant: str | None = None,
    ) -> Effect:
        """Make the effect `intended` for this run, or find it `done`. Raises as `run_once` does."""
        if not 1 <= len(key) <= 200:
            raise BadInput(f"an idempotency key has 1 to 200 characters, not {len(key)}")
        arguments_text = canonical_json(dict(arguments))
        with self.database.transaction() as connection:
            run = run_row_of(connection, run_id)
            if tenant is not None and tenant != run.tenant:
                raise BadInput(f"run {run_id!r} is of tenant {run.tenant!r}, not {tenant!r}")
            if run.state != RunState.OPEN.value:
                raise BadInput(f"run {run_id!r} is {run.state}; only an open run has effects")
            mine = {"run_id": run_id, "state": EffectState.INTENDED.value, "result": None, "error": None}
            mine |= {"may_run_again": False, "updated_at": self.clock.now()}
            row = find_effect(connection, run.tenant, key)
            if row is None:
                named = {"tool_name": tool_name, "arguments": arguments_text}
                connection.execute(effects.insert().values(tenant=run.tenant, idempotency_key=key, **named, **mine))
            else:
                if (row.tool_name, row.arguments) != (tool_name, arguments_text):
                    raise BadInput(
                        f"idempotency key {key!r} was used for {row.tool_name!r} with other arguments; use a new key"
                    )
                if row.state == EffectState.DONE.value:
                    return effect_of(row)
                check_may_run(connection, row, run_id, idempotent)
                connection.execute(update_effect(run.tenant, key).values(mine))
            found = find_effect(connection, run.tenant, key)
            assert found is not None
            return effect_of(found)

    def start(self, key: str, run_id: str) -> None:
        """`intended` → `started`, committed before the tool is called. Exactly one caller gets through.

        Raises:
            EffectBusy: another thread started it first.
        """
        self._move(key, run_id, EffectState.INTENDED, EffectBusy, state=EffectState.STARTED.value)

    def finish(self, key: str, run_id: str, state: EffectState, result: Any = None, error: str | None = None) -> None:
        """`started` → `done` (with the tool's result) or `failed` (with its error).

        Raises:
            EffectUnknown: it is not `started`: somebody took this process for dead and asked a human.
        """
        if state not in (EffectState.DONE, EffectState.FAILED):
            raise BadInput(f"an effect ends done or failed, not {state}")
        self._move(
            key,
            run_id,
            EffectState.STARTED,
            EffectUnknown,
            state=state.value,
            result=pack(result) if state is EffectState.DONE else None,
            error=None if error is None else limited(error, _ERROR_LIMIT),
        )

    def withdraw(self, key: str, run_id: str, why: str = "withdrawn before the tool was called") -> None:
        """`started` → `failed`, for a tool that was then not called: the key may run again. Else nothing."""
        with self.database.transaction() as connection:
            run = run_row_of(connection, run_id)
            connection.execute(
                update_effect(run.tenant, key)
                .where(effects.c.run_id == run_id, effects.c.state == EffectState.STARTED.value)
                .values(
                    state=EffectState.FAILED.value,
                    error=why,
                    may_run_again=True,
                    updated_at=self.clock.now(),
                )
            )

    def get(self, key: str, tenant: str = "default") -> Effect | None:
        """The effect under a key, or None."""
        with self.database.reading() as connection:
            row = find_effect(connection, tenant, key)
            return None if row is None else effect_of(row)

    async def aget(self, key: str, tenant: str = "default") -> Effect | None:
        return await asyncio.to_thread(self.get, key, tenant)

    def _prepare(
        self,
        key: str,
        run_id: str,
        tool_name: str,
        arguments: Mapping[str, JsonValue],
        idempotent: bool,
        tenant: str | None,
    ) -> tuple[bool, Any]:
        effect = self.intend(key, run_id, tool_name, arguments, idempotent=idempotent, tenant=tenant)
        if effect.state is not EffectState.DONE:
            return False, None
        if effect.result_type is not None:
            text = str(effect.result)
            raise ResultNotStored(
                f"the effect under key {key!r} is done, but its result ({effect.result_type}) is not JSON and was "
                f"kept as text only: {text[:200]}; have the tool return JSON values",
                type_name=effect.result_type,
                text=text,
            )
        return True, effect.result

    def _done(self, key: str, run_id: str, value: Any) -> None:
        try:
            self.finish(key, run_id, EffectState.DONE, value)
        except StoreError as error:
            raise EffectUnknown(
                f"the tool ran under key {key!r}, but that could not be stored ({error}); it is not run again until "
                "a human has looked"
            ) from error

    def _report(self, key: str, run_id: str, error: Exception) -> None:
        """The tool's own exception goes on to the caller, whether or not it can be stored.

        A graph's interrupt inside the tool is no failure: the tool is called again from its start when it resumes.
        """
        try:
            if is_control_flow(error):
                self.withdraw(key, run_id, "paused by the graph it runs in; it starts again when that resumes")
                return
            self.finish(key, run_id, EffectState.FAILED, error=said(error, _ERROR_LIMIT))
        except DemurError as trouble:
            error.add_note(f"demur: that the tool failed could not be stored: {trouble}")

    def _interrupted(self, key: str, run_id: str, error: BaseException, idempotent: bool) -> None:
        try:
            if idempotent:
                self.withdraw(key, run_id, f"interrupted by {type(error).__name__}; harmless to run again")
                return
            with self.database.transaction() as connection:
                row = find_effect(connection, run_row_of(connection, run_id).tenant, key)
                if row is not None and row.state == EffectState.STARTED.value and row.run_id == run_id:
                    why = f"was interrupted by {type(error).__name__} while it ran"
                    mark_unknown(connection, self.queue, row, why, self.clock.now())
        except DemurError as trouble:
            error.add_note(f"demur: that the tool was interrupted could not be stored: {trouble}")

    def _move(self, key: str, run_id: str, before: EffectState, otherwise: type[DemurError], **values: Any) -> None:
        with self.database.transaction() as connection:
            run = run_row_of(connection, run_id)
            moved = connection.execute(
                update_effect(run.tenant, key)
                .where(effects.c.run_id == run_id, effects.c.state == before.value)
                .values(updated_at=self.clock.now(), **values)
            )
            if moved.rowcount != 1:
                row = find_effect(connection, run.tenant, key)
                state = "not there" if row is None else f"{row.state} (run {row.run_id!r})"
                raise otherwise(f"the effect under key {key!r} is {state}, not {before}")
