"""Folds that keep a question and its near-duplicates together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.errors import NotEnoughLabels


def grouped_folds(
    groups: NDArray[np.integer], correct: NDArray[np.float64], folds: int = 5, seed: int = 0
) -> NDArray[np.int64]:
    """Fold numbers (n,): groups whole, classes spread evenly (scikit-learn's StratifiedGroupKFold).

    Fewer folds are made where a class lies in fewer groups than `folds`.

    Args:
        groups: (n,) ids.
        correct: (n,) of 0.0 and 1.0.

    Raises:
        NotEnoughLabels: a class lies in a single group, or some training part would lack a class.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    spread = {grade: np.unique(groups[correct == grade]).size for grade in (0.0, 1.0)}
    scarcest = min(spread, key=lambda grade: spread[grade])
    word = "right" if scarcest == 1.0 else "wrong"
    count = min(folds, spread[scarcest])
    if count < 2:
        raise NotEnoughLabels(
            f"the {word} rows lie in {spread[scarcest]} group(s) of related questions; at least 2 are needed to test "
            f"on questions that were not fitted on. Grade {word} answers to other questions",
            have=spread[scarcest],
            need=2,
        )
    numbers = np.empty(groups.size, dtype=np.int64)
    splitter = StratifiedGroupKFold(n_splits=count, shuffle=True, random_state=seed)
    for fold, (_, held_out) in enumerate(splitter.split(np.zeros((groups.size, 1)), correct, groups)):
        numbers[held_out] = fold
    for fold in range(count):
        if np.unique(correct[numbers != fold]).size < 2:
            raise NotEnoughLabels(
                f"the {word} rows are bunched in {spread[scarcest]} groups so that a fold's training part has none; "
                f"grade {word} answers to more questions",
                have=spread[scarcest],
                need=spread[scarcest] + 1,
            )
    return numbers
