"""The router: one call from end to end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.call import Call, CallKind, SideEffects
from ..core.clock import SystemClock
from ..core.database import Database
from ..core.decision import Mode, Route
from ..core.errors import ConfigurationError, DemurError, EffectBusy
from ..core.protocols import Clock, Generation, Model, Probe, Retriever
from ..core.run import Result, Run, RunState
from ..policies.mode import effective_mode
from ..probes.artefact import Artefact
from ..review.queue import ReviewQueue
from .answer_plan import AnswerCourse
from .assessor import Assessor
from .effects import EffectLog
from .log import RunLog
from .owner import this_process
from .probe_set import standard_probes
from .settings import Settings
from .site import Draws, Site, Tool
from .steps import Plan, adrive, blocking, drive
from .tool_plan import ToolCourse


class Router:
    """Assess, decide, record, act.

    Args:
        model: answers first. May be left out where only functions are guarded.
        settings: default: `demur.toml` where it stands in the working folder, else built-in defaults (shadow mode).
        artefacts: what `demur fit` wrote, as folders or loaded; each serves the task it was fitted for. Those named
            in the settings are loaded too.
        probes: further probes; those that come with Demur are always there.
        retriever: makes the retrieve route possible.
        larger: models to escalate to, by name.
        database: a `Database`, a URL or a path; default from the settings.
        seed: makes the recorded random draws repeatable.

    Raises:
        ConfigurationError: a setting cannot work.
        ArtefactMismatch: an artefact was fitted for another model, prompt or decoding.
        StoreError: the database cannot be opened.
    """

    def __init__(
        self,
        model: Model | None = None,
        *,
        settings: Settings | None = None,
        artefacts: Sequence[Artefact | str | Path] = (),
        probes: Sequence[Probe] = (),
        retriever: Retriever | None = None,
        larger: Mapping[str, Model] | None = None,
        database: Database | str | Path | None = None,
        clock: Clock | None = None,
        seed: int | None = None,
    ) -> None:
        self.settings = settings if settings is not None else Settings.load()
        self.model = model
        self.retriever = retriever
        self.larger = dict(larger or {})
        self.clock: Clock = clock or SystemClock()
        self.artefacts = _by_task([*self._configured_artefacts(), *artefacts])
        for artefact in self.artefacts.values():
            _check(artefact, model, self.larger)
        where = database if database is not None else self.settings.database
        self.database = where if isinstance(where, Database) else Database(where)
        review = self.settings.review
        self.queue = ReviewQueue(self.database, self.clock, lease_seconds=review.lease_seconds)
        self.log = RunLog(self.database, self.clock)
        self.effects = EffectLog(self.database, self.clock)
        self._probes = tuple(probes)
        self._draws = Draws(seed)
        self._assessors: dict[str, Assessor] = {}
        self._owner = this_process()

    def _configured_artefacts(self) -> list[Path]:
        return [Path(task.artefact) for task in self.settings.tasks.values() if task.artefact]

    def run(
        self,
        call: Call,
        *,
        tool: Tool | None = None,
        proposal: Generation | None = None,
        model: Model | None = None,
        exclude: Mapping[str, str] | None = None,
        mode: Mode | None = None,
    ) -> Result[Any]:
        """Carry one call through. A call whose idempotency key is known gives the stored result again.

        Args:
            tool: what to run; needed for tool calls.
            proposal: the generation that proposed the tool call, to judge it by.
            model: answers instead of the router's own.
            exclude: arm ("retrieve", "escalate:NAME", "defer") → why this caller cannot take it.
            mode: overrides the settings for this call, towards less than enforce only where the settings allow it.

        Raises:
            ModelError: the first model did not answer (its run is stored as failed).
            StoreError: the decision could not be stored; nothing was acted on.
            Exception: whatever the tool raised.
        """
        return drive(self._plan(call, tool, proposal, model, exclude, mode))

    async def arun(
        self,
        call: Call,
        *,
        tool: Tool | None = None,
        proposal: Generation | None = None,
        model: Model | None = None,
        exclude: Mapping[str, str] | None = None,
        mode: Mode | None = None,
    ) -> Result[Any]:
        """`run`, without blocking the event loop."""
        return await adrive(self._plan(call, tool, proposal, model, exclude, mode))

    def _plan(
        self,
        call: Call,
        tool: Tool | None,
        proposal: Generation | None,
        model: Model | None,
        exclude: Mapping[str, str] | None,
        mode: Mode | None,
    ) -> Plan[Result[Any]]:
        if call.kind is CallKind.TOOL and tool is None:
            raise ConfigurationError(f"the call of tool {call.tool_name!r} comes without the tool; pass tool=Tool(...)")
        site = self.site(call, model=model, mode=mode)
        run = Run(call=call, created_at=self.clock.now())
        model_name = site.model.name if site.model is not None else None
        started: Run = yield blocking(self.log.start, run, site.mode, self._owner, model=model_name)
        if started.id != run.id:
            return _result_of(started)
        draw = self._draws.next()
        if tool is not None:
            course: ToolCourse | AnswerCourse = ToolCourse(site, call, run.id, draw, tool, proposal)
        else:
            course = AnswerCourse(site, call, run.id, draw, excluded=dict(exclude or {}))
        try:
            result = yield from course.plan()
        except BaseException as error:
            yield blocking(self._close_broken, run.id, error)
            raise
        yield blocking(self.log.finish, run.id, result.state, result)
        return result

    def _close_broken(self, run_id: str, error: BaseException) -> None:
        """End a run that raised by what its effects say. The error itself goes on to the caller in any case."""
        try:
            self.log.fail(run_id, error)
        except DemurError as trouble:
            error.add_note(f"demur: how run {run_id} ended could not be stored: {trouble}")

    def site(self, call: Call, *, model: Model | None = None, mode: Mode | None = None) -> Site:
        """Everything that this call's run works with."""
        return Site(
            model=model if model is not None else self.model,
            assessor=self.assessor(call.task),
            policy=self.settings.policy_for(call.task),
            mode=self._mode(call, mode),
            log=self.log,
            effects=self.effects,
            clock=self.clock,
            owner=self._owner,
            queue=self.queue,
            review=self.settings.review,
            retriever=self.retriever,
            larger=self.larger,
        )

    def _mode(self, call: Call, wanted: Mode | None) -> Mode:
        configured = effective_mode(self.settings, call)
        if wanted is None or wanted is configured:
            return configured
        if self.settings.effects_of(call) is SideEffects.IRREVERSIBLE and wanted is not Mode.ENFORCE:
            raise ConfigurationError(
                f"mode={wanted.value!r} for {call.tool_name!r}: an irreversible tool is loosened only in the settings, "
                f"with irreversible = {wanted.value!r}"
            )
        return wanted

    def assessor(self, task: str) -> Assessor:
        """The task's probes and artefact."""
        if task not in self._assessors:
            artefact = self.artefacts.get(task)
            self._assessors[task] = Assessor((*standard_probes(artefact), *self._probes), artefact, clock=self.clock)
        return self._assessors[task]

    def close(self) -> None:
        """Give the database connections back."""
        self.database.close()


