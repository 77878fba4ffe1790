"""Within-question discrimination (CISC, arXiv 2502.06233): of two answers to one question, is the right one surer?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..inputs import Floats, check_groups, check_scored
from .bootstrap import Statistic
from .clusters import cluster_weights
from .metric import Metric


@dataclass(frozen=True)
class WithinQuestion:
    """Attributes:
    discrimination: share of pairs in which the right answer is surer, ties set apart; None where every pair is tied
        or there is none. ½ is chance, higher is better.
    ties: share of pairs with equal confidence; None where there is no pair.
    pairs: number of pairs of a right and a wrong answer to the same question.
    """

    discrimination: float | None
    ties: float | None
    pairs: int


def within_question(scores: ArrayLike, correct: ArrayLike, questions: ArrayLike) -> WithinQuestion:
    """Discrimination over all pairs, within questions, of one right and one wrong answer.

    AUROC mixes this with how hard questions are; a vote over samples of one question needs this alone. A score that
    is mostly tied discriminates on few pairs: read `ties` with it.

    Args:
        scores: any scale, higher is surer, shape (n,).
        questions: which question each row answers, shape (n,).

    Raises:
        BadInput: NaN or infinite scores, not labels, lengths differ, or no rows.
    """
    numbers, labels = check_scored(scores, correct, probabilities=False)
    won, lost, tied = _pairs(numbers, labels, check_groups(questions, labels.size)).sum(axis=1)
    decided, pairs = won + lost, won + lost + tied
    return WithinQuestion(
        discrimination=float(won / decided) if decided else None,
        ties=float(tied / pairs) if pairs else None,
        pairs=int(pairs),
    )


def within_question_statistic(scores: Floats, labels: Floats, questions: NDArray[np.intp]) -> Statistic:
    """Discrimination of resamples of whole questions; NaN where no pair is decided.

    Args:
        questions: codes 0 … Q−1, shape (n,).
    """
    won, lost, _ = _pairs(scores, labels, questions)
    return _share(won, won + lost, questions)


def within_question_metric(questions: ArrayLike) -> Metric:
    """Within-question discrimination for `measure` and `paired_difference`; give the questions as groups, too."""
    given = np.asarray(questions)

    def build(scores: Floats, labels: Floats) -> Statistic:
        return within_question_statistic(scores, labels, check_groups(given, labels.size))

    return Metric(
        "within_question_discrimination",
        build,
        probabilities=False,
        better="higher",
        undefined="no question has a right and a wrong answer of different confidence",
    )


def within_question_ties_metric(questions: ArrayLike) -> Metric:
    """Share of pairs of equal confidence, to be read with `within_question_metric`; questions are groups here, too."""
    given = np.asarray(questions)

    def build(scores: Floats, labels: Floats) -> Statistic:
        codes = check_groups(given, labels.size)
        pairs = _pairs(scores, labels, codes)
        return _share(pairs[2], pairs.sum(axis=0), codes)

    return Metric(
        "within_question_ties",
        build,
        probabilities=False,
        better="lower",
        undefined="no question has a right and a wrong answer",
    )


def _share(part: Floats, whole: Floats, questions: NDArray[np.intp]) -> Statistic:
    """Share of pairs in resamples of whole questions."""
    of_questions = cluster_weights(questions, "question")

    def statistic(weights: Floats) -> Floats:
        # A question drawn twice is two questions; its answers are not paired across the copies.
        drawn = of_questions(weights)
        pairs = drawn @ whole
        return np.divide(drawn @ part, pairs, out=np.full(len(weights), np.nan), where=pairs > 0)

    return statistic


def _pairs(scores: Floats, labels: Floats, questions: NDArray[np.intp]) -> Floats:
    """Pairs won, lost and tied of every question, shape (3, Q)."""
    found = np.zeros((3, int(questions.max()) + 1))
    order = np.argsort(questions, kind="stable")
    starts = np.flatnonzero(np.diff(questions[order])) + 1
    for question, rows in enumerate(np.split(order, starts)):
        right = labels[rows] == 1.0
        wrong = np.sort(scores[rows][~right])
        below = np.searchsorted(wrong, scores[rows][right], side="left")
        not_above = np.searchsorted(wrong, scores[rows][right], side="right")
        found[:, question] = below.sum(), (wrong.size - not_above).sum(), (not_above - below).sum()
    return found
