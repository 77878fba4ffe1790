"""Picture of the signals: what each tells by itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.text import printable
from .figure import Figure, Table
from .judged import Judged
from .single_signals import INTERVALS, Alone
from .svg import Axis, Chart
from .words import number, with_interval

_NAME = 26
_MOST_LISTED = 500


def signals_figure(data: Judged, found: Sequence[Alone]) -> Figure:
    """Each signal alone, the best ones as a picture."""
    title = "What does each signal tell by itself?"
    if not found:
        return Figure("signals", title, "No signal can be ranked: all answers are of one class.", None, None)
    best = list(found[:INTERVALS])
    fused = data.metrics["auroc"]
    low = min([0.5, *(one.low for one in best if one.low is not None)])
    start = np.floor(low * 10.0 - 1e-9) / 10.0
    names = ["Demur (fused)", *(_short(one.name) for one in best)]
    places = [float(place) for place in range(len(names), 0, -1)]
    chart = Chart(
        "signals",
        f"AUROC of the {len(best)} best signals alone",
        f"Dots with 95 % intervals; .5 is chance. The fused confidence has {with_interval(fused)}, the best single "
        f"signal, {printable(best[0].name, 80)}, {number(best[0].auroc)}.",
        Axis("AUROC (.5 is chance)", float(start), 1.0, tuple(np.round(np.arange(start, 1.01, 0.1), 1).tolist())),
        Axis("", 0.4, len(names) + 0.6, tuple(places), tuple(names)),
        height=20 * len(names) + 12,
        left=208,
    )
    chart.line((0.5, 0.5), (0.0, len(names) + 1.0), "c4 dotted")
    rows = [(fused["value"], fused["low"], fused["high"]), *((one.auroc, one.low, one.high) for one in best)]
    for place, (value, lower, upper) in zip(places, rows, strict=True):
        style = "c1" if place == places[0] else "c2"
        if lower is not None and upper is not None:
            chart.line((lower, upper), (place, place), style)
        if value is not None:
            chart.dot(value, place, style)
    table = Table(
        ("signal", "AUROC", "sure when", "in the fusion", "answers"),
        tuple(
            (
                printable(one.name, 120),
                with_interval({"value": one.auroc, "low": one.low, "high": one.high}),
                "low" if one.lower_is_surer else "high",
                "yes" if one.name in data.used else "no",
                f"{one.n:,}",
            )
            for one in found[:_MOST_LISTED]
        ),
    )
    return Figure(
        "signals",
        title,
        f"AUROC of each signal alone, the best {len(best)} of {len(found)}, with 95 % intervals.",
        chart.svg(),
        table,
        (
            "Which signal is best, and which way round it points, was read off these very rows: with hindsight, so the "
            "best single signal looks better here than it would on others.",
        ),
    )


def _short(name: str) -> str:
    shown = printable(name, 200)
    return shown if len(shown) <= _NAME else f"{shown[: _NAME - 11]}…{shown[-10:]}"
