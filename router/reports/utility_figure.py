"""Picture of utility: what acting on the confidence is worth, whatever a wrong answer costs."""

from __future__ import annotations

import numpy as np

from .curves import utility_over_thresholds
from .figure import Figure, Table
from .judged import Judged
from .svg import Axis, Chart, share_axis
from .words import number

_LOWEST = -1.0
_STEP = 0.2


def utility_figure(data: Judged) -> Figure:
    """What answering above each threshold is worth where the stakes make that threshold the right one."""
    thresholds = np.linspace(0.01, 0.99, 99)
    lines = [("Demur (fused)", "c1", utility_over_thresholds(data.confidence, data.correct, thresholds))]
    raw = data.raw
    if raw is not None and np.isfinite(raw).all():
        lines.append(("raw (sum of log-probs)", "c2 dashed", utility_over_thresholds(raw, data.correct, thresholds)))
    everything = utility_over_thresholds(np.ones(data.n), data.correct, thresholds)
    lines.append(("always answer", "c3 dashdot", everything))
    lowest = min(0.0, *(float(values.min()) for _, _, values in lines[:-1]), -0.1)
    low = max(_LOWEST, np.floor(lowest * 5.0) / 5.0)
    high = max(0.2, float(np.ceil(5.0 * max(float(values.max()) for _, _, values in lines)) / 5.0))
    ticks = tuple(round(float(tick), 1) for tick in np.arange(low, high + 0.01, 0.2))
    chart = Chart(
        "utility",
        "Utility over thresholds",
        "Mean worth of a question when answers above threshold τ are given: right +1, withheld 0, wrong −τ/(1−τ). "
        "The more a wrong answer costs, the higher τ. Never answering is worth 0.",
        share_axis("threshold τ: how sure one must be"),
        Axis("mean worth of a question", float(low), high, ticks),
    )
    chart.line((0.0, 1.0), (0.0, 0.0), "c4 dotted", name="never answer")
    for name, style, values in lines:
        chart.line(list(thresholds), list(values), style, name=name)
    chosen = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
    rows = []
    for threshold in chosen:
        place = round(threshold * 100) - 1
        wrong = f"{number(-threshold / (1.0 - threshold))}"
        rows.append((f"{threshold:g}", wrong, *(number(float(values[place])) for _, _, values in lines)))
    table = Table(("threshold τ", "a wrong answer costs", *(name for name, _, _ in lines)), tuple(rows))
    area = data.metrics.get("etcu_auc", {}).get("value")
    mean = float(lines[0][2].mean()) if area is None else area
    return Figure(
        "utility",
        "What is acting on it worth?",
        "A confidence pays where its line lies above both “always answer” and “never answer”.",
        chart.svg(),
        table,
        (f"Demur's mean over all thresholds: {number(mean)} ({data.n:,} answers).",),
    )
