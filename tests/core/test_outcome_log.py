"""The store of outcomes: one row per source and name, the strongest word counts."""

import json
import logging
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from demur.core.database import Database
from demur.core.database.outcome_log import OutcomeCounts, OutcomeLog, Receipt, Retractable
from demur.core.database.tables import decisions, outcomes, rounds, runs
from demur.core.errors import BadInput
from demur.core.outcome import Outcome, OutcomeSource
from demur.core.protocols import OutcomeSink

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
def log(tmp_path):
    return OutcomeLog(Database(tmp_path / "demur.db"))


@pytest.fixture(scope="module")
def shared():
    """One for all examples of a property; each empties it."""
    return OutcomeLog(Database(":memory:"))


def emptied(log):
    with log.database.transaction() as connection:
        connection.execute(outcomes.delete())
    return log


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


def a_run(log, *steps, run="run_1", tenant="acme", model=None):
    """A run with a round for each (response id or None, label propensity or None without a decision)."""
    with log.database.transaction() as connection:
        row = {"call_id": "c", "kind": "llm", "mode": "shadow", "state": "done", "call": "{}", "owner": "o"}
        row |= {"created_at": NOON, "updated_at": NOON, "id": run, "task": "triviaqa", "tenant": tenant, "model": model}
        connection.execute(runs.insert().values(row))
        for number, (response, propensity) in enumerate(steps):
            row = {"run_id": run, "number": number, "arm": "answer", "response_id": response, "signals": "[]"}
            row |= {"not_run": "{}", "created_at": NOON + timedelta(seconds=number)}
            if response is not None:
                row["response"] = json.dumps({"model": f"writer of {response}"})
                row["fingerprint"] = json.dumps({"name": f"Weights {number}", "identity": "sha"})
            connection.execute(rounds.insert().values(row))
            if propensity is not None:
                row = {"id": f"{run}/{number}", "run_id": run, "round": number, "stage": "after", "task": "triviaqa"}
                row |= {"tenant": tenant, "route": "answer", "fallback": False, "label_propensity": propensity}
                row |= {"sampled_for_label": False, "policy_id": "p", "decision": "{}", "decided_at": NOON}
                connection.execute(decisions.insert().values(row))


def test_task_and_tenant_come_from_the_run(log):
    a_run(log, ("resp_1", None))
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
def test_counts_agree_with_a_plain_model(shared, grades):
    log = emptied(shared)
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


# --- twice, late, and taken back ---------------------------------------------------------------------------------


def test_the_same_again_spends_no_change_number(log):
    outcome = an_outcome(score=0.7, cut=0.5, correct=None)
    log.record(outcome)
    for again in (outcome, an_outcome(score=0.7, cut=0.5, correct=None), an_outcome(True, minutes=-5)):
        log.record(again)
    assert log.last_change() == 1
    log.record(an_outcome(score=0.7, cut=0.8, correct=None))
    assert (log.last_change(), log.effective("resp_1").is_right) == (2, False)


def test_an_undated_grade_told_again_is_nothing_new_unless_it_takes_force_back(log):
    log.record(an_outcome(True, name="ada"))
    log.record(an_outcome(True, name="ada", minutes=1), dated=False)
    assert (log.last_change(), log.effective("resp_1").graded_at) == (1, NOON)
    log.record(an_outcome(False, name="bob", minutes=2), dated=False)
    assert log.effective("resp_1").is_right is False
    log.record(an_outcome(True, name="ada", minutes=3), dated=False)
    assert log.effective("resp_1").is_right is True
    log.record(an_outcome(False, name="ada", minutes=4), dated=False)
    assert log.effective("resp_1").is_right is False


def test_a_newer_grade_that_says_the_same_is_newer(log):
    """Otherwise one that was made in between and comes late would pass for the newest."""
    log.record(an_outcome(True, minutes=0))
    log.record(an_outcome(True, minutes=9))
    log.record(an_outcome(False, minutes=5))
    assert log.effective("resp_1").is_right is True


def test_retraction_gives_force_to_the_next_word_and_tells_learners_of_each_row(log):
    for response in ("a", "b"):
        log.record(an_outcome(False, OutcomeSource.RULE, "regex", response))
        log.record(an_outcome(True, OutcomeSource.JUDGE, "gpt", response))
    log.record(an_outcome(False, OutcomeSource.RULE, "other", "c"))
    before = log.last_change()
    asked = {"source_name": "regex", "since": NOON, "until": NOON}
    assert log.retract("rule", dry_run=True, **asked) == 2
    assert log.retractable("rule", **asked) == [Retractable(None, None, 2)]
    assert log.last_change() == before
    assert log.retract("rule", because="it read the wrong field", at=NOON + timedelta(hours=1), **asked) == 2
    assert [tuple(change) for change in log.changed_since(before)] == [(before + 1, "a"), (before + 2, "b")]
    assert log.effective("a").source is OutcomeSource.JUDGE
    assert {id: outcome.is_right for id, (_, outcome) in log.effective_many(["a", "b", "c", "d"]).items()} == {
        "a": True,
        "b": True,
        "c": False,
    }
    assert log.counts() == OutcomeCounts(right=2, wrong=1)
    assert log.retract("rule", **asked) == 0
    with log.database.reading() as connection:
        kept = connection.execute(outcomes.select().where(outcomes.c.source_name == "regex")).all()
    assert {(row.retracted_because, row.revision, row.is_right) for row in kept} == {
        ("it read the wrong field", 1, False)
    }


