"""The report as one HTML page that needs nothing but itself: no network, no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined

from ...core.text import printable
from ...probes.artefact import Artefact
from ...probes.binding import RECORDS
from ..pipelines.evaluate import Evaluation
from ..pipelines.table import GradedTable
from .baselines import CUTS, Comparison, Tier, compare, tiers
from .calibration_figures import histogram_figure, reliability_figure
from .costs import costs
from .examples import least_sure_right, surest_wrong
from .figure import Figure, Table
from .judged import Judged, judged
from .metric_groups import grouped
from .ranking_figures import rankings, risk_coverage_figure, roc_figure
from .signals_figure import signals_figure
from .single_signals import alone
from .summary import AnsweredAbove, summary
from .utility_figure import utility_figure
from .words import interval, number, of, with_interval

_TEXT = 2000


@dataclass(frozen=True)
class Provenance:
    """Where a report comes from, beyond what the artefact says itself.

    Attributes:
        command: the command line, as typed.
        made_at: when; judging_seconds: what signals → confidence took for all rows, None where not measured.
        seed: of every interval.
    """

    command: str
    made_at: datetime | None = None
    judging_seconds: float | None = None
    seed: int = 0


def report(
    found: Evaluation, rows: GradedTable, artefact: Artefact, provenance: Provenance, *, examples: bool = True
) -> str:
    """The page of what `evaluate_artefact(artefact, rows)` found.

    Args:
        examples: show a handful of answers with their questions; the only texts of rows on the page.

    Raises:
        Refused: no row has a confidence.
    """
    data = judged(found, rows, artefact)
    seed = provenance.seed
    comparison = compare(data, seed=seed)
    told = summary(data, seed=seed)
    page = _template().render(
        task=printable(artefact.binding.task, 80),
        data=data,
        points=told.points,
        cautions=told.cautions,
        above=_above(told.above, data.n),
        figures=_figures(data, seed),
        baselines=_baselines(comparison),
        baseline_notes=comparison.missing,
        tiers=_tiers(data),
        groups=grouped(found.metrics),
        costs=costs(data, rows, provenance.judging_seconds),
        mistakes=(
            ("Surest, and wrong", surest_wrong(data)),
            ("Least sure, and right", least_sure_right(data)),
        )
        if examples
        else (),
        notes=[printable(note, _TEXT) for note in _notes(artefact)],
        facts=_facts(artefact, data, rows, provenance),
        number=number,
        interval=interval,
        shown=printable,
    )
    return page.encode("utf-8", "replace").decode("utf-8")


def _template() -> Any:
    source = files("demur.router.reports").joinpath("template.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(source)


def _figures(data: Judged, seed: int) -> list[Figure]:
    signals = alone(data.signals, data.correct, data.groups, seed=seed)
    shown = rankings(data, signals)
    return [
        reliability_figure(data, seed=seed),
        histogram_figure(data),
        roc_figure(data, shown),
        risk_coverage_figure(data, shown),
        utility_figure(data),
        signals_figure(data, signals),
    ]


def _above(rows: Sequence[AnsweredAbove], n: int) -> Table:
    return Table(
        ("only from", "answered", "right of these", "95 % interval", "wrong answers given", "right ones withheld"),
        tuple(
            (
                f"{row.threshold:g}",
                of(row.answered, n),
                of(row.right, row.answered),
                interval(row.low, row.high),
                f"{row.wrong:,}",
                f"{row.withheld_right:,}",
            )
            for row in rows
        ),
    )


def _baselines(comparison: Comparison) -> Table:
    return Table(
        ("confidence", "AUROC", "Brier", "smECE", "AURC", "worth at τ .1", "at .5", "at .9", "answers"),
        tuple(
            (
                f"{one.name}: {one.note}",
                with_interval(one.auroc.as_row()),
                with_interval(one.brier.as_row()),
                number(one.smece),
                number(one.aurc),
                *(number(worth) for worth in one.utility),
                f"{one.confidence.size:,}",
            )
            for one in comparison.methods
        ),
    )


def _tiers(data: Judged) -> list[tuple[str, Table]]:
    found = []
    for source, cuts in CUTS:
        rows = list(_tier_rows("Demur", tiers(data.confidence, data.correct, data.groups, cuts), data.n))
        raw = data.raw
        if raw is not None:
            there = np.isfinite(raw)
            of_raw = tiers(raw[there], data.correct[there], data.groups[there], cuts)
            rows += _tier_rows("raw", of_raw, int(there.sum()))
        headings = ("confidence, tier", "share of answers", "right of these", "95 % interval")
        found.append((source, Table(headings, tuple(rows))))
    return found


def _tier_rows(name: str, found: Sequence[Tier], n: int) -> list[tuple[str, ...]]:
    return [
        (
            f"{name}, {tier.low:g} to {tier.high:g}: {tier.route.value}",
            of(tier.rows, n),
            of(tier.right, tier.rows),
            interval(tier.accuracy.low, tier.accuracy.high),
        )
        for tier in found
    ]


def _notes(artefact: Artefact) -> list[str]:
    of_heads = (f"{head.key}: {note}" for head in artefact.heads.values() for note in head.notes)
    return list(dict.fromkeys([*artefact.notes, *of_heads]))


def _facts(artefact: Artefact, data: Judged, rows: GradedTable, provenance: Provenance) -> list[tuple[str, str]]:
    from ...probes.binding import current_versions

    bound = artefact.binding
    by_records = bound.model.identity.startswith(RECORDS)
    made = provenance.made_at or datetime.now(UTC)
    facts = [
        ("task", bound.task),
        ("model", "unknown: fitted on graded records" if by_records else bound.model.name),
        ("grader", bound.grader if not bound.grader_version else f"{bound.grader} {bound.grader_version}"),
        ("rows", f"{data.rows:,}, {data.n:,} of them with a confidence"),
        ("data", f"SHA-256 {rows.data}"),
        ("artefact", artefact.id),
        ("fitted", f"{bound.created_at:%Y-%m-%d %H:%M} UTC, on {of(data.fitted_right, data.fitted_rows, 'right')}"),
        ("report made", f"{made:%Y-%m-%d %H:%M} UTC, by Demur {current_versions()['demur']}, seed {provenance.seed}"),
        ("command", provenance.command),
    ]
    return [(name, printable(value, _TEXT)) for name, value in facts if value]
