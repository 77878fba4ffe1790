"""Fitting an artefact: the heads of the first draft, then those of later routes with their success chances."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike

from ...core.decision import Route, Stage
from ...core.errors import BadInput, ConfigurationError, NotEnoughLabels
from ...core.protocols import Fingerprint, Model
from ...core.record import content_hash
from ...probes.artefact import Artefact
from ...probes.binding import RECORDS, Binding, ModelBinding, hash_ids
from ...probes.calibration.registry import make_calibrator
from ...probes.fit_head import fit_head
from ...probes.fusion_settings import METHODS
from ...probes.head import Head
from ...probes.signal_table import SignalTable
from ...probes.success_chance import fit_success_chance
from .fit_access import lesser_heads
from .table import GradedTable

ANSWER = "answer"
WHOLE_TEXT = "whole-text/1"
"""The answer is the response's text as it is."""

_BEFORE_SCALARS = ("prompt.", "prompt_lens.", "convergence.", "semantic.", "question.")
_BEFORE_VECTORS = ("prompt_last.", "question.")
_LAYER = re.compile(r"\.L(\d+)$")
_TOP = re.compile(r"_top(\d+)$")


class _Options(TypedDict):
    """What all heads of an artefact are fitted with."""

    seed: int
    fitted_at: datetime | None
    method: str
    calibrator: str | None


def check_fusion(method: str, calibrator: str | None) -> None:
    """Are there such a fusion and calibrator? Asked before a model is.

    Raises:
        ConfigurationError: there is none of that name.
    """
    if method not in METHODS:
        raise ConfigurationError(f"fusion {method!r} is none of {', '.join(METHODS)}")
    if calibrator is not None:
        make_calibrator(calibrator)


def extractor_of(model: Model | None) -> str:
    """Name and version of how a model finds the answer in what it writes."""
    return str(getattr(model, "answer_extractor", WHOLE_TEXT))


def records_fingerprint(data: str) -> Fingerprint:
    """Stands for the unknown maker of graded records. It equals no model's: `Artefact.check` refuses every model."""
    return Fingerprint(name="graded records", identity=f"{RECORDS}{data}", pinned=False, prompt="", decoding="")


def fit_artefact(
    rows: GradedTable,
    *,
    task: str,
    grader: tuple[str, str],
    model: Fingerprint | None,
    extractor: str = WHOLE_TEXT,
    seed: int = 0,
    fitted_at: datetime | None = None,
    notes: Iterable[str] = (),
    method: str = "auto",
    calibrator: str | None = None,
) -> Artefact:
    """Fit "answer/after" and, where something is known before generation, "answer/before".

    Beside each stand heads for less access, "@grey" and "@black", to which a call falls for which not enough was
    captured (`fit_access.lesser_heads`); one that cannot be fitted is a note. Layers and top-k are bound as the names
    of the signals tell them, so the router captures what was fitted on.

    Args:
        grader: name and version (`grade.grader_key`).
        model: who answered; None for graded records, which are then named by their hash.
        fitted_at: fixed for builds that must be repeatable: the same rows, seed and moment give the same artefact id.
        method: how signals are fused, see `fit_head`; by itself, stacked from 100 rows of the rarer class.
        calibrator: by name; None chooses.

    Raises:
        NotEnoughLabels: fewer than 10 right or wrong rows, or they are too alike. Too few for the head before
            generation is a note.
        BadInput: no usable signal.
    """
    moment = fitted_at or datetime.now(UTC)
    options: _Options = {"seed": seed, "fitted_at": moment, "method": method, "calibrator": calibrator}
    tools = rows.tools or None
    after = fit_head(rows.table, rows.correct, rows.groups, arm=ANSWER, stage=Stage.AFTER, tools=tools, **options)
    fitted, said = [after], list(notes)
    early = before_table(rows.table)
    if early is not None:
        try:
            before = fit_head(early, rows.correct, rows.groups, arm=ANSWER, stage=Stage.BEFORE, **options)
            fitted.append(before)
        except (NotEnoughLabels, BadInput) as error:
            said.append(f"no head before generation: {error}")
    heads: dict[str, Head] = {}
    for head in fitted:
        table = early if early is not None and head.stage is Stage.BEFORE else rows.table
        called = tools if head.stage is Stage.AFTER else None
        lesser, why_not = lesser_heads(head, table, rows.correct, rows.groups, tools=called, **options)
        heads |= {each.key: each for each in (head, *lesser)}
        said += why_not
    binding = Binding(
        model=ModelBinding.of(model or records_fingerprint(rows.data)),
        task=task,
        extractor=extractor,
        grader=grader[0],
        grader_version=grader[1],
        data=rows.data,
        created_at=moment,
        fit_ids=hash_ids(rows.ids),
        top_k=_top_k(rows.table),
        hidden_layers=_layers(rows.table.hidden),
        lens_layers=lens_layers(rows.table),
        fast_lens_layers=_layers(name for name in rows.table.names if name.startswith("fast_lens.")),
        prompt_lens=any(name.startswith("prompt_lens.") for name in rows.table.names),
        question_logprobs=any(name.startswith("prompt.question_") for name in rows.table.names),
    )
    return Artefact(heads, binding, notes=said)


