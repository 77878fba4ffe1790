"""The graded episodes of one tenant, task and model in memory, kept in step with SQL."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .episode import Episode
from .episode_index import EpisodeIndex
from .episode_store import NO_EPISODES
from .recall_key import Experience
from .recall_timeline import Timeline


class RecallBank:
    """Episodes in the order in which they were graded.

    Every `read_on` asks SQL whether anything changed, and reads only what did: an episode that was graded again, or
    forgotten, is not spoken of any more.
    """

    def __init__(self, tenant: str, task: str, model: str, *, neighbours: int) -> None:
        self.tenant, self.task, self.model = tenant, task, model
        self.timeline = Timeline(neighbours=neighbours)
        self._ids: NDArray[np.object_] = np.empty(0, dtype=object)
        self._numbers: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._state = NO_EPISODES
        self.lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.timeline)

    def read_on(self, index: EpisodeIndex) -> None:
        """Take in what changed."""
        store, through = index.store, self._state.highest
        # The state is asked for before the episodes: what changes between the two is seen the next time.
        state = store.state_of_bank(tenant=self.tenant, task=self.task, model=self.model)
        if state == self._state:
            return
        if store.state_of_bank(tenant=self.tenant, task=self.task, model=self.model, through=through) == self._state:
            stay = np.ones(len(self), dtype=np.bool_)
            listed = store.list(
                tenant=self.tenant, task=self.task, model=self.model, graded_only=True, after_number=through
            )
            fresh = [episode for episode in listed if (episode.number or 0) <= state.highest]
        else:
            stay, fresh = self._changes(index, state.highest)
        self._merge(stay, fresh, index.vectors(fresh))
        self._state = state

    def similar(self, vector: NDArray[np.float32], first: int, least: float) -> list[tuple[int, float]]:
        """Number and cosine of those among the first `first` episodes whose question is as near as `least`."""
        assert self.timeline.experience is not None
        similarity = self.timeline.experience.questions[:first] @ vector
        rows = np.flatnonzero(similarity >= least)
        return [(int(self._numbers[row]), float(similarity[row])) for row in rows]

    def _changes(self, index: EpisodeIndex, highest: int) -> tuple[NDArray[np.bool_], list[Episode]]:
        """Which of the episodes here are as they were, and those that are not here as they are."""
        listed = index.store.grades(tenant=self.tenant, task=self.task, model=self.model)
        grades = {id: marks for id, marks in listed.items() if marks[0] <= highest}
        correct = self.timeline.experience.correct if self.timeline.experience is not None else np.empty(0)
        here = zip(self._ids.tolist(), self._numbers.tolist(), (correct == 1.0).tolist(), strict=True)
        stay = np.array([grades.get(id) == (number, right) for id, number, right in here], dtype=np.bool_)
        kept = set(self._ids[stay].tolist())
        found = index.store.fetch([number for id, (number, _) in grades.items() if id not in kept])
        # A number may have been given to another episode since.
        return stay, [episode for id, episode in found.items() if id in grades and self._is_mine(episode)]

    def _is_mine(self, episode: Episode) -> bool:
        place = (episode.tenant, episode.task, episode.model)
        return place == (self.tenant, self.task, self.model) and episode.is_right is not None

    def _merge(self, stay: NDArray[np.bool_], fresh: Sequence[Episode], vectors: NDArray[np.float32]) -> None:
        added = experience_of(fresh, vectors)
        known = self.timeline.experience
        # Nothing is copied but once: the vectors are the bulk of it.
        old = None if known is None else (known if stay.all() else known.take(stay))
        moments = np.r_[self.timeline.graded_at[stay], [_moment(episode) for episode in fresh]]
        ids = np.r_[self._ids[stay], np.array([episode.id for episode in fresh], dtype=object)]
        numbers = np.r_[self._numbers[stay], np.array([episode.number for episode in fresh], dtype=np.int64)]
        order = np.lexsort((numbers, moments))
        in_order = bool((order == np.arange(order.size)).all())
        whole = added if old is None else old.joined(added)
        gone = int(np.argmin(stay)) if not stay.all() else stay.size
        moved = order.size if in_order else int(np.argmax(order != np.arange(order.size)))
        self._ids, self._numbers = ids[order], numbers[order]
        self.timeline.put(whole if in_order else whole.take(order), moments[order], same=min(gone, moved, stay.size))


def experience_of(found: Sequence[Episode], vectors: NDArray[np.float32]) -> Experience:
    """Graded episodes as arrays. The stated confidence comes first, else the fused one of the time."""
    confidence = [one.stated_confidence if one.stated_confidence is not None else one.confidence for one in found]
    return Experience(
        vectors,
        np.array([math.nan if value is None else value for value in confidence], dtype=np.float64),
        np.array([float(len(one.answer)) for one in found]),
        np.array([float(bool(one.is_right)) for one in found]),
    )


def _moment(episode: Episode) -> float:
    return episode.graded_at.timestamp() if episode.graded_at is not None else math.inf
