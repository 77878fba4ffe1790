"""What labels say about a task's calls, as it is reported: estimates, and the regions that no label speaks about."""

from __future__ import annotations

from ..core.decision import Route
from ..core.record import Record
from ..evaluation.estimate import Estimate

_DONE = {Route.ANSWER: "answered", Route.DEFER: "deferred", Route.ABSTAIN: "abstained"}


class Region(Record):
    """Calls of one route, confidence band, kind of turn, arm and model.

    Attributes:
        delivered: they went out, though in shadow and advise mode another route may have been recommended.
        band: of the confidence, or None where there was none.
        model: None where the task has one model only.
        graded: how many have a grade.
        hopeless: how many have none, and nobody was ever going to give one.
    """

    route: Route
    delivered: bool
    band: tuple[float, float] | None
    turn: str
    arm: str
    model: str | None
    calls: int
    graded: int
    hopeless: int

    def __str__(self) -> str:
        done = _DONE.get(self.route, f"to {self.route}")
        if self.delivered and self.route is not Route.ANSWER:
            done = f"answered though to {self.route} was recommended"
        named = [done, "no confidence" if self.band is None else f"confidence {self.band[0]:g}–{self.band[1]:g}"]
        named += [] if self.turn == "answer" else [self.turn.replace("_", " ")]
        named += [] if self.arm == "answer" else [f"by {self.arm}"]
        named += [] if self.model is None else [f"model {self.model}"]
        calls = f"{self.calls} call{'s' if self.calls > 1 else ''}"
        if self.hopeless == self.calls:
            return f"{', '.join(named)}: {calls}, none was ever going to be graded"
        graded = f"{self.graded} graded" if self.graded else "none graded so far"
        never = f", {self.hopeless} were never going to be" if self.hopeless else ""
        return f"{', '.join(named)}: {calls}, {graded}{never}"


class LabelCoverage(Record):
    """What the labels say about all of these calls.

    Attributes:
        naive: accuracy of the graded calls as they are: of whatever happened to be graded.
        weighted: accuracy of all calls, each graded one standing for so many; None where that would not deserve the
            name, and `refused` says why.
        effective: how many evenly drawn grades would be worth as much (Kish).
        unasked: graded, though nobody had asked: who grades unasked does not do so at random, so they are left out.
        pending: deferred or drawn, and not graded yet.
        blind: regions without a label, or in which some were never going to get one; the largest first.
    """

    calls: int
    graded: int
    naive: Estimate
    weighted: Estimate | None
    effective: float | None
    refused: str | None
    unasked: int
    pending: int
    blind: tuple[Region, ...]
