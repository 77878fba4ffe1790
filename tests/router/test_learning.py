"""What turned out right and wrong makes the next decision better, and survives whatever dies."""

from __future__ import annotations

import math
import random
import threading

import numpy as np
import pytest

from demur import BadInput, Call
from demur.core.decision import Route, Stage
from demur.core.outcome import Outcome, OutcomeSource
from demur.core.run import RunState
from demur.core.signal import Signal, Unavailable
from demur.memory.episode_index import EpisodeIndex
from demur.memory.episode_store import EpisodeStore
from demur.probes.calibration.online import OnlineCalibration
from demur.probes.fit_head import fit_head
from demur.probes.signal_table import SignalTable
from demur.router.learning.online_store import OnlineStore
from demur.router.learning.relearn import ARTEFACT_SCORE, logged_rows
from demur.testing import Reviewer

SURE = -0.02


class Words:
    """An embedder of bags of words, so that tests need no model."""

    name, width = "words", 64

    def embed(self, texts):
        import numpy as np

        rows = np.zeros((len(texts), self.width), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[0] = 0.1
            for word in text.lower().split():
                row[1 + sum(map(ord, word)) % 63] += 1.0
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def ask_many(router, count, rate, seed=0, grade=True, **fields):
    """Calls of one sureness, of which a share of `rate` turns out right."""
    draw = random.Random(seed)
    results = []
    for number in range(count):
        result = router.run(Call.ask(f"question {seed}-{number}", **fields))
        results.append(result)
        if grade:
            router.record_outcome(result.response_id, draw.random() < rate, source="test", source_name="unit")
    return results


def state_of(router):
    return {key: state.to_dict() for key, state in router.learning.online.states()}


def test_an_overconfident_head_is_brought_down(make_router, scripted):
    router = make_router(scripted(), settings={"learning": {"refit_growth": 0.0}})
    first = router.run(Call.ask("first?"))
    assert (first.route, first.confidence.fused) == (Route.ANSWER, None)
    ask_many(router, 120, 0.2)
    later = router.run(Call.ask("later?"))
    assert first.confidence.value > 0.9
    assert later.confidence.fused == pytest.approx(first.confidence.value)
    assert later.confidence.value < 0.65
    assert later.confidence.interval.low <= later.confidence.value <= later.confidence.interval.high
    assert later.route is not Route.ANSWER
    shift = next(part for part in later.confidence.contributions if part.signal == "online calibration")
    logit = [math.log(p / (1 - p)) for p in (later.confidence.value, later.confidence.fused)]
    assert shift.log_odds == pytest.approx(logit[0] - logit[1])


def test_it_waits_for_enough_outcomes(make_router, scripted):
    router = make_router(scripted(), settings={"learning": {"min_outcomes": 30, "refit_growth": 0.0}})
    ask_many(router, 29, 0.0)
    assert router.run(Call.ask("?")).confidence.fused is None
    ask_many(router, 1, 0.0, seed=1)
    assert router.run(Call.ask("?")).confidence.fused is not None


def test_it_can_be_switched_off(make_router, scripted):
    router = make_router(scripted(), settings={"learning": {"online": False, "refit_growth": 0.0}})
    ask_many(router, 40, 0.0)
    assert router.run(Call.ask("?")).confidence.fused is None


def test_it_survives_a_restart_and_is_shared(make_router, scripted):
    router = make_router(scripted(), settings={"learning": {"refit_growth": 0.0}})
    ask_many(router, 40, 0.2)
    again = make_router(scripted(), settings={"learning": {"refit_growth": 0.0}})
    assert again.run(Call.ask("?")).confidence.value == pytest.approx(router.run(Call.ask("?")).confidence.value)
    ask_many(again, 5, 0.0, seed=7)
    assert router.run(Call.ask("?")).confidence.value == again.run(Call.ask("?")).confidence.value
    assert state_of(router) == state_of(again)


def test_tasks_tenants_and_kinds_of_turn_learn_on_their_own(make_router, scripted):
    replies = [("Paris", SURE)] * 30 + [("I don't know.", SURE)] * 30 + [("Paris", SURE)] * 9
    router = make_router(scripted(replies), settings={"learning": {"refit_growth": 0.0}})
    said = ask_many(router, 30, 1.0)[0].confidence.value
    ask_many(router, 30, 0.0, seed=1)
    learned = {key.turn.value: state for key, state in router.learning.online.states()}
    assert {turn: state.count for turn, state in learned.items()} == {"answer": 30, "refusal": 30}
    assert learned["answer"].predict(said) > 0.9 > 0.85 > learned["refusal"].predict(said)
    elsewhere = router.run(Call.ask("?", tenant="other"))
    assert elsewhere.confidence.fused is None
    assert router.run(Call.ask("?")).confidence.fused is not None


@pytest.mark.parametrize("how", ["regraded", "retracted", "overruled"])
def test_what_a_grade_taught_is_taken_back_with_it(make_router, scripted, tmp_path, how):
    settings = {"learning": {"refit_growth": 0.0}}
    router = make_router(scripted(), settings=settings)
    results = ask_many(router, 30, 0.5, grade=False)
    for number, result in enumerate(results):
        bad = number == 7
        router.record_outcome(
            result.response_id, (number % 3 > 0) != bad, source="rule" if bad else "test", source_name="a"
        )
    if how == "retracted":
        assert router.retract_outcomes("rule", because="it was wrong") == 1
        kept = [one for number, one in enumerate(results) if number != 7]
    else:
        router.record_outcome(
            results[7].response_id, True, source="rule" if how == "regraded" else "human", source_name="a"
        )
        kept = [*results[:7], *results[8:], results[7]]
    # The same outcomes, told to a router that never heard the wrong one.
    fresh = OnlineStore(router.database, router.clock)
    ((_, state),) = router.learning.online.states()
    told = state.__class__()
    for one in kept:
        number = results.index(one)
        told.update(one.confidence.value, True if number == 7 else number % 3 > 0, weight=50.0)
    assert state.to_dict() == told.to_dict()
    assert fresh.catch_up() == 0


def test_grades_are_idempotent_late_and_contradictory(make_router, scripted):
    router = make_router(scripted(), settings={"learning": {"refit_growth": 0.0}})
    (result,) = ask_many(router, 1, 0.0, grade=False)
    log = router.queue.outcomes
    before = log.last_change()
    first = router.record_outcome(result.response_id, True, source_name="ada")
    assert router.record_outcome(result.response_id, True, source_name="ada") == first
    assert log.last_change() == before + 1
    router.record_outcome(result.response_id, False, source="judge", source_name="another model")
    assert log.effective(result.response_id).is_right is True
    router.record_outcome(result.response_id, score=0.2, cut=0.5, source_name="bob")
    assert log.effective(result.response_id).is_right in (True, False)
    assert len(log.of(result.response_id)) == 3
    assert log.counts().total == 1
    assert log.effective(result.response_id).label_propensity == 0.02


@pytest.mark.parametrize(
    ("response", "details", "said"),
    [
        ("resp_typo", {"correct": True}, "no response 'resp_typo'"),
        (None, {}, "correct=True/False or score"),
        (None, {"score": 0.5}, "named cut"),
        (None, {"correct": True, "source": "self"}, "own verdict"),
        (None, {"correct": True, "source": "oracle"}, "human, test, rule, judge"),
        (None, {"correct": True, "source": "judge", "source_name": "Scripted"}, "own verdict never counts"),
        (None, {"correct": True, "label_propensity": 1.5}, "label_propensity"),
    ],
)
def test_what_is_no_grade_is_refused_and_nothing_is_stored(make_router, scripted, response, details, said):
    router = make_router(scripted())
    (result,) = ask_many(router, 1, 0.0, grade=False)
    with pytest.raises(BadInput, match=said):
        router.record_outcome(response or result.response_id, details.pop("correct", None), **details)
    assert router.queue.outcomes.counts().total == 0


def test_outcomes_write_episodes_once(make_router, scripted):
    router = make_router(scripted(), settings={"learning": {"refit_growth": 0.0}})
    (result,) = ask_many(router, 1, 0.0, grade=False)
    store = EpisodeStore(router.database)
    assert store.count(tenant=None) == 0
    for _ in range(3):
        router.record_outcome(result.response_id, False, corrected_answer="Rome", source_name="ada")
    (episode,) = store.list(tenant="default")
    assert (episode.question, episode.answer, episode.is_right) == ("question 0-0", "Paris", False)
    assert (episode.corrected_answer, episode.model, episode.task) == ("Rome", "scripted", "default")
    assert episode.confidence == pytest.approx(result.confidence.value)
    router.clock.advance(60)
    router.record_outcome(result.response_id, True, source_name="bob")
    (episode,) = store.list(tenant="default")
    assert episode.is_right is True
    router.retract_outcomes("human", source_name="bob")
    assert store.list(tenant="default")[0].is_right is False
    router.retract_outcomes("human")
    assert store.count(tenant=None) == 0


def test_a_resolution_becomes_an_outcome_and_an_episode(make_router, scripted):
    router = make_router(scripted([("Paris", -1.5)]), settings={"learning": {"refit_growth": 0.0}})
    result = router.run(Call.ask("What is the capital of Italy?"))
    assert result.state is RunState.WAITING
    Reviewer(router, "ada").edit(answer="Rome")
    router.learning.catch_up()
    (episode,) = EpisodeStore(router.database).list(tenant="default")
    assert (episode.is_right, episode.answer, episode.corrected_answer) == (False, "Paris", "Rome")
    assert router.log.get(result.run_id).result.value == "Rome"


def test_a_head_is_learned_from_the_log_alone(make_router, scripted):
    """The first day: no artefact, every answer delivered and graded. Then there is a confidence."""
    draw = random.Random(5)
    replies = [(f"answer {number}", -draw.random() * 3) for number in range(240)]
    router = make_router(scripted(replies), mode="shadow", artefact=None, settings={"learning": {"refit_growth": 0.0}})
    for text, logprob in replies:
        result = router.run(Call.ask(f"question {text}"))
        assert result.confidence.is_prior
        router.record_outcome(result.response_id, draw.random() < 1 / (1 + math.exp(-4 * logprob - 5)), source="test")
    (found,) = router.learn()
    assert found.in_use
    assert found.report["brier"] < found.report["brier_before"] - 0.05
    sure, unsure = (
        make_router(scripted([("x", logprob)]), artefact=None).run(Call.ask("new?")) for logprob in (SURE, -2.5)
    )
    assert sure.confidence.value > 0.85 > 0.15 > unsure.confidence.value
    assert (sure.route, unsure.route is Route.ANSWER) == (Route.ANSWER, False)
    assert sure.confidence.calibrator.startswith("learned:")
    other = make_router(scripted([("x", SURE)], name="another model"), artefact=None).run(Call.ask("new?"))
    assert other.confidence.is_prior


def test_a_learned_head_no_better_than_the_artefact_is_kept_aside(make_router, scripted):
    router = make_router(scripted(), settings={"learning": {"refit_growth": 0.0}})
    draw = random.Random(1)
    for number in range(60):
        result = router.run(Call.ask(f"question {number}"))
        router.record_outcome(result.response_id, draw.random() < 0.97, source="test")
    found = router.learn()
    assert all(not each.in_use for each in found)
    assert not router.run(Call.ask("?")).confidence.calibrator.startswith("learned:")


def test_recall_is_logged_and_then_read(make_router, scripted):
    """Two kinds of question look alike to the model; memory tells them apart."""
    router = make_router(scripted(), mode="shadow", artefact=None, settings={"learning": {"refit_growth": 0.0}})
    index = EpisodeIndex(EpisodeStore(router.database), Words(), None)
    router = make_router(
        scripted(), mode="shadow", artefact=None, settings={"learning": {"refit_growth": 0.0}}, memory=index
    )
    draw = random.Random(2)
    for number in range(160):
        kind = draw.choice(["alpha beta gamma", "delta epsilon zeta"])
        result = router.run(Call.ask(f"{kind} {number}"))
        router.record_outcome(result.response_id, draw.random() < (0.95 if "alpha" in kind else 0.05), source="test")
    (found,) = router.learn()
    assert found.in_use
    good, bad = (router.run(Call.ask(f"{kind} new")) for kind in ("alpha beta gamma", "delta epsilon zeta"))
    assert good.confidence.value > 0.8 > 0.2 > bad.confidence.value
    run = router.log.get(good.run_id)
    names = {signal.name for signal in run.rounds[0].signals}
    assert {"recall.log_odds", "recall.mass", "recall.repeat"} <= names
    assert any(part.signal.startswith("recall.") for part in good.confidence.contributions)


def test_learning_goes_on_by_itself_in_the_background(make_router, scripted):
    draw = random.Random(5)
    replies = [(f"answer {number}", -draw.random() * 3) for number in range(80)]
    router = make_router(scripted(replies), mode="shadow", artefact=None)
    for text, logprob in replies:
        result = router.run(Call.ask(f"question {text}"))
        router.record_outcome(result.response_id, logprob > -1.2, source="test")
    for thread in threading.enumerate():  # the fit that is under way, if one is
        if thread.name == "demur-learning":
            thread.join(60)
    assert router.learning.heads.all()


def test_a_database_in_memory_learns_as_well(make_router, scripted):
    router = make_router(
        scripted([("sure", SURE), ("unsure", -2.0)] * 20), mode="shadow", artefact=None,
        settings={"learning": {"refit_growth": 0.0}}, database=":memory:",
    )  # fmt: skip
    for number in range(40):
        result = router.run(Call.ask(f"question {number}"))
        router.record_outcome(result.response_id, number % 2 == 0, source="test")
    assert len(router.learn()) == 1


@pytest.mark.parametrize("damage", ['{"online": {}}', "not JSON", '{"calibrator": 1}', '{"online": {"theta": "x"}}'])
def test_a_damaged_state_is_said_and_made_again_from_the_log(make_router, scripted, caplog, damage):
    from demur.core.database.tables import learned

    router = make_router(scripted(), settings={"learning": {"refit_growth": 0.0}})
    ask_many(router, 25, 0.5)
    whole = state_of(router)
    with router.database.transaction() as connection:
        connection.execute(learned.update().where(learned.c.name == "online").values(state=damage))
    again = make_router(scripted(), settings={"learning": {"refit_growth": 0.0}})
    result = again.run(Call.ask("?"))
    assert "made again from the log" in caplog.text
    assert result.confidence.fused is not None
    assert state_of(again) == whole


@pytest.mark.parametrize("damage", ["{}", "not JSON", '{"head": {}, "arrays": "%%%"}'])
def test_a_damaged_head_is_said_and_the_artefact_judges_until_it_is_fitted_again(make_router, scripted, caplog, damage):
    from demur.core.database.tables import learned
    from demur.router.learning.learned_head import scope_of

    router = make_router(scripted(), settings={"learning": {"refit_growth": 0.0}})
    with router.database.transaction() as connection:
        connection.execute(
            learned.insert().values(
                name="head",
                tenant="default",
                task="default",
                scope=scope_of("answer", "weights of scripted"),
                through=0,
                version=0,
                state=damage,
                updated_at=router.clock.now(),
            )
        )
    confidence = router.run(Call.ask("?")).confidence
    assert "run demur learn" in caplog.text
    assert not confidence.is_prior
    assert not confidence.calibrator.startswith("learned:")


def test_everything_but_heads_can_be_made_again(make_router, scripted):
    router = make_router(scripted(), settings={"learning": {"refit_growth": 0.0}})
    ask_many(router, 40, 0.4)
    router.record_outcome(router.run(Call.ask("one more")).response_id, False, corrected_answer="Rome")
    states, store = state_of(router), EpisodeStore(router.database)
    episodes = store.list(tenant=None)
    assert router.learning.rebuild() == 41
    assert state_of(router) == states
    assert store.list(tenant=None) == episodes
    assert router.learning.catch_up() == 0


def test_a_state_read_while_another_process_learns_is_not_kept(make_router, scripted):
    """An outcome is stored first and learned a moment later; what is read in between is not the state after it."""
    settings = {"learning": {"refit_growth": 0.0}}
    reader, writer = make_router(scripted(), settings=settings), make_router(scripted(), settings=settings)
    ask_many(writer, 30, 0.5)
    ((key, _),) = reader.learning.online.states()
    unlearned = writer.run(Call.ask("late"))
    writer.queue.outcomes.record(
        Outcome(
            response_id=unlearned.response_id, correct=False, source=OutcomeSource.TEST, graded_at=writer.clock.now()
        )
    )
    assert reader.learning.online.state(key).count == 30  # between the two
    writer.learning.catch_up()
    assert reader.learning.catch_up() == 0
    assert reader.learning.online.state(key).count == 31


def test_labels_from_the_queue_alone_make_the_first_head(make_router, scripted):
    """Nobody calls record_outcome: what people said of answers drawn for grading is noticed by the next call."""
    draw = random.Random(5)
    replies = [(f"answer {number}", -draw.random() * 3) for number in range(44)]
    settings = {"policy": {"label_rate": 1.0}}
    router = make_router(scripted(replies), mode="shadow", artefact=None, settings=settings)
    for text, logprob in replies:
        router.run(Call.ask(f"question {text}"))
        Reviewer(router, "ada").approve() if logprob > -1.2 else Reviewer(router, "ada").reject()
    for question in ("the next call notices", "where a thread was at work, the one after it"):
        router.run(Call.ask(question))
        for thread in threading.enumerate():
            if thread.name == "demur-learning":
                thread.join(60)
    (found,) = router.learning.heads.all()
    assert found.in_use
    assert router.run(Call.ask("?")).confidence.calibrator.startswith("learned:")


async def test_sync_and_async_learn_alike(make_router, scripted, tmp_path):
    settings = {"learning": {"refit_growth": 0.0}}
    one = make_router(scripted(), settings=settings, database=tmp_path / "sync.db")
    other = make_router(scripted(), settings=settings, database=tmp_path / "async.db")
    for number in range(25):
        right = number % 4 > 0
        one.record_outcome(one.run(Call.ask(f"q{number}")).response_id, right, source="test")
        result = await other.arun(Call.ask(f"q{number}"))
        await other.arecord_outcome(result.response_id, right, source="test")
    assert state_of(one) == state_of(other)
    assert one.run(Call.ask("?")).confidence == (await other.arun(Call.ask("?"))).confidence
    assert await other.alearn() == one.learn()


def test_a_parallel_crowd_of_graders_teaches_each_outcome_once(make_router, scripted):
    from concurrent.futures import ThreadPoolExecutor

    settings = {"learning": {"refit_growth": 0.0}}
    routers = [make_router(scripted(), settings=settings) for _ in range(3)]
    results = ask_many(routers[0], 60, 0.5, grade=False)

    def grade(number):
        routers[number % 3].record_outcome(results[number].response_id, number % 3 > 0, source="test")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(grade, range(60)))
    ((_, state),) = routers[0].learning.online.states()
    assert state.count == 60
    assert len({str(state_of(router)) for router in routers}) == 1
    told = OnlineCalibration()
    log = routers[0].queue.outcomes
    in_force = log.effective_many([result.response_id for result in results])
    said = {result.response_id: result.confidence.value for result in results}
    for id, (_, outcome) in sorted(in_force.items(), key=lambda item: item[1][0]):
        told.update(said[id], outcome.is_right, weight=50.0)
    assert state.to_dict() == told.to_dict()
    assert EpisodeStore(routers[0].database).count(tenant=None) == 60


