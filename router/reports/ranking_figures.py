"""Pictures of ranking: the ROC and the risk–coverage curve, beside simpler scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.text import printable
from ...evaluation.inputs import Floats
from ...evaluation.metrics.risk_coverage import RiskCoverage, risk_coverage_curve
from .curves import roc
from .figure import Figure, Table
from .judged import MEAN_LOGPROB, Judged
from .single_signals import Alone
from .svg import Axis, Chart, share_axis
from .words import number, of, with_interval

_NAME = 25
_FIRST = 10


@dataclass(frozen=True)
class Ranking:
    """A score that ranks the rows that have it; drawn beside the fused one.

    Attributes:
        rows: (n,) which rows have it.
        scores: (m,) of those, higher is surer.
    """

    name: str
    style: str
    rows: np.ndarray
    scores: Floats
    auroc: str


def rankings(data: Judged, signals: Sequence[Alone]) -> list[Ranking]:
    """The fused confidence, the best single signal, and the mean log-probability, where they are known."""
    everything = np.ones(data.n, dtype=np.bool_)
    found = [Ranking("Demur (fused)", "c1", everything, data.confidence, with_interval(data.metrics["auroc"]))]
    by_name = {one.name: one for one in signals}
    best = signals[0] if signals else None
    for name, style, label in (
        (best.name if best else "", "c2 dashed", f"best signal: {printable(best.name, _NAME)}" if best else ""),
        (MEAN_LOGPROB, "c3 dashdot", "mean log-prob"),
    ):
        if name in by_name and not (label == "mean log-prob" and best is not None and best.name == MEAN_LOGPROB):
            one = by_name[name]
            there = np.isfinite(data.signals[name])
            area = with_interval({"value": one.auroc, "low": one.low, "high": one.high})
            found.append(Ranking(label, style, there, one.oriented(data.signals[name][there]), area))
    return found


def roc_figure(data: Judged, shown: Sequence[Ranking]) -> Figure:
    """Right answers kept against wrong ones let through."""
    title = "Are right answers surer than wrong ones?"
    if roc(data.confidence, data.correct) is None:
        word = "right" if data.right else "wrong"
        return Figure("roc", title, f"All {data.n:,} answers are {word}: a ROC curve needs both.", None, None)
    chart = Chart(
        "roc",
        "ROC curve",
        "Share of right answers kept against share of wrong answers let through, as the threshold falls. "
        + "; ".join(f"{one.name}: AUROC {one.auroc}" for one in shown),
        share_axis("wrong answers let through"),
        share_axis("right answers kept"),
    )
    chart.line((0.0, 1.0), (0.0, 1.0), "c4 dotted")
    grid = np.linspace(0.0, 1.0, 11)
    columns = []
    for one in shown:
        curve = roc(one.scores, data.correct[one.rows])
        if curve is None:
            continue
        chart.line(list(curve.wrong_kept), list(curve.right_kept), one.style, name=one.name)
        columns.append((one.name, np.interp(grid, curve.wrong_kept, curve.right_kept)))
    table = Table(
        ("wrong let through", *(name for name, _ in columns)),
        tuple((f"{x:.1f}", *(number(float(column[place])) for _, column in columns)) for place, x in enumerate(grid)),
    )
    return Figure(
        "roc",
        title,
        "The further up and to the left, the better; the diagonal is chance.",
        chart.svg(),
        table,
        tuple(f"{one.name}: AUROC {one.auroc}, {int(one.rows.sum()):,} answers" for one in shown),
    )


def risk_coverage_figure(data: Judged, shown: Sequence[Ranking]) -> Figure:
    """Wrong among the answered, as more is answered."""
    curves = [(one, risk_coverage_curve(one.scores, data.correct[one.rows])) for one in shown]
    drawn = [_settled(curve, one.scores.size) for one, curve in curves]
    error = 1.0 - data.right / data.n
    top = min(
        1.0, max(0.1, *(float(curve.risk[there].max()) for (_, curve), there in zip(curves, drawn, strict=True))) * 1.1
    )
    step = 0.2 if top > 0.5 else (0.1 if top > 0.2 else 0.05)
    ticks = tuple(round(step * place, 2) for place in range(int(top / step + 1e-9) + 1))
    chart = Chart(
        "risk",
        "Risk–coverage curve",
        f"Share of wrong answers among those given, against the share of questions answered, surest first. Answering "
        f"everything, {of(data.n - data.right, data.n)} are wrong.",
        share_axis("share of questions answered, surest first"),
        Axis("wrong among the answered", 0.0, top, ticks),
    )
    chart.line((0.0, 1.0), (error, error), "c4 dotted", name="without any confidence")
    grid = np.linspace(0.1, 1.0, 10)
    columns = []
    for (one, curve), there in zip(curves, drawn, strict=True):
        chart.line(list(curve.coverage[there]), list(curve.risk[there]), one.style, name=one.name)
        places = np.minimum(np.searchsorted(curve.coverage, grid - 1e-9), curve.coverage.size - 1)
        columns.append((one.name, curve.risk[places]))
    table = Table(
        ("answered, at least", *(name for name, _ in columns)),
        tuple((f"{x:.1f}", *(number(float(column[place])) for _, column in columns)) for place, x in enumerate(grid)),
    )
    return Figure(
        "risk",
        "How many errors go with how many answers?",
        "Read from right to left: answering fewer questions, the surest ones, should leave fewer wrong answers.",
        chart.svg(),
        table,
        (f"Drawn from the {_FIRST} surest answers on (of fewer than {10 * _FIRST}, from a tenth on).",),
    )


def _settled(curve: RiskCoverage, n: int) -> NDArray[np.bool_]:
    """Points that rest on more than the first few answers, whose risk jumps between 0 and 1."""
    return curve.coverage * n >= min(_FIRST, n / 10.0) - 1e-9
