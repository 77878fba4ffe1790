"""Recall as a probe: how earlier calls like this one turned out, and whether this very question was graded before."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence

import numpy as np

from ..core.call import CallKind
from ..core.decision import Stage
from ..core.errors import BadInput
from ..core.evidence import Evidence, Need
from ..core.record import canonical_json
from ..core.signal import Signal
from .episode import Episode
from .episode_index import EpisodeIndex, Neighbour
from .recall import NEIGHBOURS, RecallEstimate
from .recall_bank import RecallBank
from .recall_key import Experience
from .repeats import SAME_QUESTION, Earlier, repeat_support

LOG_ODDS, MASS, REPEAT = "recall.log_odds", "recall.mass", "recall.repeat"
_MOST = 6.0


class RecallProbe:
    """Signals off the episode memory (XConf's Recall, arXiv 2609.17708), per tenant, task and model.

    - `recall.log_odds`: logit(p) − logit(base rate), so that 0 says "nothing learned from the like of it";
    - `recall.mass`: ln(1 + kernel mass), how much experience that rests on;
    - `recall.repeat`: what earlier grades of (nearly) the same question say about this answer; 0 where it is new.

    Only graded episodes speak, and only those graded before the call. The key is fitted on the bank, and again when
    the bank has grown by a quarter (`Timeline`).

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
        self._banks: dict[tuple[str, str, str], RecallBank] = {}
        self._lock = threading.Lock()

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

        Raises:
            BadInput: a confidence outside [0, 1].
        """
        if confidence is not None and not 0.0 <= confidence <= 1.0:
            raise BadInput(f"confidence={confidence} must lie in [0, 1], or be None where it is not known")
        if evidence.response is None:
            return self._missing("there is no response yet")
        question, answer = question_of(evidence), answer_of(evidence)
        if not question.strip():
            return self._missing("the call asks nothing")
        bank = self._bank(evidence)
        if not len(bank):
            return self._missing("no graded episodes yet")
        # Outside the lock: a model runs here, and other calls need not wait for it.
        vector = self.index.embedder.embed([question])
        with bank.lock:
            first = bank.timeline.known(_seconds(evidence))
            if first == 0:
                return self._missing("no episode was graded before this call")
            query = Experience(
                vector,
                np.array([math.nan if confidence is None else confidence]),
                np.array([float(len(answer))]),
                np.zeros(1),
            )
            estimate = bank.timeline.estimate(query, first=first)
            similar = bank.similar(vector[0], first, self.same_question)
        support = repeat_support(answer, self._earlier(evidence, question, similar), same_question=self.same_question)
        return [
            Signal.of(LOG_ODDS, log_odds_of(estimate)),
            Signal.of(MASS, math.log1p(estimate.mass)),
            Signal.of(REPEAT, support),
        ]

    def recalled(self, evidence: Evidence, limit: int = 8) -> tuple[Neighbour, ...]:
        """The episodes nearest to the question among those that speak, for people to look at."""
        question = question_of(evidence)
        if evidence.response is None or not question.strip():
            return ()
        vector = self.index.embedder.embed([question])[0]
        bank = self._bank(evidence)
        with bank.lock:
            first = bank.timeline.known(_seconds(evidence))
            near = bank.similar(vector, first, -math.inf) if first else []
        near = sorted(near, key=lambda pair: -pair[1])[:limit]
        found = self._fetched(evidence, near)
        return tuple(Neighbour(episode, similarity) for episode, similarity in found)

    def _missing(self, reason: str) -> Sequence[Signal]:
        return [Signal.missing(name, reason) for name in self.signal_names]

    def _bank(self, evidence: Evidence) -> RecallBank:
        """The bank of this call, brought up to what is stored."""
        key = _place(evidence)
        with self._lock:
            bank = self._banks.setdefault(key, RecallBank(*key, neighbours=self.neighbours))
        with bank.lock:
            bank.read_on(self.index)
        return bank

    def _earlier(self, evidence: Evidence, question: str, similar: list[tuple[int, float]]) -> Iterator[Earlier]:
        """Earlier answers to (nearly) the same question, as they are graded now.

        Of tool calls only the very same one: a call is its own answer, so every similar call would "differ".
        """
        for episode, similarity in self._fetched(evidence, similar):
            if evidence.call.kind is CallKind.TOOL and episode.question != question:
                continue
            yield Earlier(similarity, episode.answer, bool(episode.is_right), episode.corrected_answer)

    def _fetched(self, evidence: Evidence, near: list[tuple[int, float]]) -> list[tuple[Episode, float]]:
        """These episodes, as far as they are there still."""
        place = _place(evidence)
        if not near:
            return []
        found = {one.number: one for one in self.index.store.fetch([number for number, _ in near]).values()}
        pairs = [(found[number], similarity) for number, similarity in near if number in found]
        # An episode that was deleted in between may have left its number to a stranger.
        return [
            (one, similarity)
            for one, similarity in pairs
            if (one.tenant, one.task, one.model) == place and one.is_right is not None
        ]


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


def _place(evidence: Evidence) -> tuple[str, str, str]:
    """Tenant, task and model of the call, the model as episodes are filed under it."""
    assert evidence.response is not None
    return evidence.call.tenant, evidence.call.task, evidence.response.model[:200] or "unknown"


def _seconds(evidence: Evidence) -> float | None:
    return None if evidence.asked_at is None else evidence.asked_at.timestamp()


def _logit(probability: float) -> float:
    clipped = min(max(probability, 1e-4), 1.0 - 1e-4)
    return math.log(clipped) - math.log1p(-clipped)
