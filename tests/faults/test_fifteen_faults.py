"""Fifteen faults that were seen in tools of this kind, each with the proof that its test can fail.

Every fault has a body that holds with the fix, and an `undone` that takes the fix away: then the same body must fail.
`FAULTS` is read by benchmarks too, so bodies use nothing but a folder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from demur import (
    Artefact,
    ArtefactMismatch,
    BadInput,
    Call,
    ConfigurationError,
    CostPolicy,
    Costs,
    NotEnoughLabels,
    Response,
    Router,
    Settings,
    TokenTrace,
)
from demur.core.confidence import Confidence, Interval, Probability
from demur.core.decision import Route, Stage
from demur.core.errors import DemurError
from demur.core.evidence import Captured, Evidence
from demur.core.protocols import Generation
from demur.core.response import ToolCall, TopToken
from demur.core.run import RunState
from demur.core.signal import RawScore, Signal
from demur.memory.episode_store import EpisodeStore
from demur.policies.policy import PolicyInput
from demur.policies.tool_policy import ToolPolicy
from demur.probes.binding import Binding, ModelBinding
from demur.probes.fit_head import fit_head
from demur.probes.prompt_statistics import PromptStatistics
from demur.probes.signal_table import SignalTable
from demur.probes.token_statistics import TokenStatistics
from demur.router.site import Tool
from demur.testing import FrozenRouter, Reviewer, ScriptedModel

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Fault:
    """One fault: what holds with the fix, and how to take the fix away."""

    number: int
    name: str
    holds: Callable[[Path], None]
    undone: Callable[[Patch], contextlib.AbstractContextManager[None] | None]


def refused(error: type[Exception], act: Callable[[], object]) -> Exception:
    """The error that `act` raises; an AssertionError where it raises none."""
    try:
        act()
    except error as raised:
        return raised
    raise AssertionError(f"{error.__name__} was not raised")


def sure(value: float = 0.999) -> Confidence:
    return Confidence(
        probability=Probability(value=value), interval=Interval(low=value, high=value), calibrator="test", labels=500
    )


def refund(**fields: Any) -> Call:
    return Call(kind="tool", tool_name="refund", arguments={"order": "A"}, side_effects="irreversible", **fields)


class Counted:
    """A tool that counts its uses."""

    def __init__(self, name: str = "refund") -> None:
        self.uses: list[dict[str, Any]] = []
        self.tool = Tool(name, run=self._use)

    def _use(self, **arguments: Any) -> str:
        self.uses.append(arguments)
        return f"{len(self.uses)} uses"


@cache
def artefact(model: str = "scripted") -> Artefact:
    """P(right) falls with surprise; fitted on the mean log-probability alone."""
    draw = np.random.default_rng(11)
    surprise = draw.uniform(0.0, 3.0, 600)
    right = draw.random(600) < 1.0 / (1.0 + np.exp(4.0 * surprise - 5.0))
    table = SignalTable(("token.mean_logprob",), -surprise[:, None])
    head = fit_head(table, right.astype(float), None, arm="answer", stage=Stage.AFTER, replicas=20)
    binding = Binding(
        model=ModelBinding.of(ScriptedModel(["-"], name=model).fingerprint()),
        task="default",
        extractor="whole",
        grader="alias",
        grader_version="1",
        data="synthetic",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    return Artefact({"answer/after": head}, binding, {})


# 1. A typo in a gate's configuration auto-approves.


def typo_is_refused(folder: Path) -> None:
    error = refused(ConfigurationError, lambda: Settings(tools={"refund": {"side_effect": "irreversible"}}))
    assert "side_effect" in str(error)
    refused(ConfigurationError, lambda: Settings(mode="enforced"))
    refused(ConfigurationError, lambda: ToolPolicy(always_review="yes"))  # type: ignore[arg-type]


@contextlib.contextmanager
def unknown_keys_pass(patch: Patch) -> Iterator[None]:
    from demur.router.settings import Settings as Whole
    from demur.router.settings import ToolSettings

    models = (ToolSettings, Whole)
    before = [model.model_config["extra"] for model in models]
    try:
        for model in models:
            model.model_config["extra"] = "ignore"
            model.model_rebuild(force=True)
        yield
    finally:
        for model, extra in zip(models, before, strict=True):
            model.model_config["extra"] = extra
            model.model_rebuild(force=True)


# 2. A predicate that returns None skips review.


def odd_predicate_means_review(folder: Path) -> None:
    for verdict in (None, 0, "", [], 1, "no"):
        policy = CostPolicy(
            Costs(wrong=1.0, abstain=0.3),
            tools={"refund": ToolPolicy(always_review=lambda call, verdict=verdict: verdict)},
        )
        given = PolicyInput(refund(), Stage.AFTER, sure(), draw=0.5, available={"answer": None, "defer": None})
        assert policy.choose(given).route is Route.DEFER, verdict


def predicates_are_believed(patch: Patch) -> None:
    def review_demanded(self: ToolPolicy, call: Call) -> str | None:
        rule = self.always_review
        return "asked" if (rule(call) if callable(rule) else rule) else None

    patch.setattr(ToolPolicy, "review_demanded", review_demanded)


# 3. An edit from tool A to tool B bypasses B's policy.


def an_edit_into_another_tool_is_gated(folder: Path) -> None:
    settings = Settings(mode="enforce", tools={"delete": {"side_effects": "irreversible", "always_review": True}})
    router = FrozenRouter(confidence=0.1, settings=settings, database=folder / "edit.db")
    counted, delete = Counted(), Counted("delete")
    router.register_tool(counted.tool)
    router.register_tool(delete.tool)
    waiting = router.run(refund(), tool=counted.tool, proposal=Generation(Response()))
    Reviewer(router, "ada").edit(tool_name="delete", arguments={"everything": True})
    resumed = router.resume(waiting.run_id)
    assert (resumed.state, delete.uses, counted.uses) == (RunState.WAITING, [], [])
    (item,) = Reviewer(router).waiting()
    assert item.call.tool_name == "delete"


def edits_keep_their_approval(patch: Patch) -> None:
    from demur.router.resumption import Resumption

    patch.setattr(Resumption, "tool_changed", property(lambda self: False))


# 4. A rejected call still runs.


def a_rejected_call_does_not_run(folder: Path) -> None:
    router, counted = FrozenRouter(confidence=0.1, database=folder / "reject.db"), Counted()
    router.register_tool(counted.tool)
    waiting = router.run(refund(), tool=counted.tool, proposal=Generation(Response()))
    Reviewer(router).reject(note="no")
    for act in (lambda: router.resume(waiting.run_id), lambda: router.poll(waiting.run_id), router.resume_all):
        with contextlib.suppress(DemurError):
            act()
    assert counted.uses == []


def rejections_are_not_looked_at(patch: Patch) -> None:
    """Every resolution counts as an approval, and a rejection leaves its run waiting."""
    from demur.core.review_item import Resolution, Verdict
    from demur.review import queue

    def approving(connection: Any, item: Any, resolution: Resolution, now: Any) -> None:
        return None

    patch.setattr(queue, "settle_resolved", approving)
    whole = Resolution.model_dump_json
    patch.setattr(
        Resolution,
        "model_dump_json",
        lambda self, **options: whole(self.model_copy(update={"verdict": Verdict.APPROVE}), **options),
    )


# 5. Replays duplicate side effects.


def replay_has_one_effect(folder: Path) -> None:
    router, counted = FrozenRouter(confidence=0.999, database=folder / "replay.db"), Counted()
    call = refund(idempotency_key="refund-A")
    proposal = Generation(Response())
    values = [router.run(call, tool=counted.tool, proposal=proposal).value for _ in range(3)]
    assert (len(counted.uses), values) == (1, ["1 uses"] * 3)
    waiting = FrozenRouter(confidence=0.1, database=folder / "queue.db")
    reviews = {waiting.run(call, tool=counted.tool, proposal=proposal).review_id for _ in range(3)}
    assert (len(reviews), len(Reviewer(waiting).waiting())) == (1, 1)


def keys_are_forgotten(patch: Patch) -> None:
    from demur.router import log
    from demur.router.effects import EffectLog

    whole_row = log.run_row
    patch.setattr(log, "by_key", lambda *_: None)
    patch.setattr(log, "run_row", lambda *given: {**whole_row(*given), "idempotency_key": None})
    patch.setattr(EffectLog, "run_once", lambda self, key, run_id, name, arguments, run, **_: run())


# 6. The model re-issues a rejected call in a loop.


def a_rejected_call_is_cut_when_it_comes_again(folder: Path) -> None:
    router, counted = FrozenRouter(confidence=0.1, database=folder / "again.db"), Counted()
    call = {"conversation_id": "c1"}
    router.run(refund(**call), tool=counted.tool, proposal=Generation(Response()))
    Reviewer(router).reject(note="not covered")
    for _ in range(5):
        again = router.run(refund(**call), tool=counted.tool, proposal=Generation(Response()))
        assert (again.route, again.state) == (Route.ABSTAIN, RunState.DONE)
    assert Reviewer(router).waiting() == ()
    assert counted.uses == []


def rejections_are_forgotten(patch: Patch) -> None:
    from demur.router import tool_plan

    patch.setattr(tool_plan, "rejections", lambda *_: [])


# 7. A missing signal reads as confident or neutral.


def missing_signal_is_not_confident(folder: Path) -> None:
    traces: list[TokenTrace | None] = [None, TokenTrace()]
    traces += [TokenTrace(logprobs=(bad,)) for bad in (None, float("nan"), float("-inf"))]
    traces += [TokenTrace(logprobs=(-0.01,) * 9 + (bad,)) for bad in (None, float("nan"), float("-inf"))]
    traces += [TokenTrace(logprobs=(float("nan"),) * 4)]
    for number, trace in enumerate(traces):
        model = ScriptedModel([Response(text="Paris", trace=trace, model="scripted")], logprob=-0.01)
        router = Router(
            model, settings=Settings(mode="enforce"), artefacts=[artefact()], database=folder / f"{number}.db"
        )
        result = router.run(Call.ask("What is the capital of France?"))
        assert (result.route, result.value) == (Route.ABSTAIN, None), trace


def missing_is_neutral(patch: Patch) -> None:
    def neutral(cls: type[Signal], name: str, reason: str) -> Signal:
        return cls(name=name, score=RawScore(value=0.0))

    patch.setattr(Signal, "missing", classmethod(neutral))


# 8. NaN poisons aggregates.


def nan_stays_where_it_is(folder: Path) -> None:
    from demur.evaluation.evaluate import evaluate

    draw = np.random.default_rng(0)
    probabilities, right = draw.random(60), draw.random(60) < 0.5
    probabilities[7] = float("nan")
    error = refused(BadInput, lambda: evaluate(probabilities, right))
    assert "7" in str(error)
    trace = TokenTrace(logprobs=(-0.1,) * 49 + (float("nan"),), entropy=(0.2,) * 50)
    signals = TokenStatistics().measure(Evidence(Call.ask("?"), Response(text="x", trace=trace)))
    values = {signal.name: signal.value for signal in signals}
    assert values["token.mean_logprob"] is None
    assert values["token.first_logprob"] == -0.1
    assert values["token.mean_entropy"] == pytest.approx(0.2)
    for signal in signals:
        assert signal.value is None or np.isfinite(signal.value), signal.name


def nan_is_let_through(patch: Patch) -> None:
    from demur.evaluation import inputs
    from demur.probes import token_statistics

    patch.setattr(inputs, "check_scores", lambda name, values: np.nan_to_num(np.asarray(values, dtype=float), nan=0.5))
    patch.setattr(token_statistics, "_checked_logprobs", lambda values: ([v or 0.0 for v in values], ""))


# 9. Scores are not probabilities.


def scores_are_not_probabilities(folder: Path) -> None:
    from pydantic import ValidationError

    score = RawScore(value=0.999)
    interval = Interval(low=0.9, high=1.0)
    refused(
        ValidationError,
        lambda: Confidence(probability=score, interval=interval, calibrator="x", labels=9),  # type: ignore[arg-type]
    )
    assert not isinstance(score, Probability)


@contextlib.contextmanager
def any_number_is_a_probability(patch: Patch) -> Iterator[None]:
    field = Confidence.model_fields["probability"]
    before = field.annotation
    try:
        field.annotation = Any  # type: ignore[assignment]
        Confidence.model_rebuild(force=True)
        yield
    finally:
        field.annotation = before
        Confidence.model_rebuild(force=True)


# 10. Duplicates double-count.


def the_same_grade_counts_once(folder: Path) -> None:
    router = FrozenRouter(ScriptedModel(lambda call: "Paris"), confidence=0.9, database=folder / "twice.db")
    result = router.run(Call.ask("What is the capital of France?"))
    for _ in range(5):
        router.record_outcome(result.response_id or "", True, source_name="ada")
        router.learning.catch_up()
    assert router.queue.outcomes.counts().total == 1
    assert EpisodeStore(router.database).count(tenant=None) == 1
    said = [count for _, count in ((key, state.count) for key, state in router.learning.online.states())]
    assert said in ([1], [])


def every_delivery_counts(patch: Patch) -> None:
    from demur.core.record import new_id
    from demur.router.learning import episode_writer

    patch.setattr(episode_writer, "episode_id", lambda response_id: new_id("epi"))
    from demur.core.database import outcome_batch

    patch.setattr(outcome_batch, "_says_the_same", lambda stored, given: False)


# 11. Sign errors.


def peaked_is_surer_than_uniform(folder: Path) -> None:
    width = 5
    peaked = TokenTrace(
        tokens=("a", "b", "c"),
        logprobs=(-0.01,) * 3,
        entropy=(0.05,) * 3,
        top=(tuple(TopToken(token=str(i), logprob=-0.01 if i == 0 else -9.0) for i in range(width)),) * 3,
    )
    level = float(np.log(1.0 / width))
    uniform = TokenTrace(
        tokens=("a", "b", "c"),
        logprobs=(level,) * 3,
        entropy=(-level,) * 3,
        top=(tuple(TopToken(token=str(i), logprob=level) for i in range(width)),) * 3,
    )
    call = Call.ask("?")
    surer, unsurer = (
        {
            signal.name: signal.score
            for signal in (
                *TokenStatistics().measure(Evidence(call, Response(text="abc", trace=trace))),
                *PromptStatistics().measure(Evidence(call, captured=captured)),
            )
        }
        for trace, captured in (
            (peaked, Captured(prompt_entropy=0.05, prompt_top_logprob=-0.01, prompt_tokens=5)),
            (uniform, Captured(prompt_entropy=1.6, prompt_top_logprob=level, prompt_tokens=5)),
        )
    )
    compared = 0
    for name, score in surer.items():
        other = unsurer[name]
        if not isinstance(score, RawScore) or not isinstance(other, RawScore) or score.value == other.value:
            continue
        assert score.oriented > other.oriented, name
        compared += 1
    assert compared >= 10


def direction_is_dropped(patch: Patch) -> None:
    patch.setattr(RawScore, "oriented", property(lambda self: self.value))


# 12. Thresholds go stale.


def stale_artefact_is_refused(folder: Path) -> None:
    settings = Settings(mode="enforce")
    Router(ScriptedModel(["x"]), settings=settings, artefacts=[artefact()], database=":memory:")
    other = ScriptedModel(["x"], name="another model")
    refused(ArtefactMismatch, lambda: Router(other, settings=settings, artefacts=[artefact()], database=":memory:"))


def artefacts_are_not_checked(patch: Patch) -> None:
    patch.setattr(Artefact, "check", lambda *_, **__: None)


# 13. Degenerate calibration sets.


def degenerate_sets_are_refused(folder: Path) -> None:
    draw = np.random.default_rng(1)
    for right, wrong in ((40, 0), (0, 40), (4, 60), (9, 9)):
        table = SignalTable(("token.mean_logprob",), draw.normal(size=(right + wrong, 1)))
        grades = np.array([1.0] * right + [0.0] * wrong)
        error = refused(
            NotEnoughLabels,
            lambda table=table, grades=grades: fit_head(table, grades, None, arm="answer", stage=Stage.AFTER),
        )
        assert "more" in str(error)


def any_set_will_do(patch: Patch) -> None:
    from demur.probes import tiers

    patch.setattr(tiers, "FEWEST", 0)


# 14. Format tokens and ids distort confidence.


def ids_and_format_do_not_count(folder: Path) -> None:
    def measured(call_id: str, scaffold: float) -> dict[str, float | None]:
        trace = TokenTrace(
            tokens=("<tool_call>", '{"name":', "refund", "}", "</tool_call>"),
            logprobs=(scaffold, -0.2, -0.4, -0.1, scaffold),
            answer_start=1,
            answer_end=4,
        )
        call = ToolCall(id=call_id, name="refund", arguments={"order": "A"})
        response = Response(tool_calls=(call,), trace=trace)
        return {each.name: each.value for each in TokenStatistics().measure(Evidence(refund(), response))}

    assert measured("call_1", -0.01) == measured("call_9f3a77", -7.0)
    assert measured("call_1", -0.01)["token.sum_logprob"] == pytest.approx(-0.7)


def everything_counts(patch: Patch) -> None:
    patch.setattr(TokenTrace, "answer_logprobs", property(lambda self: self.logprobs))


# 15. Edited arguments lose their type.

TYPED = {"n": 3, "x": [1, {"a": None}], "f": 3.0, "s": "3", "t": True}


def edited_arguments_keep_their_types(folder: Path) -> None:
    router, counted = FrozenRouter(confidence=0.1, database=folder / "types.db"), Counted()
    router.register_tool(counted.tool)
    waiting = router.run(refund(), tool=counted.tool, proposal=Generation(Response()))
    Reviewer(router).edit(arguments=TYPED)
    router.resume(waiting.run_id)
    (used,) = counted.uses
    assert used == TYPED
    assert [type(value) for value in used.values()] == [int, list, float, str, bool]


def arguments_become_text(patch: Patch) -> None:
    """As a form of text fields gives them back."""
    from demur.router import log

    whole = log.resumption_of

    def as_text(*given: Any) -> Any:
        found = whole(*given)
        return found.model_copy(update={"arguments": {name: str(value) for name, value in found.arguments.items()}})

    patch.setattr(log, "resumption_of", as_text)


FAULTS: dict[int, Fault] = {
    fault.number: fault
    for fault in (
        Fault(1, "a typo in a gate's configuration auto-approves", typo_is_refused, unknown_keys_pass),
        Fault(2, "a predicate returning None skips review", odd_predicate_means_review, predicates_are_believed),
        Fault(
            3, "an edit bypasses the new tool's policy", an_edit_into_another_tool_is_gated, edits_keep_their_approval
        ),
        Fault(4, "a rejected call still runs", a_rejected_call_does_not_run, rejections_are_not_looked_at),
        Fault(5, "replays duplicate side effects", replay_has_one_effect, keys_are_forgotten),
        Fault(6, "a rejected call comes again", a_rejected_call_is_cut_when_it_comes_again, rejections_are_forgotten),
        Fault(7, "a missing signal reads as confident", missing_signal_is_not_confident, missing_is_neutral),
        Fault(8, "NaN poisons aggregates", nan_stays_where_it_is, nan_is_let_through),
        Fault(9, "scores are not probabilities", scores_are_not_probabilities, any_number_is_a_probability),
        Fault(10, "duplicates double-count", the_same_grade_counts_once, every_delivery_counts),
        Fault(11, "sign errors", peaked_is_surer_than_uniform, direction_is_dropped),
        Fault(12, "thresholds go stale", stale_artefact_is_refused, artefacts_are_not_checked),
        Fault(13, "degenerate calibration sets", degenerate_sets_are_refused, any_set_will_do),
        Fault(14, "format tokens and ids distort confidence", ids_and_format_do_not_count, everything_counts),
        Fault(15, "edited arguments lose their type", edited_arguments_keep_their_types, arguments_become_text),
    )
}


def test_all_fifteen_are_here() -> None:
    assert sorted(FAULTS) == list(range(1, 16))


each_fault = pytest.mark.parametrize("fault", FAULTS.values(), ids=lambda fault: f"{fault.number:02}-{fault.name[:40]}")


@each_fault
def test_the_fault_is_not_here(fault: Fault, tmp_path: Path) -> None:
    fault.holds(tmp_path)


@each_fault
def test_without_its_fix_the_fault_is_back(fault: Fault, tmp_path: Path, monkeypatch: Patch) -> None:
    with fault.undone(monkeypatch) or contextlib.nullcontext(), pytest.raises(AssertionError):
        fault.holds(tmp_path)
