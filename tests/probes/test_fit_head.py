from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from demur.core.confidence import Confidence
from demur.core.decision import Stage
from demur.core.errors import BadInput, ConfigurationError, NotEnoughLabels
from demur.core.signal import Signal, Unavailable
from demur.probes.calibration.base import logit
from demur.probes.fit_head import fit_head
from demur.probes.folds import grouped_folds
from demur.probes.head import Head
from demur.probes.signal_table import SignalTable
from demur.probes.tiers import preferred, tier_for


def grades(right: int, wrong: int) -> np.ndarray:
    return np.array([1.0] * right + [0.0] * wrong)


def head_of(table: SignalTable, correct: np.ndarray, groups: np.ndarray | None = None, **more) -> Head:
    return fit_head(table, correct, groups, arm="answer", stage=Stage.AFTER, **{"replicas": 10, **more})


@pytest.mark.parametrize(
    ("rarer", "scalars", "components", "calibrators"),
    [
        (10, 3, 0, {"platt_prior"}),
        (24, 3, 0, {"platt_prior"}),
        (25, None, 0, {"identity", "temperature", "platt", "beta"}),
        (99, None, 0, {"identity", "temperature", "platt", "beta"}),
        (100, None, 8, {"identity", "temperature", "platt", "beta"}),
        (199, None, 8, {"identity", "temperature", "platt", "beta"}),
        (200, None, 32, {"identity", "temperature", "platt", "beta", "isotonic", "venn_abers"}),
        (500, None, 64, {"identity", "temperature", "platt", "beta", "isotonic", "venn_abers"}),
    ],
)
def test_tiers(rarer: int, scalars: int | None, components: int, calibrators: set[str]) -> None:
    for counts in ((rarer, 900), (900, rarer)):
        tier = tier_for(grades(*counts))
        assert (tier.scalars, tier.components, set(tier.calibrators)) == (scalars, components, calibrators)


@pytest.mark.parametrize(("right", "wrong", "word"), [(9, 500, "right"), (500, 9, "wrong"), (0, 40, "right")])
def test_below_ten_is_refused_and_says_what_is_missing(right: int, wrong: int, word: str) -> None:
    table = SignalTable(("a",), np.random.default_rng(0).normal(size=(right + wrong, 1)))
    with pytest.raises(NotEnoughLabels, match=f"{10 - min(right, wrong)} more {word}") as caught:
        head_of(table, grades(right, wrong))
    assert (caught.value.have, caught.value.need) == (min(right, wrong), 10)


def test_preference_does_not_look_at_grades() -> None:
    assert preferred(["x", "token.min_logprob", "y", "token.mean_logprob"], 3) == (
        "x",
        "token.min_logprob",
        "token.mean_logprob",
    )
    assert preferred(["c", "b", "a"], None) == ("c", "b", "a")


def test_few_labels_take_three_signals_and_no_hidden_states(rows: Callable) -> None:
    data = rows(40, seed=1, width=16)
    head = head_of(data.table, data.correct)
    assert head.tier == "under 25"
    assert head.signal_names == ("s0", "s1", "s2")
    assert head.hidden_names == ()
    assert head.calibrator.name == "platt_prior"
    assert any("hidden states left out" in note for note in head.notes)
    assert any("2 signals left out" in note for note in head.notes)


def test_middle_tiers(rows: Callable) -> None:
    data = rows(150, seed=1, width=16)
    head = head_of(data.table, data.correct)
    assert (head.tier, head.hidden_names, len(head.signal_names)) == ("under 100", (), 5)
    data = rows(330, seed=1, width=16)
    head = head_of(data.table, data.correct)
    assert (head.tier, head.hidden_names) == ("under 200", ("answer_mean.L1",))
    assert "isotonic" not in head.brier


def test_beats_the_base_rate_and_hidden_states_help(fitted: tuple, rows: Callable) -> None:
    head, data = fitted
    assert head.tier == "full"
    new = rows(2000, seed=99, width=24)
    got = head.predict_table(new.table)
    assert got.available.all()
    brier = np.mean((got.probability - new.correct) ** 2)
    assert brier < 0.8 * new.correct.mean() * (1 - new.correct.mean())
    oracle = np.mean((new.chance - new.correct) ** 2)
    assert brier < oracle + 0.015
    without = head.predict_table(SignalTable(new.table.names, new.table.values))
    common = without.available
    assert np.mean((without.probability[common] - new.correct[common]) ** 2) > brier
    known = np.isfinite(head.out_of_fold.log_odds)
    assert known.mean() > 0.9
    assert roc_auc_score(data.correct[known], head.out_of_fold.log_odds[known]) == pytest.approx(
        roc_auc_score(new.correct, got.probability), abs=0.05
    )


