"""One artefact in a router, whatever its model lets see: white, grey or black."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from demur.core.call import Call
from demur.core.decision import Route, Stage
from demur.core.evidence import Captured, Need
from demur.core.protocols import Fingerprint, Generation
from demur.core.response import Response, TokenTrace
from demur.probes.access import Access
from demur.probes.artefact import Artefact
from demur.probes.signal_table import SignalTable
from demur.router.pipelines.fit import fit_artefact
from demur.router.pipelines.grade import GIVEN
from demur.router.pipelines.table import GradedTable

NAMES = ("prompt.entropy", "token.mean_logprob", "prompt.log_question_length")
VECTOR = "answer_mean.L2"
SURE, UNSURE = 2.5, -2.5


@dataclass
class Windowed:
    """Its state shows through its inside, its log-probabilities and (in the question's length) its text, as far as it
    lets them be seen. The fingerprint is the same: it is one model behind three interfaces."""

    access: Access
    state: float
    name: str = "windowed"

    @property
    def provides(self) -> frozenset[Need]:
        needs = {Need.TEXT}
        if self.access is not Access.BLACK:
            needs.add(Need.LOGPROBS)
        if self.access is Access.WHITE:
            needs.add(Need.HIDDEN_STATES)
        return frozenset(needs)

    def fingerprint(self) -> Fingerprint:
        return Fingerprint(self.name, "weights", True, "template", "greedy")

    def generate(self, call: Call, *, gate: Any = None, **_: Any) -> Generation:
        captured = None
        if self.access is Access.WHITE:
            vector = np.array([self.state, 0.0, 0.0], dtype=np.float32)
            captured = Captured(prompt_entropy=3.0 - self.state, prompt_tokens=5, hidden={VECTOR: vector})
            if gate is not None and not gate(captured):
                return Generation(Response(stopped_before_generating=True), captured)
        trace = None if self.access is Access.BLACK else TokenTrace(logprobs=(self.state - 4.0,))
        return Generation(Response(text="Paris", trace=trace), captured)

    async def agenerate(self, call: Call, **options: Any) -> Generation:
        return self.generate(call, **options)


def asked(state: float) -> Call:
    """A question as short as the model is sure: log(1 + length) = 4 - state."""
    return Call.ask("w" * round(math.expm1(4.0 - state)), task="t")


def rows_of(n: int = 500, *, text: float = 1.0) -> GradedTable:
    """Right where the state is high; the inside tells it best, log-probabilities less, and `text` weighs the length."""
    draw = np.random.default_rng(2)
    state = draw.normal(size=n)
    correct = draw.random(n) < 1.0 / (1.0 + np.exp(-4.0 * state))
    noise = draw.normal(size=(n, 3)) * np.array([0.3, 0.6, 0.9])
    values = np.array([3.0, -4.0, 4.0]) + state[:, None] * np.array([-1.0, 1.0, -text]) + noise
    hidden = np.c_[state + 0.3 * draw.normal(size=n), draw.normal(size=(n, 2))].astype(np.float32)
    table = SignalTable(NAMES, values, {VECTOR: hidden})
    ids = tuple(map(str, range(n)))
    return GradedTable(ids, ("x",) * n, table, correct, np.arange(n), data="d")


def fitted(**options: Any) -> Artefact:
    model = Windowed(Access.WHITE, 0.0).fingerprint()
    return fit_artefact(rows_of(**options), task="t", grader=GIVEN, model=model, method="logistic")


@pytest.fixture(scope="module")
def artefact() -> Artefact:
    found = fitted()
    assert [head.access for head in found.heads_for("answer", Stage.AFTER)] == list(Access)
    return found


def after(router: Any, result: Any) -> Any:
    (found,) = [each for each in router.log.get(result.run_id).rounds if each.decision.stage is Stage.AFTER]
    return found


@pytest.mark.parametrize("access", list(Access))
def test_each_access_is_judged_by_its_own_head(artefact: Artefact, make_router: Any, go: Any, access: Access) -> None:
    """Sure answers go out; the others do not; and it is said which head judged."""
    sure = make_router(Windowed(access, SURE), artefact=artefact, costs={"abstain": 0.3, "review": None})
    result = go(sure, asked(SURE))
    assert (result.route, result.value) == (Route.ANSWER, "Paris")
    suffix = "" if access is Access.WHITE else f"@{access.value}"
    assert result.confidence.calibrator == f"{artefact.id[:16]}:answer/after{suffix}"
    read = {part.signal for part in result.confidence.contributions}
    seen = {
        Access.WHITE: {*NAMES, f"hidden.{VECTOR}"},
        Access.GREY: {"token.mean_logprob", "prompt.log_question_length"},
        Access.BLACK: {"prompt.log_question_length"},
    }[access]
    assert read == seen
    head = artefact.heads[f"answer/after{suffix}"]
    hidden = {VECTOR: np.array([SURE, 0.0, 0.0], np.float32)} if access is Access.WHITE else {}
    assert result.confidence.value == head.predict(after(sure, result).signals, hidden).value
    unsure = make_router(Windowed(access, UNSURE), artefact=artefact, costs={"abstain": 0.3, "review": None})
    withheld = go(unsure, asked(UNSURE))
    assert (withheld.route, withheld.value) == (Route.ABSTAIN, None)
    assert withheld.confidence.value < 0.5 < result.confidence.value


def test_before_generation_a_lesser_head_speaks_where_the_prompt_is_not_read(
    artefact: Artefact, make_router: Any, go: Any
) -> None:
    for access, suffix in ((Access.WHITE, ""), (Access.GREY, "@black"), (Access.BLACK, "@black")):
        router = make_router(Windowed(access, UNSURE), artefact=artefact, costs={"abstain": 0.3, "review": None})
        (first, *_) = router.log.get(go(router, asked(UNSURE)).run_id).rounds
        assert first.decision.stage is Stage.BEFORE
        assert first.confidence.calibrator == f"{artefact.id[:16]}:answer/before{suffix}"


def test_one_call_falls_to_the_head_of_what_it_brought(artefact: Artefact, make_router: Any, go: Any) -> None:
    """A white model that captured nothing this time, and gave no log-probabilities: the black head, not a guess."""

    class Dimmed(Windowed):
        def generate(self, call: Call, **options: Any) -> Generation:
            return Generation(Response(text="Paris"))

    router = make_router(Dimmed(Access.WHITE, SURE), artefact=artefact, mode="shadow")
    result = go(router, asked(SURE))
    assert result.confidence.calibrator.endswith(":answer/after@black")


def test_where_text_tells_nothing_a_black_box_is_not_believed(make_router: Any, go: Any) -> None:
    blind = fitted(text=0.0)
    assert "answer/after@black" not in blind.heads
    router = make_router(Windowed(Access.BLACK, SURE), artefact=blind, costs={"abstain": 0.3, "review": None})
    result = go(router, asked(SURE))
    assert result.route is not Route.ANSWER
    assert result.value is None
    assert result.confidence.is_prior
    grey = make_router(Windowed(Access.GREY, SURE), artefact=blind, costs={"abstain": 0.3, "review": None})
    assert go(grey, asked(SURE)).confidence.calibrator.endswith("@grey")