def test_what_another_artefact_said_is_another_signal(make_router, scripted):
    """After an artefact is replaced, the old one's scores are missing; the calls' own signals still count."""
    router = make_router(scripted([("x", -0.05), ("x", -2.0)]), settings={"learning": {"refit_growth": 0.0}})
    ask_many(router, 2, 1.0)
    place = ("default", "default", "answer", "weights of scripted")
    (mine,) = {artefact.id for artefact in router.artefacts.values()}
    for artefact_id, told in ((mine, True), ("another", False), (None, False)):
        table = logged_rows(router.database, *place, artefact_id).table
        assert (ARTEFACT_SCORE in table.names) == told
        assert "token.mean_logprob" in table.names


def test_a_head_fitted_while_its_outcomes_were_taken_back_is_not_kept(make_router, scripted):
    draw = random.Random(5)
    replies = [(f"answer {number}", -draw.random() * 3) for number in range(40)]
    settings = {"learning": {"refit_growth": 0.0}}
    router = make_router(scripted(replies), mode="shadow", artefact=None, settings=settings)
    for text, logprob in replies:
        result = router.run(Call.ask(f"question {text}"))
        router.record_outcome(result.response_id, logprob > -1.2, source="test")
    (found,) = router.learn()
    heads = router.learning.heads
    assert heads.put(found)  # the same again is no harm
    assert router.retract_outcomes("test") == 40
    assert not heads.put(found)  # as another process would, that was at it meanwhile
    assert not heads.all()
    assert router.run(Call.ask("?")).confidence.is_prior


