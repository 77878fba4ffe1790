"""The course of one model call: assess, decide, record, act, and again after retrieving or escalating."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from ..core.call import Call
from ..core.confidence import Confidence
from ..core.decision import Decision, Mode, Route, Stage
from ..core.errors import ConfigurationError, DemurError, ModelError, StoreError
from ..core.evidence import Captured, CaptureRequest, Document, Evidence, Need
from ..core.protocols import Gate, Generation, Model
from ..core.response import Cost, Response
from ..core.review_item import ReviewKind
from ..core.run import Result, Round, RunState
from ..core.text import said
from .assessor import Assessment, confidence_from_chance
from .decide import Options, build_decision
from .site import Site
from .steps import Plan, Step, blocking, is_control_flow

logger = logging.getLogger("demur")

ANSWER_ARM = "answer"
RETRIEVE_ARM = "retrieve"


def escalate_arm(name: str) -> str:
    """The name under which answers of a larger model are calibrated."""
    return f"{Route.ESCALATE.value}:{name}"


@dataclass
class _Draft:
    """The newest response that could be delivered, with what is known of it."""

    response: Response
    arm: str
    assessment: Assessment
    fingerprint: str | None = None


@dataclass
class AnswerCourse:
    """The state of one run, and its steps. In shadow and advise mode the first draft is always delivered."""

    site: Site
    call: Call
    run_id: str
    draw: float
    number: int = 0
    generations: int = 0
    spent: Cost = field(default_factory=Cost)
    base: Confidence | None = None
    draft: _Draft | None = None
    tried: dict[str, str] = field(default_factory=dict)
    excluded: Mapping[str, str] = field(default_factory=dict)
    gate_choice: Decision | None = None
    review_id: str | None = None

    def plan(self) -> Plan[Result[Any]]:
        """From the first word to the stored result."""
        site = self.site
        if site.model is None:
            raise ConfigurationError("this router has no model; hand one in: Router(model=...)")
        decision = yield from self._first_draft(site.model)
        while True:
            if decision.mode is not Mode.ENFORCE:
                return self._delivered(decision, Route.ANSWER)
            if decision.route is Route.ANSWER:
                assert self.draft is not None
                return self._delivered(decision, _route_of(self.draft.arm))
            if decision.route is Route.RETRIEVE:
                decision = yield from self._retrieve(site.model)
            elif decision.route is Route.ESCALATE:
                decision = yield from self._escalate(decision.target or "")
            elif decision.route is Route.GENERATE:
                decision = yield from self._generate(site.model, ANSWER_ARM, ())
            else:
                return self._withheld(decision)

    def _first_draft(self, model: Model) -> Plan[Decision]:
        """Draft an answer, unless what is known beforehand says that it is hopeless."""
        site = self.site
        if site.mode is Mode.ENFORCE and site.past_deadline(self.call):
            return (yield blocking(self._too_late))
        drafted = getattr(model, "has_drafted", False)  # the first draft is there already: nothing is saved any more
        gated = not drafted and site.mode is Mode.ENFORCE and site.assessor.can_judge(ANSWER_ARM, Stage.BEFORE)
        if gated and Need.HIDDEN_STATES not in model.provides:
            decision = yield blocking(self._judge_before, None)
            if decision.route is not Route.GENERATE:
                return decision
            gated = False
        return (yield from self._generate(model, ANSWER_ARM, (), gate=self._gate if gated else None))

    def _gate(self, captured: Captured) -> bool:
        """Asked by the model once the prompt is read. Stores its decision before a token is kept."""
        if self.gate_choice is None:  # a model that asks twice gets the same decision
            self.gate_choice = self._judge_before(captured)
        return self.gate_choice.route is Route.GENERATE

    def _judge_before(self, captured: Captured | None) -> Decision:
        evidence = Evidence(call=self.call, captured=captured, arm=ANSWER_ARM, model=self.site.model)
        assessment = self.site.assessor.assess(evidence, Stage.BEFORE, deadline=self.call.deadline)
        if self.base is None:
            self.base = assessment.confidence
        return self._record(Stage.BEFORE, ANSWER_ARM, None, assessment)

    def _too_late(self) -> Decision:
        """Nobody is served by a draft after the deadline."""
        return self._record(Stage.BEFORE, ANSWER_ARM, None, Assessment((), None, "the deadline has passed"))

    def _generate(
        self, model: Model, arm: str, documents: tuple[Document, ...], *, gate: Gate | None = None
    ) -> Plan[Decision]:
        generation = yield from self._ask(model, arm, documents, gate=gate)
        if gate is not None and self.gate_choice is not None and self._gate_is_shut():
            return self.gate_choice  # it is stored already: what a model writes past the gate is not looked at
        return (yield from self._judge(generation, model, arm, documents))

    def _ask(
        self, model: Model, arm: str, documents: tuple[Document, ...], *, gate: Gate | None = None
    ) -> Plan[Generation]:
        """A draft, its cost counted; that of one that failed is the time it took."""
        started = self.site.clock.monotonic()
        try:
            generation: Generation = yield _generation(
                model, self.call, documents, self.site.assessor.capture_request(arm), gate
            )
        except BaseException:
            self._spend_seconds(started)
            raise
        if not _is_generation(generation):
            self._spend_seconds(started)
            raise ModelError(
                f"model {model.name!r} gave back {type(generation).__name__}, not a Generation with its Response; wrap "
                "plain functions with FunctionModel or router.guard"
            )
        self.generations += 1
        self.spent = self.spent + generation.response.cost
        if generation.response.stopped_before_generating and not (gate is not None and self._gate_is_shut()):
            raise ModelError(f"model {model.name!r} stopped before generating, and no gate had told it to")
        return generation

    def _gate_is_shut(self) -> bool:
        return self.gate_choice is not None and self.gate_choice.route is not Route.GENERATE

    def _spend_seconds(self, started: float) -> None:
        self.spent = self.spent + Cost(seconds=self.site.clock.monotonic() - started)

    def _judge(self, generation: Generation, model: Model, arm: str, documents: tuple[Document, ...]) -> Plan[Decision]:
        evidence = Evidence(
            call=self.call,
            response=generation.response,
            captured=generation.captured,
            arm=arm,
            documents=documents,
            model=model,
        )
        return (yield blocking(self._judge_after, evidence))

    def _judge_after(self, evidence: Evidence) -> Decision:
        assessment = self.site.assessor.assess(evidence, Stage.AFTER, deadline=self.call.deadline)
        whole = evidence.response is not None and not evidence.response.stopped_early
        if assessment.confidence is None and evidence.arm != ANSWER_ARM and whole:
            assessment = self._judge_by_chance(evidence.arm, assessment)
        if evidence.arm == ANSWER_ARM:
            self.base = assessment.confidence
        assert evidence.response is not None
        self.draft = _Draft(evidence.response, evidence.arm, assessment, self.site.fingerprint_of(evidence.model))
        return self._record(Stage.AFTER, evidence.arm, evidence.response, assessment)

    def _judge_by_chance(self, arm: str, assessment: Assessment) -> Assessment:
        """A later answer without a head of its own is as good as such answers turned out at fit time."""
        artefact = self.site.assessor.artefact
        chance = artefact.chances.get(arm) if artefact is not None else None
        if chance is None or self.base is None or artefact is None:
            return assessment
        confidence = confidence_from_chance(chance, self.base.value, self.base.fitted_at)
        return replace(assessment, confidence=confidence)

    def _retrieve(self, model: Model) -> Plan[Decision]:
        self.tried[RETRIEVE_ARM] = "already tried"
        documents, failure = yield from self._find()
        if not failure:
            try:
                generation = yield from self._ask(model, RETRIEVE_ARM, documents)
            except StoreError:
                raise
            except DemurError as error:
                failure = _said(error)
            else:
                return (yield from self._judge(generation, model, RETRIEVE_ARM, documents))
        return (yield blocking(self._decide_again, RETRIEVE_ARM, failure))

    def _find(self) -> Plan[tuple[tuple[Document, ...], str]]:
        """Passages, or why there are none: a retriever may raise whatever it likes."""
        site = self.site
        assert site.retriever is not None
        retriever, query, limit = site.retriever, self.call.question, site.documents_limit
        started, found, failure = site.clock.monotonic(), (), ""

        async def afind() -> tuple[Any, ...]:
            return tuple(islice(await retriever.aretrieve(query, limit=limit), limit))

        try:
            # Never more than were asked for: the success chance was fitted with that many.
            found = yield Step(run=lambda: tuple(islice(retriever.retrieve(query, limit=limit), limit)), arun=afind)
        except Exception as error:
            if is_control_flow(error):
                raise
            failure = _said(error)
        self._spend_seconds(started)
        if failure:
            return (), failure
        documents = tuple(each for each in found if isinstance(each, Document))
        if len(documents) < len(found):
            return (), "failed: the retriever gave back something that is not a Document"
        return documents, "" if documents else "nothing was found"

    def _escalate(self, name: str) -> Plan[Decision]:
        arm, model = escalate_arm(name), self.site.larger[name]
        self.tried[arm] = "already tried"
        try:
            generation = yield from self._ask(model, arm, ())
        except Exception as error:
            if is_control_flow(error) or isinstance(error, StoreError):
                raise
            failure = _said(error)
        else:
            return (yield from self._judge(generation, model, arm, ()))
        return (yield blocking(self._decide_again, arm, failure))

    def _decide_again(self, arm: str, failure: str) -> Decision:
        """A later route came to nothing: choose among what is left, on what was known before."""
        logger.warning("%s of run %s: %s", arm, self.run_id, failure)
        self.tried[arm] = failure
        if self.draft is None:
            nothing = Assessment((), self.base, "no answer was drafted")
            return self._record(Stage.BEFORE, ANSWER_ARM, None, nothing)
        return self._record(Stage.AFTER, self.draft.arm, None, self.draft.assessment)

    def _record(self, stage: Stage, arm: str, response: Response | None, assessment: Assessment) -> Decision:
        """Choose, and store the round with its decision before anything acts on it."""
        site = self.site
        options = Options(
            tried=self.tried,
            base=self.base,
            generations=self.generations,
            draw=self.draw,
            excluded=self.excluded,
        )
        decision = build_decision(site, self.call, self.run_id, self.number, stage, assessment, options)
        recorded = Round(
            number=self.number,
            arm=arm,
            response=response,
            turn=assessment.turn if response is not None else None,
            fingerprint=self.draft.fingerprint if response is not None and self.draft is not None else None,
            signals=assessment.signals,
            confidence=assessment.confidence,
            decision=decision,
            not_run=dict(assessment.not_run),
        )
        review = site.review_for(self.call, decision, self.draft.response if self.draft is not None else None)
        site.log.record_round(self.run_id, recorded, review=review)
        self.number += 1
        self.review_id = review.id if review is not None and review.kind is ReviewKind.DEFERRED else None
        return decision

    def _delivered(self, decision: Decision, route: Route) -> Result[Any]:
        assert self.draft is not None
        return self._result(decision, route, RunState.DONE, self.draft.response.text)

    def _withheld(self, decision: Decision) -> Result[Any]:
        state = RunState.WAITING if decision.route is Route.DEFER else RunState.DONE
        return self._result(decision, decision.route, state, None)

    def _result(self, decision: Decision, route: Route, state: RunState, value: Any) -> Result[Any]:
        return Result[Any](
            value=value,
            route=route,
            recommended=decision.route if decision.route is not Route.ANSWER else route,
            mode=self.site.mode,
            confidence=decision.confidence,
            run_id=self.run_id,
            response_id=self.draft.response.id if self.draft is not None else None,
            turn=self.draft.assessment.turn if self.draft is not None else None,
            review_id=self.review_id,
            state=state,
            reason=decision.reason,
            cost=self.spent,
        )


def _said(error: Exception) -> str:
    """A failure in a few words."""
    return f"failed: {said(error, 200)}"


def _is_generation(given: object) -> bool:
    """Has it the parts that everything after it reads? Models are other people's code."""
    return (
        isinstance(given, Generation)
        and isinstance(given.response, Response)
        and (given.captured is None or isinstance(given.captured, Captured))
    )


def _route_of(arm: str) -> Route:
    """The route by which an arm's answer came about."""
    return Route(arm.split(":", 1)[0])


def _generation(
    model: Model, call: Call, documents: tuple[Document, ...], capture: CaptureRequest, gate: Gate | None
) -> Step[Generation]:
    options: Mapping[str, Any] = {"documents": documents, "capture": capture, "gate": gate}
    return Step(run=lambda: model.generate(call, **options), arun=lambda: model.agenerate(call, **options))
