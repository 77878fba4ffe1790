"""Signals of many calls as one table: what fitting and batch prediction work on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..core.errors import BadInput
from ..core.signal import Direction, Signal

Hidden = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True)
class SignalTable:
    """n rows of k scalar signals, and vectors.

    Attributes:
        names: the k signal names, distinct.
        values: (n, k) float64; NaN where a signal is unavailable, never infinite.
        hidden: vectors by name, each (n, width); a row with NaN is missing.
        directions: of each signal; carried along so that rows build back. Fitting learns signs by itself.

    Raises:
        BadInput: shapes disagree, names repeat, or a value is infinite.
    """

    names: tuple[str, ...]
    values: NDArray[np.float64]
    hidden: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    directions: tuple[Direction, ...] = ()

    def __post_init__(self) -> None:
        values = np.asarray(self.values, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != len(self.names):
            raise BadInput(f"values have shape {values.shape}; (rows, {len(self.names)}) is needed, one column a name")
        if len(set(self.names)) != len(self.names):
            raise BadInput(f"signal names repeat: {_repeated(self.names)}")
        if np.isinf(values).any():
            row, column = np.argwhere(np.isinf(values))[0]
            raise BadInput(f"{self.names[column]} is infinite in row {row}; give NaN where a signal is unavailable")
        hidden = {name: np.asarray(block, dtype=np.float32) for name, block in self.hidden.items()}
        for name, block in hidden.items():
            if block.ndim != 2 or block.shape[0] != values.shape[0] or block.shape[1] == 0:
                raise BadInput(f"hidden[{name!r}] has shape {block.shape}; ({values.shape[0]}, width) is needed")
        directions = self.directions or (Direction.HIGHER_IS_SURER,) * len(self.names)
        if len(directions) != len(self.names):
            raise BadInput(f"{len(directions)} directions for {len(self.names)} signals")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "hidden", hidden)
        object.__setattr__(self, "directions", tuple(directions))

    def __len__(self) -> int:
        return self.values.shape[0]

    @classmethod
    def from_signals(
        cls,
        rows: Sequence[Sequence[Signal]],
        hidden: Sequence[Hidden | None] | None = None,
        *,
        names: Sequence[str] | None = None,
    ) -> SignalTable:
        """Build from one sequence of signals a row (and one mapping of vectors a row).

        Args:
            names: the columns, in order; default every name met, in order of first appearance.

        Raises:
            BadInput: a name twice in a row, a direction that changes between rows, or vectors of unequal width.
        """
        met: dict[str, Direction | None] = {} if names is None else dict.fromkeys(names)
        for number, row in enumerate(rows):
            if len({signal.name for signal in row}) != len(row):
                raise BadInput(f"row {number}: signal names repeat: {_repeated([s.name for s in row])}")
            for signal in row:
                if names is not None and signal.name not in met:
                    continue
                known = met.setdefault(signal.name, None)
                direction = getattr(signal.score, "direction", None)
                if known is not None and direction is not None and direction is not known:
                    raise BadInput(f"row {number}: {signal.name} is {direction}-is-surer here, {known} in earlier rows")
                met[signal.name] = known or direction
        columns = {name: column for column, name in enumerate(met)}
        values = np.full((len(rows), len(columns)), np.nan)
        for number, row in enumerate(rows):
            for signal in row:
                if signal.name in columns and signal.value is not None:
                    values[number, columns[signal.name]] = signal.value
        directions = tuple(direction or Direction.HIGHER_IS_SURER for direction in met.values())
        return cls(tuple(columns), values, _stack_hidden(hidden, len(rows)), directions)

    def signals(self, row: int) -> list[Signal]:
        """Row `row` as signals again."""
        return [
            Signal.missing(name, "unavailable in the table")
            if np.isnan(value)
            else Signal.of(name, float(value), direction)
            for name, value, direction in zip(self.names, self.values[row], self.directions, strict=True)
        ]

    def vectors(self, row: int) -> dict[str, NDArray[np.float32]]:
        """The vectors of row `row` that are there."""
        return {name: block[row] for name, block in self.hidden.items() if np.isfinite(block[row]).all()}

    def take(self, rows: NDArray[np.integer] | NDArray[np.bool_]) -> SignalTable:
        """The chosen rows."""
        hidden = {name: block[rows] for name, block in self.hidden.items()}
        return SignalTable(self.names, self.values[rows], hidden, self.directions)

    def without_empty(self) -> SignalTable:
        """Without the scalar signals that no row has."""
        there = np.flatnonzero(np.isfinite(self.values).any(axis=0))
        return SignalTable(
            tuple(self.names[column] for column in there),
            self.values[:, there],
            self.hidden,
            tuple(self.directions[column] for column in there),
        )

    def columns(self, names: Sequence[str]) -> NDArray[np.float64]:
        """(n, len(names)) in the order asked; NaN columns for names the table does not have."""
        block = np.full((len(self), len(names)), np.nan)
        position = {name: column for column, name in enumerate(self.names)}
        for column, name in enumerate(names):
            if name in position:
                block[:, column] = self.values[:, position[name]]
        return block


def _stack_hidden(hidden: Sequence[Hidden | None] | None, count: int) -> dict[str, NDArray[np.float32]]:
    if hidden is None:
        return {}
    if len(hidden) != count:
        raise BadInput(f"{len(hidden)} rows of vectors for {count} rows of signals")
    blocks: dict[str, NDArray[np.float32]] = {}
    for number, vectors in enumerate(hidden):
        for name, vector in (vectors or {}).items():
            flat = np.asarray(vector, dtype=np.float32)
            block = blocks.setdefault(name, np.full((count, flat.size), np.nan, dtype=np.float32))
            if flat.ndim != 1 or flat.size != block.shape[1]:
                raise BadInput(
                    f"row {number}: vector {name!r} has shape {flat.shape}, earlier rows ({block.shape[1]},)"
                )
            block[number] = flat
    return blocks


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if list(names).count(name) > 1})
