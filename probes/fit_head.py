"""Fitting a head: probes, fusion and calibration, cross-fitted so that no row is judged by its own grade."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.decision import Stage
from ..core.errors import BadInput, ConfigurationError, NotEnoughLabels
from .calibration.base import checked_grades, checked_weights
from .calibration.registry import make_calibrator
from .calibration.select import select_calibrator
from .folds import grouped_folds
from .fusion import LogisticFusion
from .gaussian import SignalGaussian
from .head import Floats, Head, OutOfFold, Replicas
from .hidden_state import HiddenStateProbe
from .logistic import fit_coefficients
from .signal_table import SignalTable
from .tiers import FEWEST, Tier, preferred, tier_for

Codes = NDArray[np.int64]

_OUTER, _INNER = 5, 3
_FEWEST_GROUPS = 5
_AFTER_ONLY = ("token.", "lens.", "hidden.answer_")


def fit_head(
    table: SignalTable,
    correct: ArrayLike,
    groups: ArrayLike | Sequence[str] | None,
    *,
    arm: str,
    stage: Stage,
    seed: int = 0,
    weights: ArrayLike | None = None,
    replicas: int = 50,
    min_informative: float = 0.5,
    fitted_at: datetime | None = None,
) -> Head:
    """Fit the head of one arm and stage.

    Five outer folds, groups whole. For each, hidden-state probes and fusion are fitted on the other four (the probes'
    own scores there come from inner folds, so fusion never sees a score that was fitted on its row), and the held-out
    rows get fused log-odds. The calibrator is chosen and fitted on those out-of-fold log-odds; then everything is
    fitted again on all rows. `tiers.tier_for` says what is allowed for how many labels.

    Args:
        table: n rows.
        correct: (n,) of True/False or 1/0.
        groups: (n,) ids: the same question, or near-duplicates, share one. None: every row is a question of its own.
        arm: "answer", "retrieve", "escalate:NAME".
        weights: (n,) 1/label_propensity, where rows were not graded alike.
        replicas: bootstrap refits of fusion coefficients and calibrator behind the interval.
        min_informative: see `Head`.

    Raises:
        NotEnoughLabels: fewer than 10 rows, or 5 groups, of the rarer class.
        BadInput: lengths differ, a grade is NaN, no signal is usable, or the table of a `before` head holds signals
            that exist only after generation.
    """
    from threadpoolctl import threadpool_limits

    if replicas < 10:
        raise ConfigurationError(f"replicas={replicas}: an interval from 5 to 95 % needs at least 10")
    y = checked_grades(correct, len(table))
    w = checked_weights(weights, len(table))
    codes = _group_codes(groups, len(table))
    _check_stage(table, stage)
    tier = tier_for(y)
    _check_groups(codes, y)
    # The matrices are small: a second BLAS thread costs more than it brings, and sums in another order.
    with threadpool_limits(1):
        plan, notes = _plan(table, w, tier, seed)
        outer = grouped_folds(codes, y, _OUTER, seed)
        log_odds = _out_of_fold(plan, table, y, w, codes, outer, min_informative)
        usable = np.isfinite(log_odds)
        _check_usable(usable, y)
        chosen = select_calibrator(
            log_odds[usable], y[usable], codes[usable], outer[usable], tier.calibrators, w[usable]
        )
        stack, values = _fit_stack(plan, table, y, w, outer)
        refits = _refit(stack.fusion, values, y, w, codes, log_odds, chosen.calibrator.name, replicas, seed)
    probability = np.full(len(table), np.nan)
    probability[usable] = chosen.out_of_fold
    notes += [f"{name} {why}" for name, why in stack.fusion.gaussian_.notes_.items()]
    if not usable.all():
        notes.append(f"{int((~usable).sum())} rows carried too few signals to count in calibration")
    return Head(
        arm=arm,
        stage=stage,
        fusion=stack.fusion,
        probes=stack.probes,
        calibrator=chosen.calibrator,
        replicas=refits,
        out_of_fold=OutOfFold(log_odds, probability, y, codes, outer, w),
        labels=len(table),
        right=int(y.sum()),
        tier=tier.name,
        fitted_at=fitted_at or datetime.now(UTC),
        min_informative=min_informative,
        brier=dict(chosen.brier),
        notes=tuple(notes),
    )


@dataclass(frozen=True)
class _Plan:
    """What goes in, settled once and without looking at grades."""

    scalars: tuple[str, ...]
    vectors: tuple[str, ...]
    components: int
    seed: int

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.scalars, *(f"hidden.{vector}" for vector in self.vectors))


@dataclass(frozen=True)
class _Stack:
    fusion: LogisticFusion
    probes: dict[str, HiddenStateProbe]

    def values(self, plan: _Plan, table: SignalTable) -> Floats:
        scores = [self.probes[vector].scores(table.hidden[vector]) for vector in plan.vectors]
        return np.column_stack([table.columns(plan.scalars), *scores])


def _plan(table: SignalTable, weights: Floats, tier: Tier, seed: int) -> tuple[_Plan, list[str]]:
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
    return _Plan(scalars, vectors, tier.components, seed), notes


def _usable_vectors(table: SignalTable) -> tuple[tuple[str, ...], list[str]]:
    present = {vector: np.isfinite(block).all(axis=1).mean() for vector, block in table.hidden.items()}
    return (
        tuple(vector for vector, share in present.items() if share >= 0.5),
        [vector for vector, share in present.items() if share < 0.5],
    )


def _fit_stack(plan: _Plan, table: SignalTable, y: Floats, w: Floats, folds: Codes) -> tuple[_Stack, Floats]:
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
    fusion = LogisticFusion(plan.names).fit(values, y, folds, w)
    return _Stack(fusion, probes), values


def _probe(plan: _Plan, vector: str) -> HiddenStateProbe:
    return HiddenStateProbe(vector, components=plan.components, seed=plan.seed)


def _out_of_fold(
    plan: _Plan, table: SignalTable, y: Floats, w: Floats, codes: Codes, outer: Codes, min_informative: float
) -> Floats:
    """Fused log-odds (n,) of rows that were held out; NaN where too little was observed."""
    log_odds = np.full(len(table), np.nan)
    for fold in np.unique(outer):
        held_out = outer == fold
        train = ~held_out
        inner = grouped_folds(codes[train], y[train], _INNER, plan.seed)
        stack, _ = _fit_stack(plan, table.take(train), y[train], w[train], inner)
        fused = stack.fusion.predict(stack.values(plan, table.take(held_out)))
        known = (fused.share >= min_informative) & fused.observed.any(axis=1)
        log_odds[held_out] = np.where(known, fused.log_odds[:, 0], np.nan)
    return log_odds


def _refit(
    fusion: LogisticFusion,
    values: Floats,
    y: Floats,
    w: Floats,
    codes: Codes,
    log_odds: Floats,
    calibrator: str,
    count: int,
    seed: int,
) -> Replicas:
    """Coefficients and calibrator on resampled groups; standardising, covariance, strength and probes stay."""
    generator = np.random.default_rng([seed, 0xB007])
    filled = fusion.filled(values)
    usable = np.isfinite(log_odds)
    number = int(codes.max()) + 1
    coefficients, intercepts, calibrators = [], [], []
    while len(calibrators) < count:
        drawn = generator.multinomial(number, np.full(number, 1.0 / number))[codes] * w
        if any(np.unique(y[rows & (drawn > 0.0)]).size < 2 for rows in (usable, np.ones_like(usable))):
            continue
        slope, intercept = fit_coefficients(filled, y, drawn, fusion.C_)
        coefficients.append(slope)
        intercepts.append(intercept)
        calibrators.append(make_calibrator(calibrator).fit(log_odds[usable], y[usable], drawn[usable]))
    return Replicas(np.array(coefficients), np.array(intercepts), tuple(calibrators))


def _group_codes(groups: ArrayLike | Sequence[str] | None, count: int) -> Codes:
    if groups is None:
        return np.arange(count, dtype=np.int64)
    ids = np.asarray(groups)
    if ids.shape != (count,):
        raise BadInput(f"{count} rows need ({count},) group ids; got shape {ids.shape}")
    return np.unique(ids, return_inverse=True)[1].astype(np.int64)


def _check_groups(codes: Codes, y: Floats) -> None:
    for grade, word in ((1.0, "right"), (0.0, "wrong")):
        have = np.unique(codes[y == grade]).size
        if have < _FEWEST_GROUPS:
            raise NotEnoughLabels(
                f"the {word} rows lie in {have} group(s) of related questions; {_FEWEST_GROUPS} are needed. "
                f"Grade {word} answers to other questions",
                have=have,
                need=_FEWEST_GROUPS,
            )


def _check_usable(usable: NDArray[np.bool_], y: Floats) -> None:
    have = int(min(y[usable].sum(), (1.0 - y[usable]).sum()))
    if have < FEWEST:
        raise NotEnoughLabels(
            f"only {have} rows of the rarer class carry enough signals to be scored; {FEWEST} are needed. "
            "Capture the missing signals, or grade more calls",
            have=have,
            need=FEWEST,
        )


def _check_stage(table: SignalTable, stage: Stage) -> None:
    if stage is not Stage.BEFORE:
        return
    late = [name for name in (*table.names, *(f"hidden.{v}" for v in table.hidden)) if name.startswith(_AFTER_ONLY)]
    if late:
        raise BadInput(f"{late[:5]} exist only after generation; a head for before it cannot use them")
