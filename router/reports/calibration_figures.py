"""Pictures of calibration: what the confidences promise, and where they lie."""

from __future__ import annotations

import numpy as np

from .curves import NARROWEST, WIDEST, histogram, reliability
from .figure import Figure, Table
from .judged import Judged
from .svg import Axis, Chart, share_axis
from .words import number

_TABLE_ROWS = 21


def reliability_figure(data: Judged, *, seed: int = 0) -> Figure:
    """Promised against kept."""
    curve = reliability(data.confidence, data.correct, data.groups, seed=seed)
    chart = Chart(
        "reliability",
        "Reliability: how often answers of each confidence were right",
        f"Smoothed share of right answers against confidence, {data.n} answers. On the diagonal the confidence means "
        "what it says; below it the model is overconfident, above it underconfident.",
        share_axis("confidence"),
        share_axis("share that was right"),
    )
    chart.line((0.0, 1.0), (0.0, 1.0), "c4 dotted", name="what the confidence promises")
    for part in curve.parts():
        if np.isfinite(curve.low[part]).all():
            chart.band(list(curve.confidence[part]), list(curve.low[part]), list(curve.high[part]), "c1")
        chart.line(list(curve.confidence[part]), list(curve.observed[part]), "c1")
    if np.isfinite(curve.low).any():
        chart.key("band", "c1", "95 % band")
    chart.key("line", "c1", "what happened (smooth)")
    shown = np.arange(0, curve.confidence.size, max(1, round(curve.confidence.size / _TABLE_ROWS)))
    table = Table(
        ("confidence", "share right", "95 % band", "rows behind it"),
        tuple(
            (
                f"{curve.confidence[place]:.2f}",
                number(float(curve.observed[place])),
                "–"
                if np.isnan(curve.low[place])
                else f"[{number(float(curve.low[place]))}, {number(float(curve.high[place]))}]",
                f"{curve.rows[place]:.0f}",
            )
            for place in shown
        ),
    )
    return Figure(
        "reliability",
        "Does .7 mean 7 in 10?",
        "The line should follow the diagonal. Below it, answers are right less often than the confidence says.",
        chart.svg(),
        table,
        (
            f"Smoothed residuals on top of the diagonal, Gaussian kernel of width {curve.width:.3f}: that of smECE "
            f"(arXiv 2309.12236) within {NARROWEST:g} and {WIDEST:g}. Drawn where enough rows are near.",
        ),
    )


def histogram_figure(data: Judged) -> Figure:
    """Where the confidences lie."""
    bins = histogram(data.confidence, data.correct)
    most = int((bins.right + bins.wrong).max())
    step = _step(most)
    high = step * -(-most // step)
    chart = Chart(
        "histogram",
        "Histogram of confidences",
        f"Number of answers by confidence, in steps of .05, right ones at the bottom and wrong ones above; "
        f"{data.n} answers, at most {most} in one step.",
        share_axis("confidence"),
        Axis("answers", 0.0, float(high), tuple(float(tick) for tick in range(0, high + 1, step))),
    )
    for place, (right, wrong) in enumerate(zip(bins.right.tolist(), bins.wrong.tolist(), strict=True)):
        start, end = bins.edges[place] + 0.004, bins.edges[place + 1] - 0.004
        if right:
            chart.bar(start, end, 0.0, right, "c1")
        if wrong:
            chart.bar(start, end, right, right + wrong, "c2 pale")
    chart.key("bar", "c1", f"right ({data.right:,})")
    chart.key("bar", "c2 pale", f"wrong ({data.n - data.right:,})")
    rows = tuple(
        (f"{bins.edges[place]:.2f} to {bins.edges[place + 1]:.2f}", str(right), str(wrong))
        for place, (right, wrong) in enumerate(zip(bins.right.tolist(), bins.wrong.tolist(), strict=True))
        if right + wrong
    )
    return Figure(
        "histogram",
        "Where do the confidences lie?",
        "A useful confidence spreads: wrong answers to the left, right ones to the right.",
        chart.svg(),
        Table(("confidence", "right", "wrong"), rows),
    )


def _step(most: int) -> int:
    """A round step that gives about five ticks."""
    for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000):
        if most <= 5 * step:
            return step
    return max(1, most // 5)
