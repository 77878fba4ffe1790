"""With random grades nothing can be learned: whoever seems to learn has seen the answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from demur import BadInput
from demur.core.decision import Stage
from demur.memory.recall import Recall
from demur.memory.recall_folds import SAME, recall_out_of_fold
from demur.memory.recall_key import Experience
from demur.memory.recall_probe import log_odds_of
from demur.probes.fit_head import fit_head
from demur.probes.folds import grouped_folds
from demur.probes.signal_table import SignalTable

ROWS = 400


def random_bank(seed):
    """Structured questions, every third one asked twice in nearly the same words, and grades that mean nothing."""
    draw = np.random.default_rng(seed)
    centres = draw.normal(size=(20, 16))
    vectors = centres[draw.integers(20, size=ROWS)] + 0.3 * draw.normal(size=(ROWS, 16))
    groups = np.arange(ROWS)
    for row in range(0, ROWS - 1, 3):
        vectors[row + 1] = vectors[row] + 0.01 * draw.normal(size=16)
        groups[row + 1] = groups[row]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    right = (draw.random(ROWS) < 0.4).astype(float)
    for row in range(0, ROWS - 1, 3):
        right[row + 1] = right[row]  # the same question: the same grade
    bank = Experience(
        vectors.astype(np.float32), draw.uniform(0.3, 0.7, ROWS), draw.integers(3, 30, ROWS).astype(float), right
    )
    return bank, groups


def fused_auroc(bank, groups, recalled, seed):
    """Out-of-fold AUROC of a head fitted on recall and two signals that say nothing."""
    draw = np.random.default_rng(seed + 100)
    table = SignalTable(
        ("token.mean_logprob", "token.min_logprob", "recall.log_odds"),
        np.column_stack([draw.normal(size=ROWS), draw.normal(size=ROWS), recalled]),
    )
    head = fit_head(table, bank.correct, groups, arm="answer", stage=Stage.AFTER, seed=seed, replicas=10)
    known = np.isfinite(head.out_of_fold.log_odds)
    return roc_auc_score(bank.correct[known], head.out_of_fold.log_odds[known])


def standard_error(bank):
    """Of the AUROC where there is nothing to find (Hanley and McNeil 1982), on independent questions."""
    right = int(bank.correct.sum())
    wrong = ROWS - right
    doubled = 1.5  # a third of the rows repeats another: fewer questions than rows
    return np.sqrt(doubled * (right + wrong + 1) / (12.0 * right * wrong))


@pytest.mark.parametrize("seed", range(5))
def test_with_random_grades_the_fused_confidence_finds_nothing(seed):
    bank, groups = random_bank(seed)
    folds = grouped_folds(groups, bank.correct, 5, seed)
    recalled = recall_out_of_fold(bank, folds, groups=groups)
    assert np.isfinite(recalled).all()
    assert abs(fused_auroc(bank, groups, recalled, seed) - 0.5) < 3.0 * standard_error(bank)


def test_a_bank_that_knows_the_row_gives_itself_away():
    """The same with the row (and its twin) in the bank: so the test above can fail."""
    bank, groups = random_bank(0)
    leaky = Recall(neighbours=3, kappa=1.0).fit(bank)
    recalled = np.array([log_odds_of(leaky.estimate(bank, row)) for row in range(ROWS)])
    assert fused_auroc(bank, groups, recalled, 0) > 0.5 + 6.0 * standard_error(bank)


def test_what_is_real_is_found():
    bank, groups = random_bank(1)
    kind = bank.questions[:, 0] > 0
    bank = Experience(bank.questions, bank.confidence, bank.answer_lengths, kind.astype(float))
    folds = grouped_folds(groups, bank.correct, 5, 0)
    assert fused_auroc(bank, groups, recall_out_of_fold(bank, folds, groups=groups), 0) > 0.8


def test_where_time_is_known_the_later_says_nothing_of_the_earlier():
    """Not even through the key, κ or the base rate: flip what came later, and the earlier stays as it was."""
    bank, groups = random_bank(2)
    noon = datetime(2026, 12, 1, 12, tzinfo=UTC)
    asked = [noon + timedelta(minutes=row) for row in range(ROWS)]
    graded = [moment + timedelta(minutes=5) for moment in asked]
    folds = grouped_folds(groups, bank.correct, 5, 0)
    recalled = recall_out_of_fold(bank, folds, groups=groups, graded_at=graded, asked_at=asked)
    assert np.isnan(recalled[:5]).all() and np.isfinite(recalled[8:]).all()
    changed = flipped(bank, np.arange(ROWS) >= 200)
    early = recall_out_of_fold(changed, folds, groups=groups, graded_at=graded, asked_at=asked)
    assert np.array_equal(early[:205], recalled[:205], equal_nan=True)
    assert not np.array_equal(early[206:], recalled[206:])
    unknown = recall_out_of_fold(bank, folds, groups=groups, graded_at=[None] * ROWS, asked_at=asked)
    assert np.isnan(unknown).all()  # never known to be earlier
    always = recall_out_of_fold(bank, folds, groups=groups, graded_at=graded, asked_at=[None] * ROWS)
    assert np.isfinite(always).all()


def flipped(bank, rows):
    correct = np.where(rows, 1.0 - bank.correct, bank.correct)
    return Experience(bank.questions, bank.confidence, bank.answer_lengths, correct)


def test_no_grade_of_a_fold_or_of_its_near_duplicates_is_heard_in_it():
    """Also where folds part near-duplicates: flipping a fold's grades, and theirs, moves nothing in it."""
    bank, _ = random_bank(3)
    folds = np.arange(ROWS) % 5
    mine = folds == 2
    twins = (bank.questions @ bank.questions[mine].T).max(axis=1) >= SAME
    assert (twins & ~mine).sum() > 20
    recalled = recall_out_of_fold(bank, folds)
    same = recall_out_of_fold(flipped(bank, mine | twins), folds)
    assert np.array_equal(same[mine], recalled[mine])
    assert not np.array_equal(recall_out_of_fold(flipped(bank, ~mine & ~twins), folds)[mine], recalled[mine])
    groups = np.where(np.arange(ROWS) < 300, 0, 1)
    assert np.isnan(recall_out_of_fold(bank, folds, groups=groups)).all()  # everybody is related to everybody


def test_folds_that_cannot_work_are_refused():
    bank, _ = random_bank(0)
    with pytest.raises(BadInput, match="one fold only"):
        recall_out_of_fold(bank, np.zeros(ROWS))
    folds = np.arange(ROWS) % 2
    for wrong in (
        {"folds": np.zeros(3)},
        {"groups": np.zeros(3)},
        {"graded_at": [None], "asked_at": [None] * ROWS},
        {"graded_at": [None] * ROWS, "asked_at": [None]},
    ):
        with pytest.raises(BadInput, match="of shape"):
            recall_out_of_fold(bank, **{"folds": folds, **wrong})
    with pytest.raises(BadInput, match="both graded_at and asked_at"):
        recall_out_of_fold(bank, folds, graded_at=[None] * ROWS)
