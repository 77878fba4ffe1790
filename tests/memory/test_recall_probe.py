"""RecallProbe: signs, time, tenants, and a bank that follows whatever happens in SQL."""

from __future__ import annotations

import math
import threading
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from demur import BadInput, Call
from demur.core.call import CallKind
from demur.core.database import Database
from demur.core.evidence import Evidence
from demur.core.protocols import Probe
from demur.core.response import Response
from demur.integrations.retrieval.embedders import HashingEmbedder
from demur.memory.episode import Episode
from demur.memory.episode_index import EpisodeIndex
from demur.memory.episode_store import EpisodeStore
from demur.memory.recall_probe import RecallProbe, question_of

NOON = datetime(2026, 2, 1, 12, tzinfo=UTC)


def probe_of(store, **options):
    return RecallProbe(EpisodeIndex(store, HashingEmbedder(64), None, progress=False), **options)


def asking(question, answer="yes", *, asked_at=None, tenant="default", task="default", model="gemma"):
    call = Call.ask(question, tenant=tenant, task=task)
    return Evidence(call, Response(text=answer, model=model), asked_at=asked_at)


def values(signals):
    return [signal.value for signal in signals]


def why_missing(signals):
    reasons = {signal.score.reason for signal in signals if not signal.available}
    assert len(signals) == 3 and all(not signal.available for signal in signals)
    return reasons.pop()


def two_kinds(count, **fields):
    """Rivers are answered right, kings wrong; the first of them at noon, then one a minute."""
    kinds = ["how long is the river", "who was the king of"]
    return [
        Episode(
            id=f"{fields.get('tenant', 'default')}-{n}", model="gemma", question=f"{kinds[n % 2]} number{n}",
            answer=f"answer{n}", confidence=0.2 + 0.06 * (n % 10), is_right=n % 2 == 0,
            graded_at=NOON + timedelta(minutes=n), created_at=NOON, **fields,
        )
        for n in range(count)
    ]  # fmt: skip


def test_it_is_a_probe_with_three_signals(store):
    probe = probe_of(store)
    assert isinstance(probe, Probe)
    store.add_many(two_kinds(60))
    assert tuple(signal.name for signal in probe.measure(asking("?"))) == probe.signal_names
    assert probe.signal_names == ("recall.log_odds", "recall.mass", "recall.repeat")


def test_it_says_why_it_says_nothing(store, make_episode):
    probe = probe_of(store)
    assert why_missing(probe.measure(asking("Who?"))) == "no graded episodes yet"
    store.add(make_episode())  # not graded
    assert why_missing(probe.measure(asking("Who?"))) == "no graded episodes yet"
    store.add_many(two_kinds(3))
    assert why_missing(probe.measure(asking("Who?", asked_at=NOON - timedelta(1)))) == (
        "no episode was graded before this call"
    )
    assert why_missing(probe.measure(asking("  "))) == "the call asks nothing"
    assert why_missing(probe.measure(Evidence(Call.ask("Who?")))) == "there is no response yet"


@pytest.mark.parametrize("confidence", [-0.01, 1.01, math.nan])
def test_a_confidence_that_is_none_is_refused(store, confidence):
    store.add_many(two_kinds(3))
    with pytest.raises(BadInput, match="must lie in"):
        probe_of(store).measure_at(asking("Who?"), confidence)


def test_experience_with_the_like_of_it_points_the_right_way(store):
    store.add_many(two_kinds(200))
    probe = probe_of(store)
    river, river_mass, _ = values(probe.measure(asking("how long is the river Rhine")))
    king, king_mass, _ = values(probe.measure(asking("who was the king of Spain")))
    assert river > 1.0 and king < -1.0
    assert river_mass == king_mass == pytest.approx(math.log1p(50))  # no confidence known: all alike


def test_a_cold_start_has_no_mass_and_moves_nothing(store):
    store.add_many(two_kinds(49))
    probe = probe_of(store)
    assert values(probe.measure(asking("how long is the river Rhine"))) == [0.0, 0.0, 0.0]
    store.add_many(two_kinds(50)[49:])
    assert values(probe.measure(asking("how long is the river Rhine")))[1] > 0.0


def test_far_from_every_known_confidence_there_is_little_mass(store):
    store.add_many(two_kinds(200))
    probe, question = probe_of(store), asking("how long is the river Rhine")
    near, far = (values(probe.measure_at(question, confidence)) for confidence in (0.4, 0.99))
    assert near[1] > 2.0 and far[1] < 0.7
    assert near[0] > far[0] > 0.0
    assert values(probe.measure(question)) == values(probe.measure_at(question, None))


