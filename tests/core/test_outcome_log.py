"""The store of outcomes: one row per source and name, the strongest word counts."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from demur.core.database import Database
from demur.core.database.outcome_log import OutcomeCounts, OutcomeLog
from demur.core.database.tables import rounds, runs
from demur.core.errors import BadInput
from demur.core.outcome import Outcome, OutcomeSource
from demur.core.protocols import OutcomeSink

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
def log(tmp_path):
    return OutcomeLog(Database(tmp_path / "demur.db"))


def an_outcome(correct=True, source=OutcomeSource.HUMAN, name="ada", response="resp_1", minutes=0, **changes):
    at = NOON + timedelta(minutes=minutes)
    return Outcome(response_id=response, correct=correct, source=source, source_name=name, graded_at=at, **changes)


def test_it_is_an_outcome_sink(log):
    assert isinstance(log, OutcomeSink)


def test_an_outcome_comes_back_as_it_was_and_twice_is_once(log):
    outcome = Outcome(response_id="r", score=0.4, cut=0.5, corrected_answer="\u202e\x1b[2J", source=OutcomeSource.TEST)
    assert log.record(outcome) == log.record(outcome) == outcome.id
    assert log.of("r") == (outcome,)
    assert log.effective("r") == outcome
    assert log.effective("other") is None


def test_later_replaces_earlier_whatever_the_order_of_arrival(log):
    late, early = an_outcome(False, minutes=5), an_outcome(True)
    assert log.record(early) == early.id
    assert log.record(late) == late.id
    assert log.record(early) == late.id
    assert log.of("resp_1") == (late,)


def test_the_strongest_source_counts_and_of_two_humans_the_later(log):
    judge = an_outcome(True, OutcomeSource.JUDGE, "gpt", minutes=9)
    rule = an_outcome(False, OutcomeSource.RULE, "regex")
    test = an_outcome(True, OutcomeSource.TEST, "unit")
    ada, bob = an_outcome(False, name="ada", minutes=1), an_outcome(True, name="bob", minutes=2)
    for outcome in (judge, rule, test, ada, bob):
        log.record(outcome)
        assert log.effective("resp_1") == outcome
    assert log.of("resp_1") == (bob, ada, test, rule, judge)


def test_task_and_tenant_come_from_the_run(log):
    with log.database.transaction() as connection:
        row = {"call_id": "c", "kind": "llm", "mode": "shadow", "state": "done", "call": "{}", "owner": "o"}
        row |= {"created_at": NOON, "updated_at": NOON, "id": "run_1", "task": "triviaqa", "tenant": "acme"}
        connection.execute(runs.insert().values(row))
        connection.execute(
            rounds.insert().values(
                run_id="run_1",
                number=0,
                arm="answer",
                response_id="resp_1",
                signals="[]",
                not_run="{}",
                created_at=NOON,
            )
        )
    log.record(an_outcome())
    log.record(an_outcome(False, response="resp_2"))
    log.record(an_outcome(False, response="resp_3"), task="triviaqa", tenant="other")
    assert log.counts("triviaqa") == OutcomeCounts(right=1, wrong=1)
    assert log.counts("triviaqa", "acme") == OutcomeCounts(right=1, wrong=0)
    assert log.counts() == OutcomeCounts(right=1, wrong=2)
    assert log.counts("nothing").total == 0


def test_a_naive_time_is_refused(log):
    outcome = an_outcome().model_copy(update={"graded_at": datetime(2026, 1, 1)})
    with pytest.raises(BadInput, match="naive"):
        log.record(outcome)
    assert log.of("resp_1") == ()


@given(
    grades=st.lists(
        st.tuples(
            st.sampled_from(["r1", "r2", "r3"]),
            st.sampled_from(list(OutcomeSource)),
            st.sampled_from(["x", "y"]),
            st.booleans(),
            st.integers(0, 1000),
        ),
        max_size=15,
        unique_by=lambda grade: grade[4],
    )
)
@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_counts_agree_with_a_plain_model(grades):
    log = OutcomeLog(Database(":memory:"))
    strength = [OutcomeSource.JUDGE, OutcomeSource.RULE, OutcomeSource.TEST, OutcomeSource.HUMAN]
    best = {}
    for response, source, name, right, minutes in grades:
        log.record(an_outcome(right, source, name, response, minutes))
        rank = (strength.index(source), minutes)
        if response not in best or rank > best[response][0]:
            best[response] = (rank, right)
    right = sum(said for _, said in best.values())
    assert log.counts() == OutcomeCounts(right=right, wrong=len(best) - right)


async def test_async_twins_do_the_same(log):
    outcome = an_outcome()
    assert await log.arecord(outcome, task="t") == outcome.id
    assert await log.aof("resp_1") == (outcome,)
    assert await log.aeffective("resp_1") == outcome
    assert await log.acounts("t") == OutcomeCounts(right=1, wrong=0)
