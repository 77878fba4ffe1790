"""What every baseline is: fit on columns and grades, predict probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import BadInput, ConfigurationError, NotEnoughLabels
from ..calibration.base import checked_grades
from ..signal_table import SignalTable

Floats = NDArray[np.float64]

Rows = SignalTable | Mapping[str, ArrayLike]
"""n rows: a table of signals, or arrays (n,) by column name. NaN where a value is missing."""


class Baseline(ABC):
    """From named columns to a probability of being right.

    Rows with a missing value in one of its columns are left out of fitting, and their prediction is NaN: compare on
    the rows where both sides have one.

    Args:
        columns: what it reads, distinct.

    Raises:
        ConfigurationError: no column, or one twice.
    """

    name: ClassVar[str]

    def __init__(self, columns: Sequence[str]) -> None:
        if isinstance(columns, str) or not columns or len(set(columns)) != len(columns):
            raise ConfigurationError(f"{type(self).__name__} reads columns {columns!r}; give distinct column names")
        self.columns = tuple(columns)

    def fit(self, rows: Rows, correct: ArrayLike) -> Self:
        """Fit on n rows and their grades (n,) of 0 and 1 (or bool).

        Raises:
            BadInput: a column is not there, or no row has all of them.
            NotEnoughLabels: one class only, where both are needed.
        """
        block = self.block(rows)
        grades = checked_grades(correct, len(block))
        whole = np.isfinite(block).all(axis=1)
        if not whole.any():
            raise BadInput(f"{type(self).__name__}: none of {len(block)} rows has all of {self._told()}")
        self._fit(block[whole], grades[whole])
        return self

    def predict(self, rows: Rows) -> Floats:
        """(n,) probability of being right; NaN for rows with a missing value.

        Raises:
            BadInput: not fitted, or a column is not there.
        """
        return self._over(rows, self._predict)

    def block(self, rows: Rows) -> Floats:
        """(n, k) its columns of the rows, in order; NaN where missing.

        Raises:
            BadInput: a column is not there, is infinite, or has another length than the others.
        """
        return columns_of(rows, self.columns, type(self).__name__)

    @abstractmethod
    def _fit(self, block: Floats, correct: Floats) -> None:
        """Fit on complete rows (m, k) and grades (m,)."""

    @abstractmethod
    def _predict(self, block: Floats) -> Floats:
        """Probabilities (m,) of complete rows (m, k)."""

    def _over(self, rows: Rows, function: Callable[[Floats], Floats]) -> Floats:
        """A function of complete rows over all rows, NaN for the others."""
        block = self.block(rows)
        whole = np.isfinite(block).all(axis=1)
        found = np.full(len(block), np.nan)
        if whole.any():
            found[whole] = function(block[whole])
        return found

    def _told(self) -> str:
        more = f" and {len(self.columns) - 3} more" if len(self.columns) > 3 else ""
        return f"{', '.join(self.columns[:3])}{more}"


def columns_of(rows: Rows, names: Sequence[str], reader: str) -> Floats:
    """(n, len(names)) columns by name."""
    known = rows.names if isinstance(rows, SignalTable) else tuple(rows)
    lost = [name for name in names if name not in known]
    if lost:
        raise BadInput(f"{reader} reads {lost[0]!r}, and the rows have no such column; they have {sorted(known)[:40]}")
    if isinstance(rows, SignalTable):
        return rows.columns(names)
    arrays = [np.asarray(rows[name], dtype=np.float64) for name in names]
    for name, array in zip(names, arrays, strict=True):
        if array.ndim != 1 or array.shape != arrays[0].shape:
            raise BadInput(f"column {name!r} has shape {array.shape}, {names[0]!r} {arrays[0].shape}; (n,) is needed")
        if np.isinf(array).any():
            raise BadInput(f"column {name!r} is infinite in row {int(np.flatnonzero(np.isinf(array))[0])}")
    return np.column_stack(arrays)


def need_both(correct: Floats, reader: str) -> None:
    """Refuse grades of one class."""
    if correct.min() == correct.max():
        word = "right" if correct[0] else "wrong"
        raise NotEnoughLabels(f"{reader} needs right and wrong rows; all {correct.size} are {word}", have=0, need=1)


def unfitted(reader: object) -> BadInput:
    """The error for a prediction before a fit."""
    return BadInput(f"{type(reader).__name__} is not fitted; call fit(rows, correct) first")