def test_a_head_is_not_used_once_its_outcomes_were_taken_back_though_nobody_came_to_forget_it(make_router, scripted):
    """As if whoever took the grades back was killed right after."""
    draw = random.Random(5)
    replies = [(f"answer {number}", -draw.random() * 3) for number in range(60)]
    settings = {"learning": {"refit_growth": 0.0}}
    router = make_router(scripted(replies), mode="shadow", artefact=None, settings=settings)
    for number, (text, logprob) in enumerate(replies):
        result = router.run(Call.ask(f"question {text}"))
        name = "wrong grader" if number < 10 else "unit"
        router.record_outcome(result.response_id, logprob > -1.2, source="test", source_name=name)
    router.learn()
    other = make_router(scripted(), mode="shadow", artefact=None, settings=settings)
    assert not router.run(Call.ask("?")).confidence.is_prior
    assert not other.run(Call.ask("?")).confidence.is_prior
    assert other.queue.outcomes.retract("test", source_name="wrong grader", task="another task") == 0
    assert not router.run(Call.ask("?")).confidence.is_prior
    assert other.queue.outcomes.retract("test", source_name="wrong grader") == 10
    assert len(router.learning.heads.all()) == 1  # it is still there
    again = make_router(scripted(), mode="shadow", artefact=None, settings=settings)
    for each in (router, other, again):
        assert each.run(Call.ask("?")).confidence.is_prior
    (found,) = again.learn()
    assert found.head.labels == 50
    for each in (router, other, again):
        assert each.run(Call.ask("?")).confidence.calibrator == found.calibrator


