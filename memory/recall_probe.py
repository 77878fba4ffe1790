"""Recall as a probe: how earlier calls like this one turned out, and whether this very question was graded before."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from ..core.call import CallKind
from ..core.decision import Stage
from ..core.evidence import Evidence, Need
from ..core.record import canonical_json
from ..core.signal import Signal
from .episode import Episode
from .episode_index import EpisodeIndex, Neighbour
from .recall import NEIGHBOURS, Recall, RecallEstimate
from .recall_key import Experience
from .repeats import SAME_QUESTION, Earlier, repeat_support

LOG_ODDS, MASS, REPEAT = "recall.log_odds", "recall.mass", "recall.repeat"
_MOST = 6.0
_GROWTH = 1.25


class RecallProbe:
    """Signals off the episode memory (XConf's Recall, arXiv 2609.17708), per tenant, task and model.

    - `recall.log_odds`: logit(p) − logit(base rate), so that 0 says "nothing learned from the like of it";
    - `recall.mass`: ln(1 + kernel mass), how much experience that rests on;
    - `recall.repeat`: what earlier grades of (nearly) the same question say about this answer; 0 where it is new.

    Only graded episodes speak, and only those graded before the call. The key is fitted on the bank, and again when
    the bank has grown by a quarter.

    Args:
        index: the episodes and their vectors.
        neighbours: k of recall.
        same_question: cosine from which two questions count as the same.
    """

    name = "recall"
    needs = frozenset({Need.TEXT})
    stage = Stage.AFTER
    cost_rank = 1
    always_measured = True
    """Measured before any head reads it: a head can be fitted on it only where it was logged."""

    def __init__(
        self, index: EpisodeIndex, *, neighbours: int = NEIGHBOURS, same_question: float = SAME_QUESTION
    ) -> None:
        self.index = index
        self.neighbours = neighbours
        self.same_question = same_question
        self._banks: dict[tuple[str, str, str], _Bank] = {}
        self._lock = threading.RLock()

    @property
    def signal_names(self) -> tuple[str, ...]:
        return LOG_ODDS, MASS, REPEAT

    def measure(self, evidence: Evidence) -> Sequence[Signal]:
        """Where the call's own confidence is not known yet, the nearest episodes count alike."""
        return self.measure_at(evidence, None)

    def measure_at(self, evidence: Evidence, confidence: float | None) -> Sequence[Signal]:
        """The signals, given what the call's own signals alone amount to.

        Args:
            confidence: in [0, 1], the kernel's place; None where it is not known.
        """
        if evidence.response is None:
            return [Signal.missing(name, "there is no response yet") for name in self.signal_names]
        question, answer = question_of(evidence), answer_of(evidence)
        if not question.strip():
            return [Signal.missing(name, "the call asks nothing") for name in self.signal_names]
        with self._lock:
            bank = self._bank(evidence)
            if not bank.episodes:
                return [Signal.missing(name, "no graded episodes yet") for name in self.signal_names]
            vector = self.index.embedder.embed([question])
            allowed = bank.graded_before(evidence.asked_at)
            if not allowed.any():
                return [Signal.missing(name, "no episode was graded before this call") for name in self.signal_names]
            query = Experience(
                vector,
                np.array([math.nan if confidence is None else confidence]),
                np.array([float(len(answer))]),
                np.zeros(1),
            )
            estimate = bank.recall.estimate(query, allowed=None if allowed.all() else allowed)
            support = repeat_support(answer, bank.similar(vector[0], allowed, self.same_question))
        return [
            Signal.of(LOG_ODDS, log_odds_of(estimate)),
            Signal.of(MASS, math.log1p(estimate.mass)),
            Signal.of(REPEAT, support),
        ]

    def recalled(self, evidence: Evidence, limit: int = 8) -> tuple[Neighbour, ...]:
        """The graded episodes nearest to the question, for people to look at."""
        call = evidence.call
        model = evidence.response.model if evidence.response is not None else None
        return self.index.search(question_of(evidence), tenant=call.tenant, task=call.task, model=model, limit=limit)

    def _bank(self, evidence: Evidence) -> _Bank:
        """The bank of this call, brought up to what is stored."""
        assert evidence.response is not None
        key = (evidence.call.tenant, evidence.call.task, evidence.response.model)
        bank = self._banks.get(key)
        if bank is None or not bank.is_current_so_far(self.index):
            bank = _Bank(*key, neighbours=self.neighbours)
        bank.read_on(self.index)
        self._banks[key] = bank
        return bank


class _Bank:
    """One tenant's, task's and model's graded episodes in memory, and what is fitted on them."""

    def __init__(self, tenant: str, task: str, model: str, *, neighbours: int) -> None:
        self.tenant, self.task, self.model = tenant, task, model
        self.episodes: list[Episode] = []
        self._neighbours = neighbours
        self._experience: Experience | None = None
        self._graded_at = np.empty(0)
        self._state = (0, 0, 0)
        self._fitted_on = 0
        self.recall = Recall(neighbours=neighbours)

    def is_current_so_far(self, index: EpisodeIndex) -> bool:
        """Is everything that was read still so? (Nothing was graded again or forgotten.)"""
        return self._state == index.store.state_of_bank(
            tenant=self.tenant, task=self.task, model=self.model, through=self._state[1]
        )

    def read_on(self, index: EpisodeIndex) -> None:
        """Take in what was added since."""
        fresh = index.store.list(
            tenant=self.tenant, task=self.task, model=self.model, graded_only=True, after_number=self._state[1]
        )
        if not fresh:
            return
        added = experience_of(fresh, index.vectors(fresh))
        self._experience = added if self._experience is None else self._experience.joined(added)
        self.episodes += fresh
        moments = [episode.graded_at.timestamp() if episode.graded_at else math.inf for episode in fresh]
        self._graded_at = np.r_[self._graded_at, moments]
        self._state = index.store.state_of_bank(
            tenant=self.tenant, task=self.task, model=self.model, through=fresh[-1].number
        )
        if len(self.episodes) >= _GROWTH * self._fitted_on:
            self.recall = Recall(neighbours=self._neighbours).fit(self._experience)
            self._fitted_on = len(self.episodes)
        else:
            self.recall.add(added)

    def graded_before(self, moment: datetime | None) -> NDArray[np.bool_]:
        """(n,) which were graded at or before the moment; all where it is not known."""
        if moment is None:
            return np.ones(len(self.episodes), dtype=np.bool_)
        return self._graded_at <= moment.timestamp()

    def similar(self, vector: NDArray[np.float32], allowed: NDArray[np.bool_], least: float) -> list[Earlier]:
        """Earlier answers to (nearly) the same question."""
        assert self._experience is not None
        similarity = self._experience.questions @ vector
        found = []
        for row in np.flatnonzero((similarity >= least) & allowed):
            episode = self.episodes[row]
            truth = episode.corrected_answer
            found.append(Earlier(float(similarity[row]), episode.answer, bool(episode.is_right), truth))
        return found


def experience_of(found: Sequence[Episode], vectors: NDArray[np.float32]) -> Experience:
    """Graded episodes as arrays. The stated confidence comes first, else the fused one of the time."""
    confidence = [one.stated_confidence if one.stated_confidence is not None else one.confidence for one in found]
    return Experience(
        vectors,
        np.array([math.nan if value is None else value for value in confidence], dtype=np.float64),
        np.array([float(len(one.answer)) for one in found]),
        np.array([float(bool(one.is_right)) for one in found]),
    )


def log_odds_of(estimate: RecallEstimate) -> float:
    """How far recall moves the base rate, in log-odds, within ±6."""
    moved = _logit(estimate.probability) - _logit(estimate.base_rate)
    return max(min(moved, _MOST), -_MOST)


def question_of(evidence: Evidence) -> str:
    """What is embedded: the question, or the tool call in its canonical form."""
    call = evidence.call
    if call.kind is CallKind.TOOL:
        return f"{call.tool_name} {canonical_json(call.arguments)}"
    return call.question


def answer_of(evidence: Evidence) -> str:
    """What is graded: the text, or the tool call."""
    assert evidence.response is not None
    return question_of(evidence) if evidence.call.kind is CallKind.TOOL else evidence.response.text


def _logit(probability: float) -> float:
    clipped = min(max(probability, 1e-4), 1.0 - 1e-4)
    return math.log(clipped) - math.log1p(-clipped)
