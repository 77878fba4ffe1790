"""Judging an artefact on rows that it was not fitted on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.decision import Stage
from ...core.errors import ArtefactMismatch, Refused
from ...core.signal import Unavailable
from ...core.text import printable
from ...evaluation.estimate import Estimate
from ...evaluation.evaluate import evaluate
from ...evaluation.evaluate_related import along_conversations, within_questions
from ...evaluation.inputs import Floats
from ...evaluation.metrics.proportion import proportion
from ...probes.artefact import Artefact
from ...probes.head import Head
from .baseline import against_baseline
from .fit import ANSWER
from .table import GradedTable

Row = dict[str, Any]


@dataclass(frozen=True)
class Evaluation:
    """What `demur eval` writes.

    Attributes:
        scores: a row each: id, response, correct, probability, low, high (null where there is none) and signals.
        metrics: by name: value, low, high, n, and the reason where something is missing.
    """

    scores: tuple[Row, ...]
    metrics: dict[str, Row]


def check_overlap(artefact: Artefact, ids: Sequence[str], *, allow: bool = False) -> tuple[str, ...]:
    """The ids that the artefact was fitted on.

    Raises:
        Refused: there are some, and it is not allowed: figures on them would flatter.
    """
    found = artefact.overlap(ids)
    if found and not allow:
        shown = ", ".join(repr(printable(row_id, 60)) for row_id in found[:5])
        raise Refused(
            f"{len(found)} of {len(ids)} rows were used for fitting this artefact ({shown}"
            f"{', …' if len(found) > 5 else ''}); figures on them would flatter. Evaluate on other rows, or say "
            "--allow-overlap"
        )
    return found


def evaluate_artefact(artefact: Artefact, rows: GradedTable, *, seed: int = 0, overlapping: int = 0) -> Evaluation:
    """Score every row with the heads of the first draft, as the router does (`Artefact.heads_for`), and measure.

    A row with too few signals gets no probability and counts in no metric but `unavailable` and `accuracy_all_rows`.
    The base rate in `brier_base_rate` is that of the fitted rows, not of these. Where a question was answered more than
    once, or rows name their conversation, the figures within these are there, too.

    Args:
        overlapping: how many of the rows were fitted on, to be written beside the figures.

    Raises:
        ArtefactMismatch: the artefact has no head for the first draft.
        Refused: no row carries enough signals to be scored.
    """
    head = artefact.head(ANSWER, Stage.AFTER)
    if head is None:
        raise ArtefactMismatch(f"artefact {artefact.id[:16]} has no head 'answer/after'; fit one with `demur fit`")
    said = artefact.predict_table(rows.table, ANSWER, Stage.AFTER, rows.tools or None)
    if not said.available.any():
        raise Refused(f"none of the {len(rows)} rows can be scored: {_why(head, rows)}")
    there = said.available
    metrics = evaluate(
        said.probability[there],
        rows.correct[there],
        groups=rows.groups[there],
        seed=seed,
        base_rate=head.right / head.labels,
    )
    every = [
        *metrics.values(),
        *_of_related_rows(said.probability, there, rows, seed=seed),
        *against_baseline(said.probability, rows, rows.groups, seed=seed),
    ]
    every.append(proportion("accuracy_all_rows", rows.correct, groups=rows.groups))
    found: dict[str, Row] = {item.name: item.as_row() for item in every}
    found["unavailable"] = _count(int((~there).sum()), len(rows))
    if overlapping:
        found["overlap"] = _count(overlapping, len(rows))
    names, values = _all_signals(head, rows)
    scores = tuple(
        {
            "id": rows.ids[row],
            "response": rows.responses[row],
            "correct": bool(rows.correct[row]),
            "probability": _number(said.probability[row]),
            "low": _number(said.low[row]),
            "high": _number(said.high[row]),
            "signals": {name: _number(value) for name, value in zip(names, values[row], strict=True)},
        }
        for row in range(len(rows))
    )
    return Evaluation(scores, found)


def _of_related_rows(
    probability: Floats, there: NDArray[np.bool_], rows: GradedTable, *, seed: int
) -> Iterator[Estimate]:
    """What can be said of answers to one question and of turns of one conversation; nothing where there are none."""
    places = np.flatnonzero(there)
    confidence, correct, groups = probability[there], rows.correct[there], rows.groups[there]
    if rows.questions:
        # The same text, not near-duplicates: those may have other answers.
        codes = _codes(rows.questions[place] for place in places)
        if codes.max() + 1 < codes.size:
            yield from within_questions(confidence, correct, codes, groups=groups, seed=seed)
    placed = [k for k, place in enumerate(places) if rows.conversations and rows.conversations[place] is not None]
    if placed:
        yield from along_conversations(
            confidence[placed],
            correct[placed],
            _codes(rows.conversations[places[k]] for k in placed),
            [rows.turns[places[k]] for k in placed],
            groups=groups[placed],
            seed=seed,
        )


def _codes(values: Iterable[str | None]) -> NDArray[np.intp]:
    every = list(values)
    numbers = {value: number for number, value in enumerate(dict.fromkeys(every))}
    return np.array([numbers[value] for value in every], dtype=np.intp)


def _count(value: int, rows: int) -> Row:
    """A plain count beside the estimates: known exactly, so its interval is itself."""
    return {"value": value, "low": value, "high": value, "n": rows}


def _all_signals(head: Head, rows: GradedTable) -> tuple[list[str], np.ndarray]:
    """The table's signals, and the scores of the head's hidden-state probes."""
    own = [probe.name for probe in head.probes.values()]
    fused = dict(zip(head.fusion.names, head.values(rows.table).T, strict=True))
    columns = [rows.table.values, *(fused[name][:, None] for name in own)]
    return [*rows.table.names, *own], np.concatenate(columns, axis=1)


def _number(value: float) -> float | None:
    """JSON knows no NaN."""
    return float(value) if math.isfinite(value) else None


def _why(head: Head, rows: GradedTable) -> str:
    said = head.predict(rows.table.signals(0), rows.table.vectors(0))
    return said.reason if isinstance(said, Unavailable) else "too few signals"