def test_an_old_grade_stays_retracted_and_says_so_and_a_new_one_counts(log, caplog):
    log.record(an_outcome(False, OutcomeSource.RULE, "regex"))
    log.retract("rule", at=NOON + timedelta(minutes=10))
    spent = log.last_change()
    with caplog.at_level(logging.WARNING, "demur"):
        for minutes in (0, 5, 10):
            log.record(an_outcome(True, OutcomeSource.RULE, "regex", minutes=minutes))
    assert caplog.text.count("was taken back and stays so") == 3
    assert (log.effective("resp_1"), log.last_change()) == (None, spent)
    late = an_outcome(True, OutcomeSource.RULE, "regex", minutes=20)
    assert log.record_many([late], undated=[0])[0].receipt is Receipt.RETRACTED
    assert log.record_many([late])[0].receipt is Receipt.STORED
    assert (log.effective("resp_1"), log.last_change()) == (late, spent + 1)


@pytest.mark.parametrize(
    ("which", "said"),
    [
        ({"source": "model"}, "own verdict"),
        ({"source": "rule", "since": datetime(2026, 1, 1)}, "time zone"),
        ({"source": "rule", "since": NOON, "until": NOON - timedelta(1)}, "after until"),
    ],
)
def test_a_retraction_that_means_nothing_is_refused(log, which, said):
    for ask in (log.retract, log.retractable):
        with pytest.raises(BadInput, match=said):
            ask(**which)


def test_many_at_once_are_all_stored_or_none(log):
    a_run(log, ("resp_7", 0.02))
    many = [an_outcome(number % 3 > 0, response=f"resp_{number}") for number in range(450)]
    receipts = [recorded.receipt for recorded in log.record_many([*many, many[3], an_outcome(False, minutes=-1)])]
    assert receipts == [Receipt.STORED] * 450 + [Receipt.KNOWN, Receipt.OLDER]
    assert [change.response_id for change in log.changed_since(0)] == [one.response_id for one in many]
    own = an_outcome(True, OutcomeSource.JUDGE, " writer  of RESP_7", "resp_7")
    with pytest.raises(BadInput, match="own verdict"):
        log.record_many([an_outcome(True, response="fresh"), own])
    assert log.effective("fresh") is None


# --- what the log knows of the response --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["writer of draft", "WEIGHTS 0", "sha"])
def test_a_judge_that_gave_the_response_is_refused(log, name):
    a_run(log, ("draft", 0.0), ("better", 0.02), model="writer of better")
    with pytest.raises(BadInput, match="own verdict"):
        log.record(an_outcome(True, OutcomeSource.JUDGE, name, "draft"))
    log.record(an_outcome(True, OutcomeSource.JUDGE, "writer of better", "draft"))  # it judges another's
    log.record(an_outcome(True, OutcomeSource.HUMAN, "writer of better", "better"))
    assert log.counts().total == 2


def test_label_propensity_is_that_of_the_decision_that_stood_in_the_end(log):
    a_run(log, ("draft", 0.0), (None, 1.0))  # retrieving failed, a human was asked about the draft
    a_run(log, ("first", 0.0), ("second", 0.02), run="run_2")
    a_run(log, ("undecided", None), run="run_3")
    a_run(log, ("two calls", 0.5), run="run_4")
    a_run(log, ("two calls", 0.5), run="run_5")
    kept = {}
    for response in ("draft", "first", "second", "undecided", "two calls", "elsewhere"):
        log.record(an_outcome(response=response))
        kept[response] = log.effective(response).label_propensity
    assert kept == {"draft": 1.0, "first": 0.0, "second": 0.02, "undecided": None, "two calls": 0.75, "elsewhere": None}
    log.record(an_outcome(response="second", label_propensity=0.3))
    assert log.effective("second").label_propensity == 0.3


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["record", "record", "record", "retract"]),
            st.sampled_from(["r1", "r2"]),
            st.sampled_from(list(OutcomeSource)),
            st.booleans(),
            st.integers(0, 50),
        ),
        max_size=20,
    )
)
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_a_follower_of_changes_knows_what_is_in_force(shared, steps):
    """Whoever reads on from the last change ends with what the log says, whatever was graded or taken back."""
    log = emptied(shared)
    followed, through = {}, log.last_change()
    for place, (kind, response, source, right, minutes) in enumerate(steps):
        if kind == "record":
            log.record(an_outcome(right, source, "x", response, minutes))
        else:
            log.retract(source, until=NOON + timedelta(minutes=minutes), at=NOON + timedelta(minutes=60 + place))
        for change in log.changed_since(through):
            assert change.number > through
            through, outcome = change.number, log.effective(change.response_id)
            followed[change.response_id] = None if outcome is None else outcome.is_right
    for response in ("r1", "r2"):
        outcome = log.effective(response)
        assert followed.get(response) == (None if outcome is None else outcome.is_right)
    assert through == log.last_change()


async def test_async_retraction(log):
    await log.arecord_many([an_outcome(source=OutcomeSource.RULE)])
    assert await log.aretract("rule", because="wrong") == 1
    assert await log.aeffective("resp_1") is None
