"""HalluNox's fixed cut-offs, put on raw confidence."""

from __future__ import annotations

from ...core.decision import Route
from .base import Baseline, Floats, Rows
from .raw_confidence import SUM_LOGPROB, as_probability
from .route_tiers import RouteTiers

HALLUNOX = RouteTiers(answer=0.65, retrieve=0.60, escalate=0.40)
"""The general mode of HalluNox 0.6.3, as its documentation states it: answer from .65 on, retrieve from .60 on, a
larger model from .40 on, else a human."""


class HalluNoxTiers(Baseline):
    """Routes by fixed cut-offs; nothing is fitted, whatever the task.

    HalluNox cuts a score of its own (its weights are under the AGPL); here the same cut-offs meet a confidence that
    is at hand. As a confidence, a tier is worth its middle [proposal]: .825, .625, .5, .2.

    Args:
        column, log: as of `RawConfidence`.
        tiers: the cut-offs.
    """

    name = "hallunox"

    def __init__(self, column: str = SUM_LOGPROB, *, log: bool = True, tiers: RouteTiers = HALLUNOX) -> None:
        super().__init__((column,))
        self.log = log
        self.tiers = tiers

    def routes(self, rows: Rows) -> list[Route | None]:
        """The route of each row; None where its score is missing."""
        return self.tiers.routes(self._over(rows, self._scores))

    def _fit(self, block: Floats, correct: Floats) -> None:
        self._scores(block)

    def _predict(self, block: Floats) -> Floats:
        return self.tiers.middles[self.tiers.levels(self._scores(block))]

    def _scores(self, block: Floats) -> Floats:
        return as_probability(block[:, 0], self.columns[0], log=self.log)
