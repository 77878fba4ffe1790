"""What stands in the pictures, read back from their marks, is what was measured; the examples are the right ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from demur.evaluation.metrics.risk_coverage import risk_coverage_curve
from demur.router.reports.calibration_figures import histogram_figure, reliability_figure
from demur.router.reports.curves import reliability
from demur.router.reports.examples import least_sure_right, surest_wrong
from demur.router.reports.judged import Judged, judged
from demur.router.reports.ranking_figures import rankings, risk_coverage_figure, roc_figure
from demur.router.reports.signals_figure import signals_figure
from demur.router.reports.single_signals import alone
from demur.router.reports.svg import Axis, Chart, share_axis, thinned
from demur.router.reports.utility_figure import utility_figure

World = Callable[..., Any]


@pytest.fixture(scope="module")
def data(world: World) -> Judged:
    one = world()
    return judged(one.found, one.rows, one.artefact)


def lines(picture: Any, style: str) -> list[np.ndarray]:
    """Points of the polylines of a style that are no legend's, as shares of the frame, (k, 2)."""
    frame = re.search(r'<rect class="frame" x="(\d+)" y="0" width="(\d+)" height="(\d+)"/>', picture)
    assert frame is not None
    left, width, height = (float(number) for number in frame.groups())
    plot = picture[picture.index('<g clip-path="url(#') :]
    found = []
    for text in re.findall(rf'<polyline class="line {style}" points="(.*?)"/>', plot):
        points = np.array([[float(number) for number in pair.split(",")] for pair in text.split()])
        found.append(np.column_stack([(points[:, 0] - left) / width, 1.0 - points[:, 1] / height]))
    return found


def test_the_area_under_the_drawn_roc_curve_is_the_metric(data: Judged) -> None:
    signals = alone(data.signals, data.correct, data.groups)
    figure = roc_figure(data, rankings(data, signals))
    (fused,) = lines(figure.picture, "c1")
    assert np.trapezoid(fused[:, 1], fused[:, 0]) == pytest.approx(data.metrics["auroc"]["value"], abs=2e-3)
    (best,) = lines(figure.picture, "c2 dashed")
    assert np.trapezoid(best[:, 1], best[:, 0]) == pytest.approx(signals[0].auroc, abs=2e-3)
    assert f"AUROC {data.metrics['auroc']['value']:.3f}" in figure.notes[0]
    assert figure.table is not None
    assert [row[0] for row in figure.table.rows] == [f"{place / 10:.1f}" for place in range(11)]
    assert all(cell == "1.000" for cell in figure.table.rows[-1][1:])


def test_the_drawn_risk_coverage_curve_ends_at_the_error_rate(data: Judged) -> None:
    figure = risk_coverage_figure(data, rankings(data, []))
    curve = risk_coverage_curve(data.confidence, data.correct)
    (drawn,) = lines(figure.picture, "c1")
    (reference,) = lines(figure.picture, "c4 dotted")
    assert drawn[-1] == pytest.approx([1.0, reference[0, 1]], abs=2e-3)
    assert drawn[0, 0] >= 10 / data.n - 2e-3  # not from the first answer on
    assert figure.table is not None
    assert figure.table.rows[-1][0] == "1.0"
    assert float(figure.table.rows[-1][1]) == pytest.approx(1.0 - data.correct.mean(), abs=5.1e-4)
    half = figure.table.rows[4]
    assert half == ("0.5", f"{curve.risk[np.searchsorted(curve.coverage, 0.5 - 1e-9)]:.3f}")
    assert float(half[1]) == pytest.approx(1.0 - data.metrics["selective_accuracy_at_50_coverage"]["value"], abs=5.1e-4)