def _check(artefact: Artefact, model: Model | None, larger: Mapping[str, Model]) -> None:
    """Refuse an artefact that was fitted for anything else than what is here."""
    if model is not None:
        targets = {name: each.fingerprint() for name, each in larger.items() if f"escalate:{name}" in artefact.chances}
        artefact.check(model.fingerprint(), targets=targets)


def _result_of(run: Run) -> Result[Any]:
    """What is stored of a run under the same idempotency key.

    Raises:
        EffectBusy: it is still at work.
    """
    if run.result is not None:
        return run.result
    if run.state is RunState.OPEN:
        raise EffectBusy(f"run {run.id} with the same idempotency key is still at work; ask again later")
    recommended = run.rounds[-1].decision.route if run.rounds else Route.ABSTAIN
    return Result[Any](
        value=None,
        route=Route.DEFER if run.state is RunState.UNKNOWN else Route.ABSTAIN,
        recommended=recommended,
        mode=run.rounds[-1].decision.mode if run.rounds else Mode.ENFORCE,
        confidence=run.rounds[-1].confidence if run.rounds else None,
        run_id=run.id,
        state=run.state,
        reason=run.error or f"the run with this idempotency key is {run.state}",
        cost=run.cost,
    )


def _by_task(artefacts: Sequence[Artefact | str | Path]) -> dict[str, Artefact]:
    by_task: dict[str, Artefact] = {}
    for given in artefacts:
        artefact = given if isinstance(given, Artefact) else Artefact.load(Path(given))
        task = artefact.binding.task
        if task in by_task and by_task[task].id != artefact.id:
            raise ConfigurationError(f"two artefacts serve task {task!r}; keep one")
        by_task[task] = artefact
    return by_task
