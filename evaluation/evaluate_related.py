"""Metrics that need to know which rows belong together: answers to one question, turns of one conversation."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .estimate import Estimate
from .inputs import check_groups, check_same_length, check_scored
from .joined_groups import joined_groups
from .metrics.info_ece import info_ece_metric, normalised_positions
from .metrics.registry import measure
from .metrics.turn_trend import turn_trend_metric
from .metrics.within_question import within_question_metric, within_question_ties_metric


def within_questions(
    scores: ArrayLike,
    correct: ArrayLike,
    questions: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    seed: int = 0,
    resamples: int = 1000,
) -> list[Estimate]:
    """within_question_discrimination and within_question_ties, from resamples of whole questions (and whole groups).

    A question with one answer says nothing and is left out; n counts the answers to the rest.

    Args:
        questions: which question each row answers, shape (n,).

    Raises:
        BadInput: not finite, not labels, lengths differ, or a question is missing.
    """
    numbers, labels = check_scored(scores, correct, probabilities=False)
    codes = check_groups(questions, labels.size)
    drawn = codes if groups is None else joined_groups(codes, groups)
    several = np.bincount(codes)[codes] > 1
    kept = several if several.any() else np.ones_like(several)
    metrics = (within_question_metric(codes[kept]), within_question_ties_metric(codes[kept]))
    return [
        measure(each, numbers[kept], labels[kept], groups=drawn[kept], seed=seed, resamples=resamples)
        for each in metrics
    ]


def along_conversations(
    confidence: ArrayLike,
    correct: ArrayLike,
    conversations: ArrayLike,
    turns: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    seed: int = 0,
    resamples: int = 1000,
) -> list[Estimate]:
    """info_ece and turn_trend, from resamples of whole conversations (and whole groups).

    Args:
        conversations: which conversation each row belongs to, shape (n,).
        turns: place of the row in it, counted from 1, shape (n,).

    Raises:
        BadInput: not probabilities, not labels, lengths differ, a conversation is missing, or a turn is below 1.
    """
    numbers, labels = check_scored(confidence, correct, probabilities=True)
    positions = normalised_positions(turns, conversations)
    check_same_length(confidence=numbers, turns=positions)
    drawn = joined_groups(conversations) if groups is None else joined_groups(conversations, groups)
    metrics = (info_ece_metric(positions), turn_trend_metric(turns, conversations))
    return [measure(each, numbers, labels, groups=drawn, seed=seed, resamples=resamples) for each in metrics]