def test_out_of_fold_probabilities_are_calibrated(fitted: tuple) -> None:
    head, data = fitted
    known = np.isfinite(head.out_of_fold.probability)
    probability, correct = head.out_of_fold.probability[known], data.correct[known]
    for part in np.array_split(np.argsort(probability), 4):
        error = 3 * math.sqrt(0.25 / part.size)
        assert abs(probability[part].mean() - correct[part].mean()) < error


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_random_labels_teach_nothing(rows: Callable, seed: int) -> None:
    data = rows(440, seed=seed, width=64, missing=0.1)
    coin = np.random.default_rng(100 + seed).random(440) < 0.5
    head = head_of(data.table, coin, np.arange(440) // 3, seed=seed)
    known = np.isfinite(head.out_of_fold.log_odds)
    right, wrong = int(coin[known].sum()), int((~coin[known]).sum())
    error = math.sqrt((right + wrong + 1) / (12 * right * wrong))
    assert abs(roc_auc_score(coin[known], head.out_of_fold.log_odds[known]) - 0.5) <= 3 * error
    assert np.nanmean((head.out_of_fold.probability - coin) ** 2) < 0.27


def test_a_rows_own_grade_does_not_reach_its_out_of_fold_score(rows: Callable) -> None:
    # Groups that hold one right and one wrong row keep the folds as they are when their two grades are swapped.
    data = rows(440, seed=5, width=16)
    correct = np.tile([1.0, 0.0], 220)
    groups = np.arange(440) // 2
    first = head_of(data.table, correct, groups).out_of_fold
    swapped = correct.copy()
    inside = first.folds == 0
    swapped[inside] = 1.0 - swapped[inside]
    second = head_of(data.table, swapped, groups).out_of_fold
    assert (first.folds == second.folds).all()
    assert (first.log_odds[inside] == second.log_odds[inside]).all()
    assert (first.log_odds[~inside] != second.log_odds[~inside]).all()


def test_groups_stay_whole() -> None:
    draw = np.random.default_rng(0)
    groups = draw.integers(0, 60, 300)
    folds = grouped_folds(groups, (draw.random(300) < 0.3).astype(float))
    assert all(np.unique(folds[groups == group]).size == 1 for group in np.unique(groups))
    assert set(folds) == set(range(5))


def test_copies_of_one_question_cannot_teach(rows: Callable) -> None:
    # Each question's noise signature gives its grade away to a model that has met the question.
    draw = np.random.default_rng(0)
    questions = np.repeat(np.arange(60), 5)
    coin = (draw.random(60) < 0.5)[questions]
    values = draw.normal(size=(60, 40))[questions]
    table = SignalTable(tuple(f"s{i}" for i in range(40)), values)
    leaky = head_of(table, coin).out_of_fold
    honest = head_of(table, coin, np.array([f"q{i}" for i in questions])).out_of_fold
    assert roc_auc_score(coin, leaky.log_odds) > 0.9
    assert roc_auc_score(coin, honest.log_odds) < 0.75


def test_interval_covers_and_narrows_with_labels(rows: Callable) -> None:
    new = rows(500, seed=50)
    widths = {}
    for n in (60, 240, 1500):
        covered = []
        for seed in range(3):
            data = rows(n, seed=seed)
            got = head_of(data.table, data.correct, replicas=40).predict_table(new.table)
            assert ((got.low <= got.probability) & (got.probability <= got.high)).all()
            covered.append(((got.low <= new.chance) & (new.chance <= got.high)).mean())
            widths[n] = widths.get(n, 0.0) + (got.high - got.low).mean() / 3
        assert np.mean(covered) > 0.65, n
    assert widths[60] > 1.5 * widths[240] > 2.0 * widths[1500]


def test_one_call_equals_its_row_in_the_table(fitted: tuple) -> None:
    head, data = fitted
    table = head.predict_table(data.table)
    for row in range(40):
        got = head.predict(data.table.signals(row), data.table.vectors(row))
        if not table.available[row]:
            assert isinstance(got, Unavailable)
            continue
        assert isinstance(got, Confidence)
        assert got.value == pytest.approx(table.probability[row], abs=1e-12)
        assert (got.interval.low, got.interval.high) == pytest.approx((table.low[row], table.high[row]), abs=1e-12)
        assert got.labels == 700
        assert not got.is_prior


def test_contributions_add_up_to_the_move_from_the_average_call(fitted: tuple) -> None:
    head, data = fitted
    for row in range(20):
        got = head.predict(data.table.signals(row), data.table.vectors(row))
        if isinstance(got, Unavailable):
            continue
        base = head.calibrator.predict(head.fusion.predict(head.values(data.table)[row : row + 1]).average)
        total = sum(part.log_odds for part in got.contributions)
        assert total == pytest.approx(float(logit(got.value) - logit(base[0])), abs=1e-6)
        sizes = [abs(part.log_odds) for part in got.contributions]
        assert sizes == sorted(sizes, reverse=True)
        assert {part.signal for part in got.contributions}.isdisjoint(got.missing)


def test_missing_signals_are_named_and_too_many_give_no_confidence(fitted: tuple) -> None:
    head, data = fitted
    full = {signal.name: signal for signal in data.table.signals(0)}
    some = [signal for name, signal in full.items() if name != "s4"]
    got = head.predict([*some, Signal.missing("s4", "NaN")], data.table.vectors(0))
    assert isinstance(got, Confidence)
    assert "s4" in got.missing
    nothing = head.predict([Signal.missing("s0", "the model gave no token trace")], {})
    assert isinstance(nothing, Unavailable)
    assert "0%" in nothing.reason
    assert "the model gave no token trace" in nothing.reason
    weak = head.predict([full["s4"]], None)
    assert isinstance(weak, Unavailable)
    assert isinstance(head.predict([], {"answer_mean.L1": np.full(24, np.nan, np.float32)}), Unavailable)
    assert isinstance(head.predict([], {"answer_mean.L1": np.zeros(3, np.float32)}), Unavailable)


def test_unknown_signals_are_ignored_and_double_ones_refused(fitted: tuple) -> None:
    head, data = fitted
    signals, vectors = data.table.signals(1), data.table.vectors(1)
    plain = head.predict(signals, vectors)
    assert head.predict([*signals, Signal.of("other", 5.0)], vectors) == plain
    with pytest.raises(BadInput, match="repeat"):
        head.predict([*signals, signals[0]], vectors)


def test_the_same_seed_gives_the_same_head(rows: Callable) -> None:
    data = rows(120, seed=2)
    first, second = (head_of(data.table, data.correct).predict_table(data.table) for _ in range(2))
    assert (first.probability == second.probability).all()
    assert (first.low == second.low).all()


def test_weights_undo_labelling_only_the_hard_cases(rows: Callable) -> None:
    # Rows that were right were graded one time in four.
    data = rows(4000, seed=8)
    draw = np.random.default_rng(0)
    graded = ~data.correct | (draw.random(4000) < 0.25)
    weights = np.where(data.correct, 4.0, 1.0)[graded]
    head = head_of(data.table.take(graded), data.correct[graded], weights=weights)
    plain = head_of(data.table.take(graded), data.correct[graded])
    new = rows(2000, seed=9)
    assert head.predict_table(new.table).probability.mean() == pytest.approx(new.correct.mean(), abs=0.03)
    assert plain.predict_table(new.table).probability.mean() < new.correct.mean() - 0.1


def test_degenerate_input_is_a_typed_error(rows: Callable) -> None:
    data = rows(100, seed=0, width=8)
    with pytest.raises(BadInput, match="grades"):
        head_of(data.table, data.correct[:50])
    with pytest.raises(BadInput, match="nan"):
        head_of(data.table, np.where(np.arange(100) == 3, np.nan, data.correct))
    with pytest.raises(BadInput, match="group ids"):
        head_of(data.table, data.correct, np.arange(7))
    with pytest.raises(BadInput, match="no usable signal"):
        head_of(SignalTable(("a",), np.full((100, 1), np.nan)), data.correct)
    with pytest.raises(BadInput, match="no usable signal"):
        head_of(SignalTable(("a",), np.full((100, 1), 4.0)), data.correct)
    with pytest.raises(BadInput, match="weights"):
        head_of(data.table, data.correct, weights=np.full(100, np.nan))
    with pytest.raises(NotEnoughLabels, match="group"):
        head_of(data.table, data.correct, np.zeros(100))
    with pytest.raises(BadInput, match="only after generation"):
        fit_head(data.table, data.correct, None, arm="answer", stage=Stage.BEFORE)
    with pytest.raises(ConfigurationError, match="replicas"):
        head_of(data.table, data.correct, replicas=2)
    with pytest.raises(ConfigurationError, match="min_informative"):
        head_of(data.table, data.correct, min_informative=0.0)


def test_signals_missing_almost_everywhere_leave_too_few_rows(rows: Callable) -> None:
    data = rows(200, seed=0, scalars=2)
    values = data.table.values.copy()
    values[15:] = np.nan
    with pytest.raises(NotEnoughLabels, match="carry enough signals"):
        head_of(SignalTable(data.table.names, values), data.correct)
