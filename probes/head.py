"""A head: hidden-state probes, fusion, calibrator and bootstrap replicas that turn signals into one confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..core.confidence import Confidence, Contribution, Interval, Probability
from ..core.decision import Stage
from ..core.errors import BadInput, ConfigurationError
from ..core.signal import Signal, Unavailable
from .access import Access, access_to
from .calibration.base import Calibrator, logit
from .ensemble_fusion import EnsembleFusion
from .fusion import Fused, LogisticFusion
from .hidden_state import HiddenStateProbe
from .pooling import PartialPooling
from .signal_table import SignalTable

Floats = NDArray[np.float64]

Fusion = LogisticFusion | EnsembleFusion

LEVEL = 0.9
"""Level of the bootstrap interval: 5 % to 95 %."""


@dataclass(frozen=True)
class Replicas:
    """Refits on group-bootstrap resamples: coefficients (R, m), intercepts (R,), R calibrators; where members are
    stacked, their weights and bias (R, M+1)."""

    coefficients: Floats
    intercepts: Floats
    calibrators: tuple[Calibrator, ...]
    stacks: Floats | None = None


def fuse(fusion: Fusion, values: Floats, replicas: Replicas | None = None, *, explain: bool = False) -> Fused:
    """Fuse (n, k) values by the fitted fusion, and by its refits; contributions of trees only where asked for."""
    refits = (None, None) if replicas is None else (replicas.coefficients, replicas.intercepts)
    if isinstance(fusion, LogisticFusion):
        return fusion.predict(values, *refits)
    return fusion.predict(values, *refits, None if replicas is None else replicas.stacks, explain=explain)


def head_key(arm: str, stage: Stage, access: Access = Access.WHITE) -> str:
    """Where a head is filed: "answer/after", "answer/after@grey"."""
    return f"{arm}/{stage.value}" + ("" if access is Access.WHITE else f"@{access.value}")


@dataclass(frozen=True)
class OutOfFold:
    """What the head said of each fitting row when that row (and its group) was held out; for reports and policies.

    Attributes:
        log_odds, probability: (n,); NaN where too little was observed.
        correct: (n,) of 0.0 and 1.0.
        groups, folds: (n,) int64 codes.
        weights: (n,) with mean 1.
    """

    log_odds: Floats
    probability: Floats
    correct: Floats
    groups: NDArray[np.int64]
    folds: NDArray[np.int64]
    weights: Floats


@dataclass(frozen=True)
class HeadPrediction:
    """Predictions for n rows; NaN where `share` is below what the head asks for.

    Attributes:
        probability, low, high: (n,) calibrated probability and its 90 % interval.
        share: (n,) share of what the head goes by that was observed.
        available: (n,) True where there is a probability.
        own_seen: (n,) True where some signal was observed that takes just the head's access: what makes it another
            head than the one below it.
    """

    probability: Floats
    low: Floats
    high: Floats
    share: Floats
    available: NDArray[np.bool_]
    own_seen: NDArray[np.bool_]

    def or_else(self, other: HeadPrediction) -> HeadPrediction:
        """These predictions; those of the head below on the same rows where there is none, and where nothing was seen
        that this one could add."""
        kept = self.available & (self.own_seen | ~other.available)

        def first(mine: Floats, theirs: Floats) -> Floats:
            return np.where(kept, mine, theirs)

        return HeadPrediction(
            first(self.probability, other.probability),
            first(self.low, other.low),
            first(self.high, other.high),
            first(self.share, other.share),
            self.available | other.available,
            np.where(kept, self.own_seen, other.own_seen),
        )


@dataclass(frozen=True)
class Head:
    """One calibrated confidence for one arm and stage; made by `fit_head`.

    Attributes:
        arm: "answer", "retrieve" or "escalate:NAME"; `key` is "arm/stage", with "@grey" or "@black" behind it where
            the head goes by less than everything.
        probes: hidden-state probes by vector name.
        min_informative: below this share of observed information there is no confidence.
        labels: number of graded rows; `right` of them were right.
        brier: cross-fitted Brier score of every calibrator that was compared.
        notes: what was left out, and why.
        access: what its signals take to be seen; white where there is one head for everything.
        pooling: how far each tool lies from the rest; None where rows were not told apart by tool.
        members: of each stacked member "auroc" and "brier" of its own log-odds out of fold, before calibration, and its
            "weight" in the stack; empty without stacking.
    """

    arm: str
    stage: Stage
    fusion: Fusion
    probes: Mapping[str, HiddenStateProbe]
    calibrator: Calibrator
    replicas: Replicas
    out_of_fold: OutOfFold
    labels: int
    right: int
    tier: str
    fitted_at: datetime
    min_informative: float
    brier: Mapping[str, float]
    notes: tuple[str, ...] = ()
    access: Access = Access.WHITE
    pooling: PartialPooling | None = None
    members: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0.0 < self.min_informative <= 1.0:
            raise ConfigurationError(f"min_informative={self.min_informative} must lie in (0, 1]")

    @property
    def key(self) -> str:
        return head_key(self.arm, self.stage, self.access)

    @property
    def signal_names(self) -> tuple[str, ...]:
        """The scalar signals it goes by."""
        own = {probe.name for probe in self.probes.values()}
        return tuple(name for name in self.fusion.names_ if name not in own)

    @property
    def hidden_names(self) -> tuple[str, ...]:
        """The vectors of `Captured.hidden` it goes by."""
        return tuple(vector for vector, probe in self.probes.items() if probe.name in self.fusion.names_)

    def sees_own(self, confidence: Confidence) -> bool:
        """Was something observed that takes just this head's access? (`HeadPrediction.own_seen`)"""
        return not self._own.issubset(confidence.missing)

    @cached_property
    def _own(self) -> frozenset[str]:
        return frozenset(name for name in self.fusion.names_ if access_to(name) is self.access)

    def predict(
        self,
        signals: Sequence[Signal],
        hidden: Mapping[str, NDArray[np.float32]] | None = None,
        *,
        calibrator: str | None = None,
        tool: str | None = None,
    ) -> Confidence | Unavailable:
        """The confidence, or why there is none.

        Args:
            signals: those it does not know are ignored.
            hidden: vectors by name.
            calibrator: identifier to write into the confidence; default the head's key.
            tool: what is called, where the head knows tools apart.

        Raises:
            BadInput: a signal name twice: two probes would be speaking with one voice.
        """
        given = {signal.name: signal for signal in signals}
        if len(given) != len(signals):
            raise BadInput("signal names repeat; every probe needs names of its own")
        vectors = hidden or {}
        for probe in self.probes.values():
            given[probe.name] = probe.signal(vectors)
        row = np.full((1, len(self.fusion.names)), np.nan)
        for column, name in enumerate(self.fusion.names):
            value = given[name].value if name in given else None
            if value is not None:
                row[0, column] = value
        fused, prediction = self._predict(row, (tool,), explain=True)
        missing = tuple(n for n, there in zip(self.fusion.names_, fused.observed[0], strict=True) if not there)
        if not prediction.available[0]:
            return Unavailable(reason=self._too_little(float(prediction.share[0]), missing, given))
        return Confidence(
            probability=Probability(value=float(prediction.probability[0])),
            interval=Interval(low=float(prediction.low[0]), high=float(prediction.high[0]), level=LEVEL),
            contributions=self._contributions(fused, tool),
            calibrator=calibrator or self.key,
            labels=self.labels,
            fitted_at=self.fitted_at,
            missing=missing,
        )

    def predict_table(self, table: SignalTable, tools: Sequence[str | None] | None = None) -> HeadPrediction:
        """The same for the n rows of a table at once.

        Args:
            tools: what each row calls; None where that is not known.

        Raises:
            BadInput: a vector has another width than it was fitted on.
        """
        return self._predict(self.values(table), tools or (None,) * len(table))[1]

    def values(self, table: SignalTable) -> Floats:
        """(n, k) what fusion reads: scalar signals and the scores of the hidden-state probes."""
        values = table.columns(self.fusion.names)
        for column, name in enumerate(self.fusion.names):
            vector = name.removeprefix("hidden.")
            if vector in self.probes and vector in table.hidden:
                values[:, column] = self.probes[vector].scores(table.hidden[vector])
        return values

    def _predict(
        self, values: Floats, tools: Sequence[str | None], *, explain: bool = False
    ) -> tuple[Fused, HeadPrediction]:
        fused = fuse(self.fusion, values, self.replicas, explain=explain)
        # A row without any signal has nothing to say, however little the coefficients weigh.
        available = (fused.share >= self.min_informative) & fused.observed.any(axis=1)
        probability = self.calibrator.predict(fused.log_odds[:, 0])
        refits = np.column_stack(
            [
                calibrator.predict(fused.log_odds[:, number + 1])
                for number, calibrator in enumerate(self.replicas.calibrators)
            ]
        )
        low, high = np.quantile(refits, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0], axis=1)
        low, high = np.minimum(low, probability), np.maximum(high, probability)
        own = self.calibrator.interval(fused.log_odds[:, 0])
        if own is not None:
            low, high = np.minimum(low, own[0]), np.maximum(high, own[1])
        if self.pooling is not None:
            probability, low, high = self.pooling.applied(probability, low, high, tools)
        for array in (probability, low, high):
            array[~available] = np.nan
        mine = np.array([name in self._own for name in self.fusion.names_], dtype=np.bool_)
        return fused, HeadPrediction(
            probability, low, high, fused.share, available, np.asarray((fused.observed & mine).any(axis=1))
        )

    def _contributions(self, fused: Fused, tool: str | None) -> tuple[Contribution, ...]:
        """In calibrated log-odds: they add up to logit(p) minus logit(p of the average call)."""
        own = float(self.calibrator.predict(fused.log_odds[:1, 0])[0])
        offset = 0.0 if self.pooling is None else float(self.pooling.shifted(logit([own]), [tool])[0] - logit(own))
        moved = float(fused.log_odds[0, 0] - fused.average[0])
        base = float(self.calibrator.predict(fused.average[:1])[0])
        slope = float(logit(own) - logit(base)) / moved if abs(moved) > 1e-9 else 1.0
        parts = [
            Contribution(signal=name, log_odds=float(part * slope))
            for name, part, there in zip(self.fusion.names_, fused.contributions[0], fused.observed[0], strict=True)
            if there
        ]
        if offset:
            parts.append(Contribution(signal=f"tool.{tool}", log_odds=offset))
        return tuple(sorted(parts, key=lambda part: (-abs(part.log_odds), part.signal)))

    def _too_little(self, share: float, missing: Sequence[str], given: Mapping[str, Signal]) -> str:
        told = []
        for name in missing[:3]:
            score = given[name].score if name in given else Unavailable(reason="not given")
            told.append(f"{name} ({score.reason if isinstance(score, Unavailable) else 'unusable'})")
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        return (
            f"the signals at hand carry {share:.0%} of what head {self.key} goes by; {self.min_informative:.0%} are "
            f"needed. Missing: {', '.join(told)}{more}"
        )
