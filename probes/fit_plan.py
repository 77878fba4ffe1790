"""What goes into a head, and one fit of it: hidden-state probes whose cross-fitted scores fusion reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.errors import BadInput
from ..core.signal import Direction
from .directions import stated_directions
from .ensemble_fusion import BoostedFusion, ForestFusion
from .fusion import LogisticFusion
from .fusion_settings import BOOSTED, FOREST, LOGISTIC, FusionSettings
from .gaussian import SignalGaussian
from .head import Floats, Fusion
from .hidden_state import HiddenStateProbe
from .signal_table import SignalTable
from .stacked_fusion import StackedFusion
from .tiers import Tier, preferred

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Plan:
    """Settled once and without looking at grades.

    Attributes:
        scalars, vectors: names; `names` are the columns that fusion reads.
        components: principal components of each vector.
        method: "logistic", "forest", "boosted" or "stacked".
    """

    scalars: tuple[str, ...]
    vectors: tuple[str, ...]
    components: int
    seed: int
    method: str
    settings: FusionSettings
    directions: Mapping[str, Direction]

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.scalars, *(f"hidden.{vector}" for vector in self.vectors))

    def fusion(self) -> Fusion:
        """An unfitted fusion by the method."""
        if self.method == LOGISTIC:
            return LogisticFusion(self.names)
        if self.method == FOREST:
            return ForestFusion(self.names, seed=self.seed, **asdict(self.settings.forest))
        if self.method == BOOSTED:
            boosted = self.settings.boosted
            return BoostedFusion(self.names, directions=self.directions, settings=boosted, seed=self.seed)
        return StackedFusion(self.names, directions=self.directions, settings=self.settings, seed=self.seed)


@dataclass(frozen=True)
class Stack:
    """Fitted probes, and the fusion that reads their scores."""

    fusion: Fusion
    probes: dict[str, HiddenStateProbe]

    def values(self, plan: Plan, table: SignalTable) -> Floats:
        """(n, k) what fusion reads."""
        scores = [self.probes[vector].scores(table.hidden[vector]) for vector in plan.vectors]
        return np.column_stack([table.columns(plan.scalars), *scores])


def make_plan(
    table: SignalTable, weights: Floats, tier: Tier, seed: int, method: str, settings: FusionSettings
) -> tuple[Plan, list[str]]:
    """What is used of a table at this many labels, and notes on what is not.

    Raises:
        BadInput: a name is a scalar signal and a vector at once, or nothing is usable.
    """
    clash = sorted(name for name in table.names if name.removeprefix("hidden.") in table.hidden)
    if clash:
        raise BadInput(f"{clash} are scalar signals and vectors at once; leave the scalar ones out")
    gaussian = SignalGaussian().fit(table.values, weights, table.names)
    notes = [f"{name} {why}" for name, why in gaussian.notes_.items()]
    usable = [table.names[column] for column in gaussian.columns_]
    scalars = preferred(usable, tier.scalars)
    left_out = [name for name in usable if name not in scalars]
    if left_out:
        notes.append(f"{len(left_out)} signals left out at this many labels ({tier.name} of the rarer class)")
    vectors: tuple[str, ...] = ()
    if table.hidden and tier.components == 0:
        notes.append(f"hidden states left out at this many labels ({tier.name} of the rarer class)")
    elif tier.components:
        vectors, sparse = _usable_vectors(table)
        notes += [f"hidden.{vector} dropped: missing in more than half of the rows" for vector in sparse]
    if not scalars and not vectors:
        raise BadInput(f"no usable signal among {len(table.names)}: {'; '.join(notes)[:500] or 'the table is empty'}")
    return Plan(scalars, vectors, tier.components, seed, method, settings, stated_directions(table)), notes


def fit_stack(plan: Plan, table: SignalTable, y: Floats, w: Floats, folds: Codes) -> tuple[Stack, Floats]:
    """Probes and fusion on all rows given; fusion reads cross-fitted probe scores, which are returned in its matrix."""
    probes: dict[str, HiddenStateProbe] = {}
    columns: list[Floats] = []
    for vector in plan.vectors:
        block = table.hidden[vector]
        probe = _probe(plan, vector).fit(block, y, w, folds)
        probes[vector] = probe
        scores = np.full(len(table), np.nan)
        for fold in np.unique(folds):
            held_out = folds == fold
            inner = _probe(plan, vector).fit(block[~held_out], y[~held_out], w[~held_out], C=probe.C_)
            scores[held_out] = inner.scores(block[held_out])
        columns.append(scores)
    values = np.column_stack([table.columns(plan.scalars), *columns])
    return Stack(plan.fusion().fit(values, y, folds, w), probes), values


def _usable_vectors(table: SignalTable) -> tuple[tuple[str, ...], list[str]]:
    present = {vector: np.isfinite(block).all(axis=1).mean() for vector, block in table.hidden.items()}
    return (
        tuple(vector for vector, share in present.items() if share >= 0.5),
        [vector for vector, share in present.items() if share < 0.5],
    )


def _probe(plan: Plan, vector: str) -> HiddenStateProbe:
    return HiddenStateProbe(vector, components=plan.components, seed=plan.seed)
