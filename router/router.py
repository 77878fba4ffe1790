"""The router: one call from end to end."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.call import Call, SideEffects
from ..core.clock import SystemClock
from ..core.database import Database
from ..core.decision import Mode
from ..core.errors import BadInput, ConfigurationError, DemurError, StoreError
from ..core.protocols import Clock, Fingerprint, Generation, Model, Probe, Retriever
from ..core.response import Cost
from ..core.run import Result, Run
from ..memory.episode_index import EpisodeIndex
from ..memory.recall_probe import RecallProbe
from ..policies.mode import effective_mode
from ..policies.tool_policy import ToolPolicy
from ..probes.artefact import Artefact
from ..review.queue import ReviewQueue
from .answer_plan import AnswerCourse, escalate_arm
from .assessor import Assessor
from .effects import EffectLog
from .given import check_call, check_parts
from .grading import GradingRouter
from .learning.learning import Learning
from .log import RunLog
from .owner import this_process
from .probe_set import standard_probes
from .recovery import recover
from .reissue import WaitsAlready
from .resumer import Resumer
from .resuming_router import ResumingRouter
from .settings import Settings
from .site import Draws, Site, Tool
from .steps import Disguised, Plan, adrive, blocking, drive
from .tool_declarations import ToolDeclarations
from .tool_plan import ToolCourse

logger = logging.getLogger("demur")


class Router(GradingRouter, ResumingRouter):
    """Assess, decide, record, act.

    Args:
        model: answers first. May be left out where only functions are guarded.
        settings: default: `demur.toml` where it stands in the working folder, else built-in defaults (shadow mode).
        artefacts: what `demur fit` wrote, as folders or loaded; each serves the task it was fitted for. Those named
            in the settings are loaded too.
        probes: further probes; those that come with Demur are always there.
        retriever: makes the retrieve route possible.
        documents_limit: passages given to the model; as many as the retrieve arm was fitted with.
        larger: models to escalate to, by name.
        memory: the episode index: earlier graded calls speak about new ones (`RecallProbe`).
        database: a `Database`, a URL or a path; default from the settings.
        seed: makes the recorded random draws repeatable.

    Attributes:
        recovered: what became of runs that a dead process had left open when this router was made.

    Raises:
        ConfigurationError: a setting cannot work.
        ArtefactMismatch: an artefact was fitted for another model, prompt, decoding or larger model, or reads signals
            that no probe here gives.
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
        documents_limit: int = 3,
        larger: Mapping[str, Model] | None = None,
        memory: EpisodeIndex | RecallProbe | None = None,
        database: Database | str | Path | None = None,
        clock: Clock | None = None,
        seed: int | None = None,
    ) -> None:
        self.settings = settings if settings is not None else Settings.load()
        self.model = model
        check_parts(self.settings, model, probes, retriever, larger, documents_limit)
        self.retriever = retriever
        self.documents_limit = documents_limit
        self.larger = dict(larger or {})
        self.clock: Clock = clock or SystemClock()
        self.artefacts = _by_task([*self._configured_artefacts(), *artefacts])
        recall = RecallProbe(memory) if isinstance(memory, EpisodeIndex) else memory
        self._probes = (*probes, *(() if recall is None else (recall,)))
        for artefact in self.artefacts.values():
            self._check(artefact, None if model is None else model.fingerprint())
        where = database if database is not None else self.settings.database
        self.database = where if isinstance(where, Database) else Database(where)
        review = self.settings.review
        self.queue = ReviewQueue(self.database, self.clock, lease_seconds=review.lease_seconds)
        self.log = RunLog(self.database, self.clock)
        self.effects = EffectLog(self.database, self.clock)
        learning = self.settings.learning
        self.learning = Learning(
            self.database,
            self.clock,
            online=learning.online,
            min_outcomes=learning.min_outcomes,
            refit_growth=learning.refit_growth,
            min_labels=self.settings.policy.min_labels,
            artefact_of=self._artefact_id,
        )
        self._draws = Draws(seed)
        self.resumer = Resumer(self)
        self._declared = ToolDeclarations()
        self._assessors: dict[str, Assessor] = {}
        idempotent = [name for name, tool in self.settings.tools.items() if tool.idempotent]
        self.recovered = recover(self.database, self.clock, idempotent_tools=idempotent)

    def _configured_artefacts(self) -> list[Path]:
        return [Path(task.artefact) for task in self.settings.tasks.values() if task.artefact]

    def run(
        self,
        call: Call,
        *,
        tool: Tool | None = None,
        proposal: Generation | None = None,
        model: Model | None = None,
        larger: Mapping[str, Model] | None = None,
        exclude: Mapping[str, str] | None = None,
        mode: Mode | None = None,
    ) -> Result[Any]:
        """Carry one call through. A call whose idempotency key is known gives the stored result again.

        Args:
            tool: what to run; needed for tool calls.
            proposal: the generation that proposed the tool call, to judge it by.
            model: answers instead of the router's own.
            larger: models to escalate to, by name, instead of the router's own.
            exclude: "retrieve", "escalate", "escalate:NAME" or "defer" → why this caller cannot take it.
            mode: overrides the settings for this call. An irreversible tool is loosened only in the settings.

        Raises:
            ConfigurationError: the call and what comes with it do not go together; nothing was stored.
            ArtefactMismatch: the task's artefact was fitted for another model than `model`.
            ModelError: the first model did not answer (its run is stored as failed).
            StoreError: the decision could not be stored; nothing was acted on.
            EffectBusy: a run with the same idempotency key is at work.
            Exception: whatever the tool raised.
        """
        return drive(self._plan(call, tool, proposal, model, larger, exclude, mode))

    async def arun(
        self,
        call: Call,
        *,
        tool: Tool | None = None,
        proposal: Generation | None = None,
        model: Model | None = None,
        larger: Mapping[str, Model] | None = None,
        exclude: Mapping[str, str] | None = None,
        mode: Mode | None = None,
    ) -> Result[Any]:
        """`run`, without blocking the event loop."""
        return await adrive(self._plan(call, tool, proposal, model, larger, exclude, mode))

    def _plan(
        self,
        call: Call,
        tool: Tool | None,
        proposal: Generation | None,
        model: Model | None,
        larger: Mapping[str, Model] | None,
        exclude: Mapping[str, str] | None,
        mode: Mode | None,
    ) -> Plan[Result[Any]]:
        check_call(call, tool, proposal, exclude, model, larger)
        # In a worker thread where it is async: the first fingerprint of a model reads its weight files.
        site: Site = yield blocking(self.site, call, model=model, larger=larger, mode=mode)
        run = Run(call=call, created_at=self.clock.now())
        model_name = site.model.name if site.model is not None else None
        try:
            started: Run = yield blocking(self.log.start, run, site.mode, site.owner, model=model_name)
        except Exception:
            raise  # nothing was stored
        except BaseException as error:
            yield from self.break_off(run.id, error)  # cut off while it was being stored: it may be there
            raise
        if started.id != run.id:
            return (yield from self.resumer.again(started, tool))
        draw, excluded = self._draws.next(), dict(exclude or {})
        if tool is not None:
            course: ToolCourse | AnswerCourse = ToolCourse(site, call, run.id, draw, tool, proposal, excluded)
        else:
            course = AnswerCourse(site, call, run.id, draw, excluded=excluded)
        try:
            return (yield from self.carry_through(run.id, course))
        except WaitsAlready as error:
            first: Run | None = yield blocking(self.log.get, error.waiting_run_id)
            assert first is not None
            return (yield from self.resumer.again(first, tool))

    def carry_through(self, run_id: str, course: ToolCourse | AnswerCourse) -> Plan[Result[Any]]:
        """Follow a course to its end and store it; a run that breaks off ends by what its effects say."""
        try:
            result = yield from course.plan()
        except BaseException as error:
            yield from self.break_off(run_id, error, course.spent)
            raise
        try:
            yield blocking(self.log.finish, run_id, result.state, result)
        except StoreError as error:
            # The decision is stored, and so is an effect's end: to say "nothing happened" now would be wrong.
            logger.error("run %s ended, but its end could not be stored: %s", run_id, error)
        return result

    def draw(self) -> float:
        """The next recorded random number."""
        return self._draws.next()

    def break_off(self, run_id: str, error: BaseException, cost: Cost | None = None) -> Plan[None]:
        """End a run that raised."""
        if isinstance(error, GeneratorExit):
            self._close_broken(run_id, error, cost)  # nothing can be awaited any more
        else:
            yield blocking(self._close_broken, run_id, error, cost)

    def _close_broken(self, run_id: str, error: BaseException, cost: Cost | None = None) -> None:
        """End a run that raised by what its effects say. The error itself goes on to the caller in any case."""
        cause = error.original if isinstance(error, Disguised) else error
        try:
            self.log.fail(run_id, cause, cost)
        except BadInput:
            logger.debug("run %s was never stored", run_id)
        except DemurError as trouble:
            cause.add_note(f"demur: how run {run_id} ended could not be stored: {trouble}")

    def site(
        self,
        call: Call,
        *,
        model: Model | None = None,
        larger: Mapping[str, Model] | None = None,
        mode: Mode | None = None,
    ) -> Site:
        """Everything that this call's run works with."""
        if model is not None and model is not self.model:
            self._check_other(call.task, model)
        if larger is not None and call.task in self.artefacts:
            targets = {name: each.fingerprint() for name, each in larger.items()}
            self.artefacts[call.task].check(targets=targets)
        return Site(
            model=model if model is not None else self.model,
            assessor=self.assessor(call.task),
            policy=self._declared.over(self.settings.policy_for(call.task)),
            mode=self._mode(call, mode),
            log=self.log,
            effects=self.effects,
            clock=self.clock,
            owner=this_process(),  # now: a router made before a fork works in both processes
            queue=self.queue,
            review=self.settings.review,
            retriever=self.retriever,
            documents_limit=self.documents_limit,
            larger=self.larger if larger is None else dict(larger),
        )

    def _mode(self, call: Call, wanted: Mode | None) -> Mode:
        configured = effective_mode(self.settings, call)
        if wanted is None or wanted == configured:
            return configured
        try:
            wanted = Mode(wanted)
        except ValueError as error:
            raise ConfigurationError(f"mode={wanted!r}: use one of {', '.join(Mode)}") from error
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
            known = self.settings.tasks.get(task)
            self._assessors[task] = Assessor(
                (*standard_probes(artefact), *self._probes),
                artefact,
                clock=self.clock,
                learning=self.learning,
                refusal=None if known is None else known.refusal,
            )
        return self._assessors[task]

    def _artefact_id(self, task: str) -> str | None:
        artefact = self.artefacts.get(task)
        return None if artefact is None else artefact.id

    def _check(self, artefact: Artefact, fingerprint: Fingerprint | None) -> None:
        """Refuse an artefact that was fitted for anything else than what is here."""
        arms = {*artefact.chances, *(key.rpartition("/")[0] for key in artefact.heads)}
        targets = {name: model.fingerprint() for name, model in self.larger.items() if escalate_arm(name) in arms}
        given = {name for probe in (*standard_probes(artefact), *self._probes) for name in probe.signal_names}
        artefact.check(fingerprint, targets=targets, signals=given)

    def _check_other(self, task: str, model: Model) -> None:
        """The same for a model that answers instead of the router's own.

        A plain function is known by its name only, whatever it asks; there is nothing to compare.
        """
        artefact = self.artefacts.get(task)
        if artefact is None:  # then no weights need be hashed either
            return
        fingerprint = model.fingerprint()
        if fingerprint.pinned or not fingerprint.identity.startswith("function:"):
            artefact.check(fingerprint)

    def declare_tool(self, name: str, policy: ToolPolicy) -> None:
        """Say what a tool does to the world, beside `[tools.NAME]` in the settings: the graver of the two counts.

        Raises:
            ConfigurationError: no name, or no policy.
        """
        self._declared.declare(name, policy)

    def close(self) -> None:
        """Stop waiting, and give the database connections back."""
        self.resumer.close()
        self.database.close()


def _by_task(artefacts: Sequence[Artefact | str | Path]) -> dict[str, Artefact]:
    by_task: dict[str, Artefact] = {}
    for given in artefacts:
        if not isinstance(given, Artefact | str | Path):
            raise ConfigurationError(f"artefacts holds {given!r}; give folders or loaded artefacts")
        artefact = given if isinstance(given, Artefact) else Artefact.load(Path(given))
        task = artefact.binding.task
        if task in by_task and by_task[task].id != artefact.id:
            raise ConfigurationError(f"two artefacts serve task {task!r}; keep one")
        by_task[task] = artefact
    return by_task