def with_arm(
    artefact: Artefact,
    arm: str,
    table: SignalTable,
    correct: ArrayLike,
    groups: ArrayLike | None,
    base_probability: ArrayLike,
    *,
    target: Fingerprint | None = None,
    ids: Iterable[str] = (),
    data: str = "",
    head: bool = True,
    seed: int = 0,
    fitted_at: datetime | None = None,
    method: str = "auto",
    calibrator: str | None = None,
) -> Artefact:
    """The artefact with a later route: its head "ARM/after", those for less access, and its success chance.

    Args:
        arm: "retrieve" or "escalate:NAME".
        table, correct, groups: (n,) answers of that route, their grades and their question groups.
        base_probability: (n,) what the artefact says of the first draft of the same calls, on rows that it was not
            fitted on (or out of fold); NaN where it says nothing: these rows count for the head only.
        target: fingerprint of the model escalated to; needed for "escalate:NAME".
        ids: of these rows; evaluation refuses them from now on.
        data: hash of these rows (`GradedTable.data`).
        head: False: only the success chance, say because the larger model shows other signals.
        method, calibrator: see `fit_artefact`.

    Raises:
        ConfigurationError: no such arm, or no fingerprint for an escalation.
        BadInput: the lens of these rows has other layers than the artefact's; lengths differ.
        NotEnoughLabels: fewer than 20 rows for the success chance. Too few for the head is a note.
    """
    route, name = _route_of(arm)
    if (route is Route.ESCALATE) != (target is not None):
        raise ConfigurationError(f"arm {arm!r}: the fingerprint of the target is needed exactly for 'escalate:NAME'")
    base = np.asarray(base_probability, dtype=np.float64)
    grades = np.asarray(correct, dtype=np.float64)
    if base.shape != (len(table),) or grades.shape != (len(table),):
        raise BadInput(f"{len(table)} rows came with {grades.size} grades and {base.size} base probabilities")
    notes = list(artefact.notes)
    heads = dict(artefact.heads)
    binding = artefact.binding
    if head:
        _check_layers(table, binding)
        try:
            options: _Options = {"seed": seed, "fitted_at": fitted_at, "method": method, "calibrator": calibrator}
            fitted = fit_head(table, grades, groups, arm=arm, stage=Stage.AFTER, **options)
            lesser, why_not = lesser_heads(fitted, table, grades, groups, **options)
            heads |= {each.key: each for each in (fitted, *lesser)}
            notes += why_not
        except NotEnoughLabels as error:
            notes.append(f"no head for {arm}: {error}")
    known = np.isfinite(base)
    chance = fit_success_chance(base[known], grades[known], route=route, target=name)
    targets = dict(binding.targets)
    if target is not None and name is not None:
        targets[name] = ModelBinding.of(target)
    bound = binding.model_copy(
        update={
            "targets": targets,
            "feature_schema": "",
            "fit_ids": tuple(sorted({*binding.fit_ids, *hash_ids(ids)})),
            "data": content_hash([binding.data, arm, data]),
            "hidden_layers": tuple(sorted({*binding.hidden_layers, *(_layers(table.hidden) if head else ())})),
        }
    )
    return Artefact(heads, bound, {**artefact.chances, arm: chance}, notes)


def before_table(table: SignalTable) -> SignalTable | None:
    """The part of a table that is known before generation, or None."""
    names = tuple(name for name in table.names if name.startswith(_BEFORE_SCALARS))
    hidden = {name: block for name, block in table.hidden.items() if name.startswith(_BEFORE_VECTORS)}
    if not names and not hidden:
        return None
    directions = dict(zip(table.names, table.directions, strict=True))
    return replace(
        table,
        names=names,
        values=table.columns(names),
        hidden=hidden,
        directions=tuple(directions[name] for name in names),
    )


def lens_layers(table: SignalTable) -> tuple[int, ...]:
    """The layers of the lens probe that made this table."""
    return _layers(name for name in table.names if name.startswith("lens."))


def _layers(names: Iterable[str]) -> tuple[int, ...]:
    return tuple(sorted({int(found[1]) for name in names if (found := _LAYER.search(name))}))


def _top_k(table: SignalTable) -> int:
    return max((int(found[1]) for name in table.names if (found := _TOP.search(name))), default=0)


def _check_layers(table: SignalTable, binding: Binding) -> None:
    layers = lens_layers(table)
    if layers and layers != tuple(binding.lens_layers):
        raise BadInput(
            f"the lens of these rows has layers {layers}, the artefact's has {tuple(binding.lens_layers)}; a router "
            "reads one set: collect with that one, leave the lens out, or fit no head (head=False)"
        )


def _route_of(arm: str) -> tuple[Route, str | None]:
    if arm == Route.RETRIEVE.value:
        return Route.RETRIEVE, None
    kind, _, name = arm.partition(":")
    if kind == Route.ESCALATE.value and name:
        return Route.ESCALATE, name
    raise ConfigurationError(f"arm {arm!r}: use 'retrieve' or 'escalate:NAME'")