def test_the_bars_are_as_high_as_the_counts(data: Judged) -> None:
    figure = histogram_figure(data)
    assert figure.picture is not None and figure.table is not None
    plot = figure.picture[figure.picture.index('<g clip-path="url(#') :]
    for style, column in (("c1", 1), ("c2 pale", 2)):
        heights = [float(h) for h in re.findall(rf'<rect class="bar {style}" [^>]*height="(.*?)"/>', plot)]
        counts = [int(row[column]) for row in figure.table.rows if int(row[column])]
        assert len(heights) == len(counts)
        assert np.array(heights) / heights[0] == pytest.approx(np.array(counts) / counts[0], rel=0.02)
    assert sum(int(row[1]) for row in figure.table.rows) == data.right
    assert sum(int(row[1]) + int(row[2]) for row in figure.table.rows) == data.n


def test_the_drawn_reliability_is_the_curve(data: Judged) -> None:
    figure = reliability_figure(data)
    curve = reliability(data.confidence, data.correct, data.groups)
    drawn = np.concatenate(lines(figure.picture, "c1"))
    assert drawn[:, 0] == pytest.approx(curve.confidence, abs=1e-3)
    assert drawn[:, 1] == pytest.approx(curve.observed, abs=1e-3)


def test_the_table_of_utility_is_etcu(data: Judged) -> None:
    figure = utility_figure(data)
    assert figure.table is not None
    rows = {row[0]: row for row in figure.table.rows}
    assert figure.table.headings == (
        "threshold τ",
        "a wrong answer costs",
        "Demur (fused)",
        "raw (sum of log-probs)",
        "always answer",
    )
    above = data.confidence > 0.9
    worth = (data.correct[above].sum() - 9.0 * (1.0 - data.correct[above]).sum()) / data.n
    assert rows["0.9"][1] == "−9.000"
    assert rows["0.9"][2] == f"{worth:.3f}".replace("-", "−")
    assert rows["0.5"][4] == f"{2.0 * data.correct.mean() - 1.0:.3f}".replace("-", "−")
    (fused,) = lines(figure.picture, "c1")
    assert fused.shape == (99, 2)


def test_signals_are_drawn_best_first_below_the_fused_confidence(data: Judged) -> None:
    signals = alone(data.signals, data.correct, data.groups)
    figure = signals_figure(data, signals)
    assert figure.picture is not None and figure.table is not None
    across = [float(x) for x in re.findall(r'<circle class="dot c2" cx="(.*?)"', figure.picture)]
    assert len(across) == len(signals) and across == sorted(across, reverse=True)
    assert [row[0] for row in figure.table.rows] == [one.name for one in signals]
    assert {row[0]: row[3] for row in figure.table.rows}["votes"] == "yes"


def test_the_examples_are_the_surest_wrong_and_the_least_sure_right(data: Judged) -> None:
    wrong, right = surest_wrong(data), least_sure_right(data)
    assert len(wrong) == len(right) == 5
    places = {row_id: place for place, row_id in enumerate(data.ids)}
    assert all(data.correct[places[one.row]] == 0.0 for one in wrong)
    assert all(data.correct[places[one.row]] == 1.0 for one in right)
    assert float(wrong[0].confidence) == pytest.approx(data.confidence[data.correct == 0.0].max(), abs=5.1e-3)
    assert float(right[0].confidence) == pytest.approx(data.confidence[data.correct == 1.0].min(), abs=5.1e-3)
    assert [one.confidence for one in wrong] == sorted((one.confidence for one in wrong), reverse=True)
    assert wrong[0].question == data.questions[places[wrong[0].row]]


def test_a_chart_puts_values_where_they_belong() -> None:
    chart = Chart("a", "t", "d", share_axis("x"), Axis("y", -1.0, 1.0, (-1.0, 0.0, 1.0)), left=40, width=254)
    chart.line((0.0, 0.5, 1.0), (-1.0, 0.0, 1.0), "c1")
    (drawn,) = lines(chart.svg(), "c1")
    assert drawn == pytest.approx(np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]]))
    assert ">−1</text>" in chart.svg()


def test_long_lines_are_thinned_and_keep_their_ends() -> None:
    xs = np.arange(10_000) / 9_999
    kept = thinned(list(xs), list(xs**2))
    assert len(kept) == 400
    assert (kept[0], kept[-1]) == ((0.0, 0.0), (1.0, 1.0))
