"""A queue on a database of its own, a clock that stands still, and items to put in."""

from datetime import UTC, datetime

import pytest

from demur.core.call import Call, CallKind
from demur.core.clock import ManualClock
from demur.core.confidence import Confidence, Interval, Probability
from demur.core.database import Database
from demur.core.decision import Decision, Mode, Route, Stage
from demur.core.response import Response
from demur.core.review_item import ReviewItem
from demur.core.run import Round, Run
from demur.review.queue import ReviewQueue
from demur.router.log import RunLog


@pytest.fixture
def clock():
    return ManualClock(datetime(2026, 11, 30, 12, tzinfo=UTC))


@pytest.fixture
def database(tmp_path):
    opened = Database(tmp_path / "demur.db")
    yield opened
    opened.close()


@pytest.fixture
def queue(database, clock):
    return ReviewQueue(database, clock, lease_seconds=60)


@pytest.fixture
def log(database, clock):
    return RunLog(database, clock)


@pytest.fixture
def make_item(clock):
    """make_item(number, **changes): an item of a run that is not stored."""

    def make(number=0, **changes):
        call = changes.pop("call", None) or Call.ask(f"question {number}")
        fields = {
            "id": f"rev_{number}",
            "run_id": f"run_{number}",
            "call": call,
            "reason": "not sure",
            "proposed": "a draft",
        }
        return ReviewItem(**(fields | {"created_at": clock.now()} | changes))

    return make


@pytest.fixture
def defer(log, queue):
    """defer(call=..., text=..., ...): a stored run that waits; gives (run id, item id, response id)."""

    def make(call=None, text="Paris", label_propensity=0.25, review=None):
        call = call or Call.ask("What is the capital of France?")
        run = log.start(Run(call=call), Mode.ENFORCE, "elsewhere/1/1.00")
        response = Response(text="" if call.kind is CallKind.TOOL else text)
        confidence = Confidence(
            probability=Probability(value=0.7), interval=Interval(low=0.55, high=0.81), calibrator="a:platt", labels=120
        )
        decision = Decision(
            call_id=call.id,
            run_id=run.id,
            round=0,
            stage=Stage.AFTER,
            mode=Mode.ENFORCE,
            route=Route.DEFER,
            reason="a review is cheaper than a wrong answer",
            confidence=confidence,
            policy_id="policy",
            label_propensity=label_propensity,
            draw=0.5,
        )
        round_ = Round(number=0, arm="answer", response=response, signals=(), confidence=confidence, decision=decision)
        review_id = log.record_round(run.id, round_, review=review(run, decision, response) if review else None)
        return run.id, review_id, response.id

    return make


@pytest.fixture
def refund():
    return Call(kind=CallKind.TOOL, tool_name="refund", arguments={"order": "A-17", "cents": 1250}, task="refunds")
