from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.core.errors import BadInput
from demur.core.signal import Direction, Signal
from demur.probes.signal_table import SignalTable

cell = st.one_of(st.none(), st.floats(-1e9, 1e9))


@given(st.lists(st.tuples(cell, cell, cell), min_size=1, max_size=6))
def test_signals_go_in_and_come_back(rows: list[tuple]) -> None:
    directions = (Direction.HIGHER_IS_SURER, Direction.LOWER_IS_SURER, Direction.HIGHER_IS_SURER)
    given_rows = [[Signal.of(n, v, d) for n, v, d in zip("abc", row, directions, strict=True)] for row in rows]
    table = SignalTable.from_signals(given_rows)
    assert len(table) == len(rows)
    for number, row in enumerate(given_rows):
        for before, after in zip(row, table.signals(number), strict=True):
            assert (before.name, before.value) == (after.name, after.value)
            assert not before.available or before == after


def test_vectors_stack_and_missing_ones_are_nan() -> None:
    table = SignalTable.from_signals([[], []], [{"answer_mean.L1": np.ones(3, np.float32)}, None])
    assert table.hidden["answer_mean.L1"].shape == (2, 3)
    assert list(table.vectors(0)) == ["answer_mean.L1"]
    assert table.vectors(1) == {}


def test_columns_take_and_chosen_names() -> None:
    table = SignalTable.from_signals([[Signal.of("a", 1.0), Signal.of("b", 2.0)], [Signal.of("b", 3.0)]])
    assert table.names == ("a", "b")
    assert math.isnan(table.columns(["b", "zzz"])[0, 1])
    assert table.columns(["b"])[:, 0].tolist() == [2.0, 3.0]
    assert table.take(np.array([1])).values[0, 1] == 3.0
    chosen = SignalTable.from_signals([[Signal.of("a", 1.0), Signal.of("b", 2.0)]], names=["b", "c"])
    assert chosen.names == ("b", "c")
    assert chosen.values[0, 0] == 2.0


def test_what_does_not_fit_is_bad_input() -> None:
    with pytest.raises(BadInput, match="repeat"):
        SignalTable.from_signals([[Signal.of("a", 1.0), Signal.of("a", 2.0)]])
    with pytest.raises(BadInput, match="higher-is-surer here"):
        SignalTable.from_signals([[Signal.of("a", 1.0, Direction.LOWER_IS_SURER)], [Signal.of("a", 1.0)]])
    with pytest.raises(BadInput, match="infinite"):
        SignalTable(("a",), np.array([[math.inf]]))
    with pytest.raises(BadInput, match="shape"):
        SignalTable(("a",), np.zeros((2, 2)))
    with pytest.raises(BadInput, match="repeat"):
        SignalTable(("a", "a"), np.zeros((2, 2)))
    with pytest.raises(BadInput, match="width"):
        SignalTable(("a",), np.zeros((2, 1)), {"answer_mean.L1": np.zeros((3, 4), np.float32)})
    with pytest.raises(BadInput, match="earlier rows"):
        SignalTable.from_signals([[], []], [{"v": np.zeros(3, np.float32)}, {"v": np.zeros(4, np.float32)}])
    with pytest.raises(BadInput, match="rows of vectors"):
        SignalTable.from_signals([[], []], [None])
