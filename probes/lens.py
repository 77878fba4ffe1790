"""Logit lens: does every layer already see the answer that came out?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..core.decision import Stage
from ..core.errors import ConfigurationError
from ..core.evidence import Captured, Evidence, LensTrace, Need
from ..core.signal import Direction, Signal

Floats = NDArray[np.float64]

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
    (arXiv 2504.20168), here token by token. Surer: higher agreement and logprob; lower entropy, kl and log_rank.

    Args:
        layers: layer numbers as in `LensTrace` (0 is the embedding output). They fix the names, so negative numbers
            are refused: resolve them against the model first.
        candidates: 0 reads the exact lens; k the fast lens over k candidates, whose signals are `fast_lens.KIND.L12`
            and so on: its scale is another one, so a trace over another number of candidates is unavailable.

    Raises:
        ConfigurationError: no layers, a negative one, or one twice; candidates is negative.
    """

    needs = frozenset({Need.HIDDEN_STATES})
    stage = Stage.AFTER
    cost_rank = 0

    def __init__(self, layers: Sequence[int], *, candidates: int = 0) -> None:
        self.layers = checked_layers(layers, "LensProbe")
        self.candidates = checked_candidates(candidates)
        self.name = lens_prefix(candidates)

    @property
    def signal_names(self) -> tuple[str, ...]:
        return layer_names(self.layers, self.name)

    def measure(self, evidence: Evidence) -> Sequence[Signal]:
        trace = lens_of(evidence.captured, self.candidates)
        if isinstance(trace, str):
            return [Signal.missing(name, trace) for name in self.signal_names]
        return layer_signals(trace, self.layers, self.name)


def layer_names(layers: Sequence[int], prefix: str) -> tuple[str, ...]:
    """Names of `layer_signals`."""
    columns = (*(f"L{layer}" for layer in layers), "mean")
    return tuple(f"{prefix}.{kind}.{column}" for kind, _ in KINDS for column in columns)


def layer_signals(trace: LensTrace, layers: Sequence[int], prefix: str) -> list[Signal]:
    """Each kind at each layer, averaged over tokens, and its mean over the layers."""
    return [signal for kind, direction in KINDS for signal in _of_kind(trace, layers, prefix, kind, direction)]


def checked_layers(layers: Sequence[int], reader: str) -> tuple[int, ...]:
    """Ascending layer numbers.

    Raises:
        ConfigurationError: no layers, a negative one, or one twice.
    """
    ordered = tuple(sorted(layers))
    if not ordered:
        raise ConfigurationError(f"{reader} needs at least one layer")
    if ordered[0] < 0 or len(set(ordered)) != len(ordered):
        raise ConfigurationError(f"layers={tuple(layers)} must be distinct and not negative")
    return ordered


def checked_candidates(candidates: int) -> int:
    """Number of candidates of the fast lens, 0 for the exact one.

    Raises:
        ConfigurationError: it is negative.
    """
    if candidates < 0:
        raise ConfigurationError(f"candidates={candidates} must be 0 (the exact lens) or more (the fast one)")
    return candidates


def lens_prefix(candidates: int) -> str:
    """What the names of signals begin with: those of both lenses may stand side by side."""
    return "fast_lens" if candidates else "lens"


def lens_of(captured: Captured | None, candidates: int) -> LensTrace | str:
    """The trace of the answer that is meant, or why there is none."""
    if captured is None:
        return "no logit lens was captured"
    if candidates:
        return of_kind_meant(captured.fast_lens, candidates, "no fast lens was captured")
    return of_kind_meant(captured.lens, 0, "no logit lens was captured")


def of_kind_meant(trace: LensTrace | None, candidates: int, absent: str) -> LensTrace | str:
    """The trace, if it looks at as many candidates as are meant; else why not."""
    if trace is None:
        return absent
    if not trace.layers:
        return "the lens that was captured holds no layer"
    if trace.candidates != candidates:
        told = "over {} candidates", "exact"
        here, meant = (told[0].format(n) if n else told[1] for n in (trace.candidates, candidates))
        return f"the lens that was captured is {here}, this probe reads one that is {meant}: another scale"
    return trace


def rows_of(trace: LensTrace, kind: str) -> Floats | str:
    """One kind as (layers, tokens), or why its shape is wrong."""
    rows = np.asarray(getattr(trace, kind), dtype=np.float64)
    if rows.ndim != 2 or rows.shape[0] != len(trace.layers) or rows.shape[1] == 0:
        return f"lens {kind} has shape {rows.shape}; ({len(trace.layers)}, tokens > 0) is needed"
    return rows


def finite_rows_of(trace: LensTrace, kind: str, layers: Sequence[int]) -> Floats | str:
    """The rows (len(layers), tokens) of these layers, or why one of them cannot be read."""
    rows = rows_of(trace, kind)
    if isinstance(rows, str):
        return rows
    lost = [layer for layer in layers if layer not in trace.layers]
    if lost:
        return f"layers {lost[:20]} were not captured; captured are {trace.layers[:64]}"
    chosen = rows[[trace.layers.index(layer) for layer in layers]]
    if not np.isfinite(chosen).all():
        return f"{int((~np.isfinite(chosen)).sum())} of {chosen.size} values of {kind} are not finite"
    return chosen


def signal_of(name: str, rows: Floats | str, value: Callable[[Floats], float], direction: Direction) -> Signal:
    """A signal from rows, or missing for the reason that stands in their place."""
    return Signal.missing(name, rows) if isinstance(rows, str) else Signal.of(name, value(rows), direction)


def _of_kind(trace: LensTrace, layers: Sequence[int], prefix: str, kind: str, direction: Direction) -> list[Signal]:
    rows = rows_of(trace, kind)
    if isinstance(rows, str):
        return [Signal.missing(f"{prefix}.{kind}.{c}", rows) for c in (*(f"L{x}" for x in layers), "mean")]
    signals = [_of_layer(trace, rows, f"{prefix}.{kind}.L{layer}", layer, direction) for layer in layers]
    return [*signals, mean_signal(f"{prefix}.{kind}.mean", signals, direction)]


def mean_signal(name: str, signals: Sequence[Signal], direction: Direction) -> Signal:
    """The mean of signals; missing where one of them is, or where there are none."""
    values = [signal.value for signal in signals if signal.value is not None]
    if len(values) < len(signals) or not values:
        lost = ", ".join(signal.name for signal in signals if not signal.available)
        return Signal.missing(name, f"unavailable layers: {lost[:200] or 'all'}")
    return Signal.of(name, float(np.mean(values)), direction)


def _of_layer(trace: LensTrace, rows: Floats, name: str, layer: int, direction: Direction) -> Signal:
    if layer not in trace.layers:
        return Signal.missing(name, f"layer {layer} was not captured; captured are {trace.layers[:64]}")
    row = rows[trace.layers.index(layer)]
    if not np.isfinite(row).all():
        return Signal.missing(name, f"{int((~np.isfinite(row)).sum())} of {row.size} values are not finite")
    return Signal.of(name, float(row.mean()), direction)