@pytest.mark.parametrize("other", [{"tenant": "other"}, {"task": "other"}, {"model": "qwen"}])
def test_nobody_elses_experience_speaks(store, other):
    mine = {"tenant": "default", "task": "default", "model": "gemma"} | other
    store.add_many(two_kinds(80))
    probe = probe_of(store)
    before = values(probe.measure(asking("who was the king of Spain")))
    assert why_missing(probe.measure(asking("who was the king of Spain", **mine))) == "no graded episodes yet"
    assert probe.recalled(asking("who was the king of Spain", **mine)) == ()
    theirs = [
        episode.model_copy(update={**mine, "id": f"theirs{n}", "is_right": True})
        for n, episode in enumerate(two_kinds(80))
    ]
    store.add_many(theirs)
    assert values(probe.measure(asking("who was the king of Spain"))) == before
    assert all(one.episode.id.startswith("default-") for one in probe.recalled(asking("who was the king of Spain")))


@pytest.mark.parametrize(("model", "filed"), [("", "unknown"), ("m" * 300, "m" * 200)])
def test_a_model_is_found_under_the_name_that_its_episodes_have(store, make_episode, model, filed):
    store.add(make_episode("how deep is lake Baikal", answer="1642 m", model=filed, is_right=True))
    assert values(probe_of(store).measure(asking("how deep is lake Baikal", "1642 m", model=model)))[2] > 1.0


def test_what_was_graded_after_the_call_does_not_speak_nor_shape_the_key(database, store, clock):
    """A replay says what was said at the time, however the later ones turned out."""
    early, late = two_kinds(130)[:90], two_kinds(130)[90:]
    moment = NOON + timedelta(minutes=89)
    store.add_many(early)
    then = values(probe_of(store).measure_at(asking("how long is the river Rhine"), 0.5))
    store.add_many(episode.model_copy(update={"is_right": not episode.is_right}) for episode in late)
    again = probe_of(store)
    assert values(again.measure_at(asking("how long is the river Rhine", asked_at=moment), 0.5)) == then
    assert values(again.measure_at(asking("how long is the river Rhine"), 0.5)) != then
    assert {one.episode.id for one in again.recalled(asking("who was the king of", asked_at=moment), limit=200)} == {
        episode.id for episode in early
    }


def test_a_process_that_ran_for_long_says_what_a_fresh_one_says(store):
    probe = probe_of(store)
    question = asking("who was the king of Spain")
    for episode in two_kinds(120):
        store.add(episode)
        probe.measure(question)
    assert values(probe.measure(question)) == values(probe_of(store).measure(question))


def test_the_same_question_again(store, make_episode):
    probe = probe_of(store)
    store.add(make_episode("how deep is lake Baikal", id="deep", answer="1642 m", is_right=True))
    assert values(probe.measure(asking("how deep is lake Baikal", "1642 m.")))[2] == pytest.approx(2.0)
    assert values(probe.measure(asking("how deep is lake Baikal", "1632 m")))[2] == pytest.approx(-1.0)
    assert values(probe.measure(asking("who was the king of Spain", "1642 m")))[2] == 0.0
    store.grade(False, id="deep")
    assert values(probe.measure(asking("how deep is lake Baikal", "1642 m")))[2] == pytest.approx(-2.0)
    assert values(probe.measure(asking("how deep is lake Baikal", "1632 m")))[2] == 0.0


def test_a_correction_that_was_corrected_is_heard_at_once(store, make_episode):
    wrong = make_episode("how deep is lake Baikal", answer="3 m", is_right=False, graded_at=NOON)
    probe = probe_of(store)
    for truth in ("1642 m", "1643 m"):
        with store.database.transaction() as connection:
            store.put_graded(wrong.model_copy(update={"corrected_answer": truth}), connection)
        assert values(probe.measure(asking("how deep is lake Baikal", truth)))[2] == pytest.approx(2.0)
    assert values(probe.measure(asking("how deep is lake Baikal", "1642 m")))[2] == pytest.approx(-1.0)


def test_of_tool_calls_only_the_very_same_one_speaks(store, make_episode):
    """A call is its own answer: refunds that were paid are nothing against the next one, and 1.5 is not 15."""

    def refund(amount):
        arguments = {"amount": amount, "order": "a long name of an order that is alike everywhere"}
        call = Call(kind=CallKind.TOOL, tool_name="refund", arguments=arguments)
        return Evidence(call, Response(text="", model="gemma"))

    def episode(amount, right):
        proposed = question_of(refund(amount))
        return make_episode(proposed, answer=proposed, is_right=right, tool_name="refund")

    probe = probe_of(store)
    store.add_many([episode(1.5, True), episode(20, True), episode(30, False)])
    assert values(probe.measure(refund(1.5)))[2] == pytest.approx(2.0)
    assert values(probe.measure(refund(15)))[2] == 0.0
    assert values(probe.measure(refund(30)))[2] == pytest.approx(-2.0)