def test_hidden_scores_are_logged_as_signals(head_of):
    """What the artefact's hidden-state probes said, so that a head learned from the log can read it."""
    from demur.router.assessor import scores_of

    draw = np.random.default_rng(0)
    states = draw.normal(size=(300, 6)).astype(np.float32)
    right = (states[:, 0] + 0.5 * draw.normal(size=300) > 0).astype(float)
    table = SignalTable(("token.mean_logprob",), draw.normal(size=(300, 1)), {"answer_last.12": states})
    head = fit_head(table, right, groups=None, arm="answer", stage=Stage.AFTER, replicas=10)
    judged = head.predict([Signal.of("token.mean_logprob", 0.1)], {"answer_last.12": states[0]})
    signals = {signal.name: signal.value for signal in scores_of(head, judged, {"answer_last.12": states[0]})}
    assert set(signals) == {"hidden.answer_last.12", "head.log_odds"}
    assert signals["head.log_odds"] == pytest.approx(math.log(judged.value / (1 - judged.value)))
    assert signals["hidden.answer_last.12"] == pytest.approx(head.probes["answer_last.12"].scores(states[:1])[0])
    missing = {signal.name: signal.value for signal in scores_of(head, Unavailable(reason="none"), {})}
    assert missing == {"hidden.answer_last.12": None, "head.log_odds": None}
