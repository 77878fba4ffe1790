"""The sentences: counts with every share, thresholds counted by hand, cautions where they belong."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.evaluation.evaluate import evaluate
from demur.evaluation.metrics.registry import METRICS
from demur.router.reports.judged import Judged
from demur.router.reports.metric_groups import OTHER, grouped
from demur.router.reports.summary import answered_above, summary
from demur.router.reports.words import about, answers, interval, number, of

World = Callable[..., Any]


def data_of(confidence: list[float], correct: list[float], fitted: tuple[int, int] = (0, 0)) -> Judged:
    scores, labels = np.array(confidence), np.array(correct)
    n = scores.size
    metrics = {name: item.as_row() for name, item in evaluate(scores, labels, resamples=100).items()}
    return Judged(
        ids=("",) * n,
        questions=("",) * n,
        responses=("",) * n,
        confidence=scores,
        correct=labels,
        groups=np.arange(n),
        signals={},
        used=frozenset(),
        metrics=metrics,
        rows=n,
        fitted_rows=fitted[1],
        fitted_right=fitted[0],
    )


@pytest.mark.parametrize(
    ("part", "n", "said"),
    [
        (0, 5, "none"),
        (5, 5, "all"),
        (70, 100, "about 7 in 10"),
        (69, 100, "about 7 in 10"),
        (82, 100, "about 8 in 10"),
        (145, 1000, "about 3 in 20"),
        (250, 1000, "about 1 in 4"),
        (75, 100, "about 3 in 4"),
        (51, 100, "about half"),
        (3, 100, "about 3 in 100"),
        (97, 100, "about 97 in 100"),
        (1, 1000, "fewer than 1 in 100"),
        (999, 1000, "more than 99 in 100"),
        (35, 36, "nearly all"),
        (1, 36, "hardly any"),
        (0, 0, "none"),
    ],
)
def test_shares_in_words(part: int, n: int, said: str) -> None:
    assert about(part, n) == said


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_words_are_never_far_from_the_share(counts: tuple[int, int]) -> None:
    part, n = counts
    found = re.fullmatch(r"about (\d+) in (\d+)", about(part, n))
    if found:
        assert abs(int(found[1]) / int(found[2]) - part / n) <= 0.0251
    elif about(part, n) == "about half":
        assert abs(part / n - 0.5) <= 0.0251
    assert of(part, n).startswith(f"{part:,} of {n:,}")


def test_numbers_in_tables() -> None:
    assert (number(None), number(1234), number(-0.5), number(0.12345)) == ("–", "1,234", "−0.500", "0.123")
    assert interval(None, None) == "–" and interval(-0.1, 0.2) == "[−0.100, 0.200]"
    assert (answers(1), answers(2000), of(0, 0), of(2, 2)) == ("1 answer", "2,000 answers", "–", "2 of 2")
    assert (of(2, 3), of(2, 30, "rows")) == ("2 of 3", "2 of 30 rows (about 1 in 20)")


def test_what_is_answered_above_a_threshold_is_counted() -> None:
    row = answered_above(data_of([0.9, 0.8, 0.7, 0.7, 0.2, 0.1], [1, 0, 1, 1, 1, 0]), 0.7)
    assert (row.answered, row.right, row.wrong, row.withheld_right) == (4, 3, 1, 1)
    # Beta(1, 1) after 3 of 4.
    assert (row.low, row.high) == pytest.approx((0.2836, 0.9473), abs=1e-4)
    none = answered_above(data_of([0.1, 0.2], [1, 0]), 0.7)
    assert (none.answered, none.low, none.withheld_right) == (0, None, 1)


def sentences(data: Judged) -> tuple[list[str], tuple[str, ...]]:
    told = summary(data)
    return [point.answer for point in told.points], told.cautions


def test_a_confidence_of_nine_tenths_is_told_by_the_rows_near_it() -> None:
    data = data_of([0.9] * 40 + [0.2] * 160, [1] * 36 + [0] * 4 + [1] * 32 + [0] * 128)
    said, cautions = sentences(data)
    assert said[0].startswith("68 of 200 answers (about 7 in 20) were right.")
    assert "40 answers had a confidence between .85 and .95. 36 of 40 (about 9 in 10) of these were right" in said[2]
    assert "from .90 up would answer 40 of 200 questions (about 2 in 10); 36 of 40 (about 9 in 10)" in said[3]
    assert "The other 160 would go elsewhere" in said[3] and "32 of them had been right" in said[3]
    assert "no fault can be seen" in said[4]
    assert cautions == ()


def test_without_rows_near_nine_tenths_the_surest_speak() -> None:
    said, _ = sentences(data_of([0.6] * 20 + [0.3] * 180, [1] * 14 + [0] * 6 + [1] * 54 + [0] * 126))
    assert said[2].startswith("No answer had a confidence between .85 and .95, too few to say. The 20 surest")
    assert "14 of 20 (about 7 in 10) like these were right" in said[2]


def test_overconfidence_is_called_by_its_name() -> None:
    said, cautions = sentences(data_of([0.9] * 150 + [0.8] * 150, ([1] * 60 + [0] * 90) * 2, fitted=(270, 300)))
    assert "On the whole it is too high: 85 in 100 were promised, and 120 of 300 (about 4 in 10) came true" in said[4]
    assert any("fitted where 270 of 300 answers (about 9 in 10) were right" in caution for caution in cautions)


def test_few_rows_one_class_overlap_and_blind_rows_are_cautioned() -> None:
    _, few = sentences(data_of([0.5, 0.6, 0.7], [1, 0, 1]))
    assert any("Only 3 answers were judged" in caution for caution in few)
    assert any("Only 1 of 3 answers was wrong" in caution for caution in few)
    one_class = data_of([0.5, 0.6, 0.7], [1, 1, 1])
    told, cautions = sentences(one_class)
    assert told[1] == "It cannot be told: all 3 answers are right."
    assert any(caution.startswith("All answers were right") for caution in cautions)
    met = {**one_class.metrics, "overlap": {"value": 2, "low": 2, "high": 2, "n": 5}}
    _, cautions = sentences(replace(one_class, metrics=met, rows=5))
    assert any("2 of 5 rows were used for fitting" in caution for caution in cautions)
    assert any("2 of 5 answers got no confidence" in caution for caution in cautions)


def test_a_percentage_never_stands_alone(world: World) -> None:
    """No per cent signs in sentences: shares are counts, or so many in 100 of a stated number."""
    one = world()
    from demur.router.reports.judged import judged

    told = summary(judged(one.found, one.rows, one.artefact))
    for text in [*(point.answer for point in told.points), *told.cautions]:
        assert "%" not in text and re.search(r"\d", text)


def test_every_figure_is_shown_once_and_unknown_ones_under_other() -> None:
    row = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 9}
    names = ["zeta", "auroc", "etcu_auc", "etcu_50", "bas_uniform", "coverage_at_risk_05", "accuracy", "brier"]
    groups = grouped(dict.fromkeys(names, row))
    shown = [figure.name for group in groups for figure in group.figures]
    assert sorted(shown) == sorted(names)
    assert groups[-1].title == OTHER and [figure.name for figure in groups[-1].figures] == ["zeta"]
    labels = {figure.name: figure.label for group in groups for figure in group.figures}
    assert labels["coverage_at_risk_05"] == "coverage at 5 % risk" and labels["auroc"] == "AUROC"
    assert [group.title.split(":")[0] for group in groups] == [
        "Rows",
        "Ranking",
        "Calibration",
        "Answering only the surest",
        "Utility",
        "Other",
    ]


def test_everything_that_is_measured_has_a_place(world: World) -> None:
    groups = grouped(world().found.metrics)
    assert sum(len(group.figures) for group in groups) == len(world().found.metrics)


def test_every_metric_is_explained_and_its_arrow_points_where_the_metric_says() -> None:
    row = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 9}
    related = {"within_question_discrimination": "↑", "within_question_ties": "↓", "turn_trend": "↑", "info_ece": "↓"}
    shown = {
        figure.name: figure
        for group in grouped(dict.fromkeys([*METRICS, *related], row))
        for figure in group.figures
        if group.title != OTHER
    }
    arrows = {name: {"higher": "↑", "lower": "↓", "neither": ""}[metric.better] for name, metric in METRICS.items()}
    assert {name: figure.better for name, figure in shown.items()} == arrows | related
    assert [name for name, figure in shown.items() if not figure.meaning or "{" in figure.label] == []
    assert len({figure.label for figure in shown.values()}) == len(shown)
    assert "ε = 0.0001" in shown["bas_uniform"].meaning and "8.2" in shown["bas_uniform"].meaning