def test_an_episode_that_took_a_deleted_ones_number_is_another_one(store, make_episode):
    probe, question = probe_of(store), asking("how deep is lake Baikal", "3 m")
    store.add_many(two_kinds(5))
    store.add(make_episode("how deep is lake Baikal", id="old", answer="3 m", is_right=True, graded_at=NOON))
    assert values(probe.measure(question))[2] == pytest.approx(2.0)
    number = store.get("old").number
    store.delete(tenant="default", id="old")
    store.add(make_episode("why is the sky blue", id="new", answer="so", is_right=True, graded_at=NOON))
    assert store.get("new").number == number  # SQLite does so
    assert values(probe.measure(question))[2] == 0.0
    assert values(probe.measure(asking("why is the sky blue", "so")))[2] == pytest.approx(2.0)


def test_recalled_episodes_are_the_nearest_first(store):
    store.add_many(two_kinds(60))
    found = probe_of(store).recalled(asking("how long is the river number4"), limit=3)
    assert found[0].episode.id == "default-4" and found[0].similarity == pytest.approx(1.0, abs=1e-6)
    assert len(found) == 3 and found[0].similarity >= found[1].similarity >= found[2].similarity
    assert all("river" in one.episode.question for one in found)
    assert probe_of(store).recalled(Evidence(Call.ask("?"))) == ()


def test_threads_share_a_probe_while_episodes_arrive(store):
    probe, problems = probe_of(store), []
    episodes = two_kinds(160)
    store.add_many(episodes[:60])

    def add():
        for start in range(60, 160, 5):
            store.add_many(episodes[start : start + 5])

    def ask():
        for _ in range(15):
            probe.measure_at(asking("who was the king of Spain"), 0.5)

    def work(job):
        try:
            job()
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(job,)) for job in (add, ask, ask, ask)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    question = asking("who was the king of Spain")
    assert values(probe.measure(question)) == values(probe_of(store).measure(question))


def test_an_embedder_is_not_asked_while_the_bank_is_held(store):
    """Or all calls of a tenant would wait for one another's model."""
    store.add_many(two_kinds(3))
    probe = probe_of(store)
    question, held = asking("Who?"), []
    probe.measure(question)
    plain = probe.index.embedder.embed

    def embed(texts):
        held.append([bank.lock.locked() for bank in probe._banks.values()])
        return plain(texts)

    probe.index.embedder.embed = embed
    probe.measure(question)
    assert held == [[False]]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 9), st.sampled_from([None, True, False])),
        st.tuples(st.just("grade"), st.integers(0, 9), st.booleans()),
        st.tuples(st.just("delete"), st.integers(0, 9), st.none()),
        st.tuples(st.just("ask"), st.integers(0, 9), st.none()),
    ),
    max_size=25,
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS, st.randoms(use_true_random=False))
def test_a_bank_follows_whatever_happens(steps, random):
    """After any history a probe that saw it all says exactly what a fresh one says."""
    database = Database(":memory:")
    store = EpisodeStore(database)
    probe = probe_of(store, neighbours=3)
    for step, which, grade in steps:
        id = f"e{which}"
        if step == "add" and store.get(id) is None:
            store.add(
                Episode(
                    id=id, model="gemma", question=f"question {which % 3} {which}", answer="yes", is_right=grade,
                    confidence=which / 10, created_at=NOON,
                    graded_at=None if grade is None else NOON + timedelta(minutes=random.randrange(9)),
                )
            )  # fmt: skip
        elif step == "grade":
            store.grade(grade, id=id)
        elif step == "delete":
            store.delete(tenant="default", id=id)
        else:
            probe.measure(asking(f"question {which}"))
    for question in ("question 1", "question 2 5"):
        mine, fresh = (
            values(each.measure_at(asking(question), 0.5)) for each in (probe, probe_of(store, neighbours=3))
        )
        assert mine == fresh
    database.close()


def test_the_order_in_which_episodes_were_stored_does_not_matter(tmp_path):
    found = []
    for order in (np.arange(120), np.random.default_rng(0).permutation(120)):
        database = Database(tmp_path / f"{order[0]}-{len(found)}.sqlite")
        store = EpisodeStore(database)
        episodes = two_kinds(120)
        store.add_many([episodes[place] for place in order])
        found.append(values(probe_of(store).measure_at(asking("who was the king of Spain"), 0.5)))
        database.close()
    assert found[0] == pytest.approx(found[1], rel=1e-9)
