"""Fitting a head: probes, fusion and calibration, cross-fitted so that no row is judged by its own grade."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.decision import Stage
from ..core.errors import BadInput, ConfigurationError, NotEnoughLabels
from .access import Access, access_to, visible
from .calibration.base import checked_grades, checked_weights, logit, sigmoid
from .calibration.registry import make_calibrator
from .calibration.select import select_calibrator
from .fit_plan import Codes, Plan, fit_stack, make_plan
from .folds import grouped_folds
from .fusion import LogisticFusion
from .fusion_settings import DEFAULTS, LOGISTIC, METHODS, STACKED, FusionSettings
from .head import Floats, Fusion, Head, OutOfFold, Replicas, fuse
from .logistic import fit_coefficients
from .pooling import PartialPooling
from .signal_table import SignalTable
from .stacked_fusion import StackedFusion
from .tiers import FEWEST, tier_for

_OUTER, _INNER = 5, 3
_FEWEST_GROUPS = 5
_AFTER_ONLY = (
    "token.",
    "lens.",
    "fast_lens.",
    "mice.",
    "fast_mice.",
    "trajectory.",
    "prefix.",
    "grounding.adjusted",
    "grounding.copied",
    "grounding.recall",
    "evidence.",
    "samples.",
    # answer_mean, answer_last, answer_text
    "hidden.answer_",
)


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
    method: str = LOGISTIC,
    settings: FusionSettings = DEFAULTS,
    access: Access = Access.WHITE,
    calibrator: str | None = None,
    tools: Sequence[str | None] | None = None,
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
        replicas: bootstrap refits of fusion coefficients, stack weights and calibrator behind the interval. Trees are
            not grown again for them: how much the trees themselves would change is not in the interval.
        min_informative: see `Head`.
        method: "logistic", "forest", "boosted", "stacked"; or "auto": logistic under 100 rows of the rarer class,
            stacked from there on, as `tiers.tier_for` says. Members are cross-fitted for the stack within the rows that
            an outer fold leaves, so that no row's grade reaches what is said of it there.
        settings: of forest, boosting and stacking.
        calibrator: name in `CALIBRATORS`; None chooses among those that `tiers.tier_for` allows.
        tools: (n,) what each row calls, None for nothing; a tool with few rows leans on the rest (`PartialPooling`).
        access: the head's place among those of its arm and stage; the table must hold nothing that takes more.

    Raises:
        NotEnoughLabels: fewer than 10 rows, or 5 groups, of the rarer class.
        BadInput: lengths differ, a grade is NaN, no signal is usable, the table of a `before` head holds signals
            that exist only after generation, or that of a grey or black one signals that take more access.
        ConfigurationError: no such method or calibrator, or fewer than 10 replicas.
    """
    from threadpoolctl import threadpool_limits

    if replicas < 10:
        raise ConfigurationError(f"replicas={replicas}: an interval from 5 to 95 % needs at least 10")
    if method not in METHODS:
        raise ConfigurationError(f"method={method!r} is none of {METHODS}")
    y = checked_grades(correct, len(table))
    w = checked_weights(weights, len(table))
    codes = _group_codes(groups, len(table))
    _check_stage(table, stage)
    _check_access(table, access)
    tier = tier_for(y)
    _check_groups(codes, y)
    # The matrices are small: a second BLAS thread costs more than it brings, and sums in another order.
    with threadpool_limits(1):
        plan, notes = make_plan(table, w, tier, seed, tier.method if method == "auto" else method, settings)
        outer = grouped_folds(codes, y, _OUTER, seed)
        log_odds, members = _out_of_fold(plan, table, y, w, codes, outer, min_informative)
        usable = np.isfinite(log_odds)
        _check_usable(usable, y)
        candidates = tier.calibrators if calibrator is None else (calibrator,)
        chosen = select_calibrator(log_odds[usable], y[usable], codes[usable], outer[usable], candidates, w[usable])
        stack, values = fit_stack(plan, table, y, w, outer)
        refits = _refit(stack.fusion, values, y, w, codes, log_odds, chosen.calibrator.name, replicas, seed)
    probability = np.full(len(table), np.nan)
    probability[usable] = chosen.out_of_fold
    pooling = None
    if tools is not None and any(tools):
        pooling, probability[usable] = _pool(chosen.out_of_fold, y, w, outer, tools, usable)
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
        access=access,
        pooling=pooling,
        members=_judged_members(stack.fusion, members, y, w),
    )


