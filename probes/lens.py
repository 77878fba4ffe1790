"""Logit lens: does every layer already see the answer that came out?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..core.decision import Stage
from ..core.errors import ConfigurationError
from ..core.evidence import Evidence, LensTrace, Need
from ..core.signal import Direction, Signal

KINDS: tuple[tuple[str, Direction], ...] = (
    ("agreement", Direction.HIGHER_IS_SURER),
    ("logprob", Direction.HIGHER_IS_SURER),
    ("entropy", Direction.LOWER_IS_SURER),
    ("kl", Direction.LOWER_IS_SURER),
    ("log_rank", Direction.LOWER_IS_SURER),
)


class LensProbe:
    """Per layer and pooled over layers, each averaged over the tokens of the answer span.

    Signals `lens.KIND.L12` for each layer and `lens.KIND.mean` over the given layers; KIND is agreement, logprob,
    entropy, kl or log_rank of `LensTrace`. Layer-wise agreement with the output is the feature of MICE
    (arXiv 2504.20168), here token by token.

    Args:
        layers: layer numbers as in `LensTrace` (0 is the embedding output). They fix the names, so negative numbers
            are refused: resolve them against the model first.

    Raises:
        ConfigurationError: no layers, a negative one, or one twice.
    """

    name = "lens"
    needs = frozenset({Need.HIDDEN_STATES})
    stage = Stage.AFTER
    cost_rank = 0

    def __init__(self, layers: Sequence[int]) -> None:
        ordered = tuple(sorted(layers))
        if not ordered:
            raise ConfigurationError("LensProbe needs at least one layer")
        if ordered[0] < 0 or len(set(ordered)) != len(ordered):
            raise ConfigurationError(f"layers={tuple(layers)} must be distinct and not negative")
        self.layers = ordered

    @property
    def signal_names(self) -> tuple[str, ...]:
        columns = (*(f"L{layer}" for layer in self.layers), "mean")
        return tuple(f"lens.{kind}.{column}" for kind, _ in KINDS for column in columns)

    def measure(self, evidence: Evidence) -> Sequence[Signal]:
        lens = evidence.captured.lens if evidence.captured is not None else None
        if lens is None:
            return [Signal.missing(name, "no logit lens was captured") for name in self.signal_names]
        return [signal for kind, direction in KINDS for signal in self._of_kind(lens, kind, direction)]

    def _of_kind(self, lens: LensTrace, kind: str, direction: Direction) -> list[Signal]:
        rows = np.asarray(getattr(lens, kind), dtype=np.float64)
        if rows.ndim != 2 or rows.shape[0] != len(lens.layers) or rows.shape[1] == 0:
            reason = f"lens {kind} has shape {rows.shape}; ({len(lens.layers)}, tokens > 0) is needed"
            return [Signal.missing(f"lens.{kind}.{c}", reason) for c in (*(f"L{x}" for x in self.layers), "mean")]
        signals = [self._of_layer(lens, rows, kind, layer, direction) for layer in self.layers]
        pooled = f"lens.{kind}.mean"
        values = [signal.value for signal in signals if signal.value is not None]
        if len(values) < len(signals):
            lost = ", ".join(signal.name for signal in signals if not signal.available)
            return [*signals, Signal.missing(pooled, f"unavailable layers: {lost[:200]}")]
        return [*signals, Signal.of(pooled, float(np.mean(values)), direction)]

    @staticmethod
    def _of_layer(lens: LensTrace, rows: NDArray[np.float64], kind: str, layer: int, direction: Direction) -> Signal:
        name = f"lens.{kind}.L{layer}"
        if layer not in lens.layers:
            return Signal.missing(name, f"layer {layer} was not captured; captured are {lens.layers[:64]}")
        row = rows[lens.layers.index(layer)]
        if not np.isfinite(row).all():
            return Signal.missing(name, f"{int((~np.isfinite(row)).sum())} of {row.size} values are not finite")
        return Signal.of(name, float(row.mean()), direction)
