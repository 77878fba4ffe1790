"""A bank in the order in which it was graded: what was known at a moment, and nothing that came later."""

from __future__ import annotations

import math
from collections import OrderedDict

import numpy as np

from ..core.errors import BadInput
from .recall import NEIGHBOURS, Recall, RecallEstimate, nothing_alike
from .recall_key import Experience, Floats

GROWTH = 1.25
_KEPT = 3


def checkpoint(count: int) -> int:
    """The largest of 1, 2, 3, 4, 5, 7, 9, 12, … (each a quarter more, rounded up) that is at most `count` (≥ 1)."""
    if count < 1:
        raise BadInput(f"checkpoint of {count} episodes; at least 1 is needed")
    step = 1
    while (further := math.ceil(GROWTH * step)) <= count:
        step = further
    return step


class Timeline:
    """Recalls from the first so many episodes of a bank.

    Key and κ are fitted on the first `checkpoint(n)` of the n episodes that may speak, the base rate on all n: never
    on what was graded later. So a process that was just started, one that has run for weeks and a replay say the same
    of the same call, and a bank that grows is fitted again each time it has grown by a quarter.

    Args:
        neighbours: k of recall.
    """

    def __init__(self, *, neighbours: int = NEIGHBOURS) -> None:
        self.neighbours = neighbours
        self.experience: Experience | None = None
        self.graded_at: Floats = np.empty(0)
        self._fits: OrderedDict[int, Recall] = OrderedDict()

    def __len__(self) -> int:
        return self.graded_at.size

    def put(self, experience: Experience, graded_at: Floats, *, same: int = 0) -> None:
        """Take these episodes in place of those that are there.

        Args:
            graded_at: (n,) seconds, ascending; infinite where it is not known.
            same: so many at the beginning are what they were before; what was fitted on them alone is kept.

        Raises:
            BadInput: lengths differ, or the moments do not ascend.
        """
        if graded_at.shape != (len(experience),):
            raise BadInput(f"{len(experience)} episodes came with graded_at of shape {graded_at.shape}")
        # Compared, not subtracted: infinite moments have no difference.
        if not (graded_at[:-1] <= graded_at[1:]).all():
            raise BadInput("graded_at must ascend; sort the episodes by it")
        self.experience, self.graded_at = experience, graded_at
        for size in [size for size in self._fits if size > same]:
            del self._fits[size]
        for recall in self._fits.values():
            recall.keep(same)

    def known(self, moment: float | None) -> int:
        """How many episodes were graded at or before the moment (seconds); all of them where it is None."""
        return len(self) if moment is None else int(np.searchsorted(self.graded_at, moment, side="right"))

    def estimate(self, query: Experience, row: int = 0, *, first: int | None = None) -> RecallEstimate:
        """What the first `first` episodes (default: all) say of one row of `query`.

        Raises:
            BadInput: there are none.
        """
        first = len(self) if first is None else first
        step = checkpoint(first)
        if first < self.neighbours:  # no key is worth fitting yet
            assert self.experience is not None
            return nothing_alike(float(self.experience.correct[:first].mean()))
        recall = self._fitted(step)
        return recall.estimate(query, row, allowed=None if first == recall.size else np.arange(recall.size) < first)

    def _fitted(self, size: int) -> Recall:
        """Fitted on the first `size`, holding all."""
        assert self.experience is not None
        recall = self._fits.get(size)
        if recall is None:
            recall = Recall(neighbours=self.neighbours).fit(self.experience.take(slice(0, size)))
            self._fits[size] = recall
        self._fits.move_to_end(size)
        while len(self._fits) > _KEPT:
            self._fits.popitem(last=False)
        if recall.size < len(self):
            recall.add(self.experience.take(slice(recall.size, None)))
        return recall