def _pool(
    probability: Floats, y: Floats, w: Floats, outer: Codes, tools: Sequence[str | None], usable: NDArray[np.bool_]
) -> tuple[PartialPooling, Floats]:
    """Offsets of the tools among the m usable rows, and their probabilities (m,) with offsets from other folds."""
    if len(tools) != usable.size:
        raise BadInput(f"{usable.size} rows came with {len(tools)} tools; give one a row, None for none")
    named = np.array([tool or "" for tool in tools])[usable]
    at, grades, weights, folds = logit(probability), y[usable], w[usable], outer[usable]
    called = named != ""
    moved = at.copy()
    for fold in np.unique(folds):
        held_out, train = folds == fold, (folds != fold) & called
        if train.any():
            fitted = PartialPooling.fit(at[train], grades[train], named[train].tolist(), weights[train])
            moved[held_out] = fitted.shifted(at[held_out], named[held_out].tolist())
    return PartialPooling.fit(at[called], grades[called], named[called].tolist(), weights[called]), sigmoid(moved)


def _out_of_fold(
    plan: Plan, table: SignalTable, y: Floats, w: Floats, codes: Codes, outer: Codes, min_informative: float
) -> tuple[Floats, dict[str, Floats]]:
    """Log-odds (n,) of rows that were held out, fused and of each member; NaN where too little was observed."""
    if plan.method == STACKED:
        plan = replace(plan, settings=plan.settings.within_folds())
    log_odds = np.full(len(table), np.nan)
    members: dict[str, Floats] = {}
    for fold in np.unique(outer):
        held_out = outer == fold
        train = ~held_out
        inner = grouped_folds(codes[train], y[train], _INNER, plan.seed)
        stack, _ = fit_stack(plan, table.take(train), y[train], w[train], inner)
        values = stack.values(plan, table.take(held_out))
        fused = fuse(stack.fusion, values)
        known = (fused.share >= min_informative) & fused.observed.any(axis=1)
        log_odds[held_out] = np.where(known, fused.log_odds[:, 0], np.nan)
        if isinstance(stack.fusion, StackedFusion):
            for name, said in zip(stack.fusion.voices_, stack.fusion.voices(values).T, strict=True):
                members.setdefault(name, np.full(len(table), np.nan))[held_out] = np.where(known, said, np.nan)
    return log_odds, members


def _refit(
    fusion: Fusion,
    values: Floats,
    y: Floats,
    w: Floats,
    codes: Codes,
    log_odds: Floats,
    calibrator: str,
    count: int,
    seed: int,
) -> Replicas:
    """Coefficients, stack weights and calibrator on resampled groups; standardising, covariance, strength, probes and
    trees stay."""
    generator = np.random.default_rng([seed, 0xB007])
    logistic = fusion if isinstance(fusion, LogisticFusion) else fusion.logistic_
    filled = fusion.filled(values)
    usable = np.isfinite(log_odds)
    number = int(codes.max()) + 1
    coefficients, intercepts, stacks, calibrators = [], [], [], []
    while len(calibrators) < count:
        drawn = generator.multinomial(number, np.full(number, 1.0 / number))[codes] * w
        if any(np.unique(y[rows & (drawn > 0.0)]).size < 2 for rows in (usable, np.ones_like(usable))):
            continue
        slope, intercept = fit_coefficients(filled, y, drawn, logistic.C_, logistic.trust)
        coefficients.append(slope)
        intercepts.append(intercept)
        if isinstance(fusion, StackedFusion):
            weights, bias = fusion.weigh(y, drawn)
            stacks.append(np.append(weights, bias))
        calibrators.append(make_calibrator(calibrator).fit(log_odds[usable], y[usable], drawn[usable]))
    stacked = np.array(stacks) if stacks else None
    return Replicas(np.array(coefficients), np.array(intercepts), tuple(calibrators), stacked)


def _judged_members(fusion: Fusion, members: Mapping[str, Floats], y: Floats, w: Floats) -> dict[str, dict[str, float]]:
    """Out-of-fold AUROC and Brier score of each member's own log-odds, before calibration, and its weight."""
    from sklearn.metrics import roc_auc_score

    found: dict[str, dict[str, float]] = {}
    for name, log_odds in members.items():
        known = np.isfinite(log_odds)
        if np.unique(y[known]).size < 2:
            continue
        at, right, weighed = log_odds[known], y[known], w[known]
        weight = 0.0
        if isinstance(fusion, StackedFusion) and name in fusion.voices_:
            weight = float(fusion.weights_[fusion.voices_.index(name)])
        found[name] = {
            "auroc": float(roc_auc_score(right, at, sample_weight=weighed)),
            "brier": float(np.average((sigmoid(at) - right) ** 2, weights=weighed)),
            "weight": weight,
        }
    return found


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


def _check_access(table: SignalTable, access: Access) -> None:
    seen = visible(table, access)
    kept = () if seen is None else (*seen.names, *(f"hidden.{vector}" for vector in seen.hidden))
    more = [name for name in (*table.names, *(f"hidden.{vector}" for vector in table.hidden)) if name not in kept]
    if more:
        raise BadInput(
            f"{more[:5]} take {access_to(more[0])}-box access; a head for {access}-box access cannot use them"
        )
