"""Put questions through a router and note, for each, what was said, decided and right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.call import Call
from ...core.decision import Route, Stage
from ...core.protocols import Model
from ...core.run import Run
from ...evaluation.graders.registry import get_grader
from ...router.settings import Settings
from ..router import Router
from .accounting import Played
from .files import DemoQuestion, folder
from .model import PASSAGES, TASK

if TYPE_CHECKING:
    from ...core.protocols import Embedder
    from ...probes.artefact import Artefact


def build_router(
    model: Model,
    artefact: Artefact,
    settings: Settings,
    database: str | Path,
    *,
    larger: dict[str, Model] | None = None,
    embedder: Embedder | None = None,
) -> Router:
    """The demo's router: the small model, the shipped passages, and a larger model where there is one."""
    from ..retrieval.hybrid import HybridRetriever

    retriever = HybridRetriever.from_jsonl(folder() / "passages.jsonl", embedder)
    return Router(
        model,
        settings=settings,
        artefacts=[artefact],
        retriever=retriever,
        documents_limit=PASSAGES,
        larger=larger,
        database=database,
        seed=0,
    )


def play(router: Router, questions: Sequence[DemoQuestion]) -> Iterator[Played]:
    """Each question in turn. The draft is asked for separately only where Demur saved itself from generating it."""
    grader = get_grader("alias")
    assert router.model is not None
    for row in questions:
        call = Call.ask(row.question, task=TASK)
        result = router.run(call)
        run = router.log.get(result.run_id)
        assert run is not None
        draft = _draft_of(run)
        if draft is None:
            draft = router.model.generate(call).response.text
        answer = result.value if result.delivered else None
        yield Played(
            question=row.question,
            draft=draft,
            draft_right=grader.grade(draft, row.answers, {}),
            answer=answer,
            right=None if answer is None else grader.grade(answer, row.answers, {}),
            route=result.route,
            tried=tuple(_tried(run)),
            confidence=result.confidence.value if result.confidence and not result.confidence.is_prior else None,
            why=_why(run),
        )


def _draft_of(run: Run) -> str | None:
    """The small model's own first answer, where it was generated."""
    for each in run.rounds:
        if each.arm == Route.ANSWER.value and each.response is not None:
            return each.response.text
    return None


def _tried(run: Run) -> list[str]:
    return [each.arm for each in run.rounds if each.response is not None and each.arm != Route.ANSWER.value]


def _why(run: Run) -> str:
    """The course of the confidences, in a line: "unsure beforehand .05 → passages .81 ≥ .55"."""
    names = {Route.ANSWER.value: "draft", Route.RETRIEVE.value: "with passages"}
    steps: list[str] = []
    for each in run.rounds:
        decision = each.decision
        if decision.stage is Stage.BEFORE and decision.route is Route.GENERATE:
            continue
        name = "before drafting" if decision.stage is Stage.BEFORE else names.get(each.arm, each.arm.partition(":")[2])
        sure = "?" if each.confidence is None else f"{each.confidence.value:.2f}"
        compared = ""
        if decision.threshold is not None:
            sign = "≥" if each.confidence is not None and each.confidence.value >= decision.threshold else "<"
            compared = f" {sign} {decision.threshold:.2f}"
        steps.append(f"{name} {sure}{compared}")
    last = run.rounds[-1].decision
    full = next(
        (cost.unavailable for cost in last.expected_costs if cost.route is Route.DEFER and cost.unavailable), None
    )
    if last.route is Route.ABSTAIN and full is not None and "full" in full:
        steps.append("queue full")
    return " → ".join(steps)
