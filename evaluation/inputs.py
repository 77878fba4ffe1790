"""The one check that every metric makes of its input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import BadInput

Floats = NDArray[np.float64]


def _as_vector(name: str, values: ArrayLike) -> Floats:
    given = np.asarray(values)
    if given.ndim != 1:
        raise BadInput(f"{name} has shape {given.shape}; give one number a row, shape (n,)")
    if given.size == 0:
        raise BadInput(f"{name} is empty; give at least one row")
    if given.dtype.kind not in "biufO":
        raise BadInput(f"{name} holds {given[0]!r}, which is not a number")
    try:
        return given.astype(np.float64)
    except (TypeError, ValueError):
        raise BadInput(f"{name} holds something that is not a number: {_first_odd(given)}") from None


def _first_odd(values: NDArray[Any]) -> str:
    for index, value in enumerate(values):
        if not isinstance(value, bool | int | float | np.number | np.bool_):
            return f"{value!r} at index {index}"
    return "an odd value"


def check_scores(name: str, values: ArrayLike) -> Floats:
    """Finite numbers on any scale, shape (n,), as float64.

    Raises:
        BadInput: empty, not one-dimensional, not numbers, or NaN or infinite (the message names the first index).
    """
    numbers = _as_vector(name, values)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        raise BadInput(
            f"{name}[{bad[0]}] is {numbers[bad[0]]} ({bad.size} of {numbers.size} are not finite); "
            "leave rows without a score out, or give them the configured fallback"
        )
    return numbers


def check_probabilities(name: str, values: ArrayLike) -> Floats:
    """Finite numbers in [0, 1], shape (n,).

    Raises:
        BadInput: as `check_scores`, or a number outside [0, 1].
    """
    numbers = check_scores(name, values)
    bad = np.flatnonzero((numbers < 0.0) | (numbers > 1.0))
    if bad.size:
        raise BadInput(f"{name}[{bad[0]}] is {numbers[bad[0]]}, outside [0, 1]; calibrate raw scores first")
    return numbers


def check_labels(name: str, values: ArrayLike) -> Floats:
    """Labels that are 0 or 1 (or bool), shape (n,), as float64.

    Raises:
        BadInput: as `check_scores`, or another value.
    """
    numbers = check_scores(name, values)
    bad = np.flatnonzero((numbers != 0.0) & (numbers != 1.0))
    if bad.size:
        raise BadInput(f"{name}[{bad[0]}] is {numbers[bad[0]]}; labels are 0 or 1 (cut fractional grades first)")
    return numbers


def check_same_length(**arrays: Sequence[Any] | NDArray[Any]) -> int:
    """The common length.

    Raises:
        BadInput: lengths differ; the message gives them all.
    """
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) != 1:
        raise BadInput("lengths differ: " + ", ".join(f"{name} {length}" for name, length in lengths.items()))
    return next(iter(lengths.values()))


def check_scored(scores: ArrayLike, correct: ArrayLike, *, probabilities: bool) -> tuple[Floats, Floats]:
    """Scores (probabilities in [0, 1] if asked for) and labels of the same rows."""
    numbers = (check_probabilities if probabilities else check_scores)("confidence", scores)
    labels = check_labels("correct", correct)
    check_same_length(confidence=numbers, correct=labels)
    return numbers, labels


def check_groups(groups: ArrayLike | None, n: int) -> NDArray[np.intp]:
    """Groups (numbers or strings, shape (n,)) as codes 0 … G−1; every row its own group where `groups` is None.

    Raises:
        BadInput: not one group a row, or a missing one (None or NaN).
    """
    if groups is None:
        return np.arange(n, dtype=np.intp)
    given = np.asarray(groups)
    if given.shape != (n,):
        raise BadInput(f"groups has shape {given.shape}, there are {n} rows; give one group a row")
    missing = [i for i, group in enumerate(given.tolist()) if group is None or group != group]
    if missing:
        raise BadInput(f"groups[{missing[0]}] is missing; give rows without a group a group of their own")
    if given.dtype.kind == "O":
        given = given.astype(str)
    return np.unique(given, return_inverse=True)[1].astype(np.intp)
