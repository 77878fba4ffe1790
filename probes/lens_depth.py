"""At which depth the answer is settled, and whether the last layers made the model less certain again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.decision import Stage
from ..core.errors import ConfigurationError
from ..core.evidence import Evidence, LensTrace, Need
from ..core.signal import Direction, Signal
from .lens import Floats, checked_candidates, checked_layers, finite_rows_of, lens_of, lens_prefix

REACH = 8
"""The valley is looked for in this many layers below the final one."""

DEFAULT_DELTA = 0.12
"""Nats. `valley_delta` is .108 for 50,000 tokens, .120 for 160,000 and .125 for 262,144."""

_SETTLED, _DEPTH, _DROP, _LOGPROB = "depth_wins", "valley_depth", "valley_drop", "valley_logprob"
_NAMES = (_SETTLED, _DEPTH, _DROP, _LOGPROB)


def valley_delta(vocabulary_size: int) -> float:
    """The step .01 ln|V| (nats) by which entropy must fall for the search to go on.

    Raises:
        ConfigurationError: fewer than 2 tokens.
    """
    if vocabulary_size < 2:
        raise ConfigurationError(f"vocabulary_size={vocabulary_size} must be at least 2")
    return 0.01 * math.log(vocabulary_size)


class LensDepth:
    """Depths are l / L for layer l of the final layer L: 0 is the embedding, 1 the final layer. Means over tokens.

        lens.depth_wins: depth of the first layer from which on every layer's likeliest token is the generated one (it
            wins and stays); 1 for a token that even the final layer does not put first. Lower is surer.
        lens.valley_depth: depth of the entropy valley near the top; 1 where there is none. Higher is surer.
        lens.valley_drop: entropy (nats) of the final layer minus the valley's, at least 0. Lower is surer: the last
            layers made the model less certain.
        lens.valley_logprob: log-probability (nats) that the valley layer gives the generated token. Higher is surer.

    The valley is that of Confident Decoding (arXiv 2606.21906), which decodes from it: l = L; while l > L - 8 and
    H(l-1) < H(l) - delta, step back [proposal: delta = .01 ln|V|; never down to layer 0, which has read nothing]. As
    signals of being right the three are our own.

    Args:
        layers: the layers that are looked at; the final one is always looked at too. A step goes to the next lower one
            of them, so with every layer the valley is the paper's, with fewer a coarser one.
        delta: nats, above 0; give `valley_delta(vocabulary size)` for the model's own.
        candidates: as of `LensProbe`; entropies over k + 1 candidates call for `valley_delta(k + 1)`.

    Raises:
        ConfigurationError: as of `LensProbe`, or delta is not a number above 0.
    """

    needs = frozenset({Need.HIDDEN_STATES})
    stage = Stage.AFTER
    cost_rank = 0

    def __init__(self, layers: Sequence[int], *, delta: float = DEFAULT_DELTA, candidates: int = 0) -> None:
        self.layers = checked_layers(layers, "LensDepth")
        self.delta = checked_delta(delta)
        self.candidates = checked_candidates(candidates)
        self.prefix = lens_prefix(candidates)
        self.name = f"{self.prefix}_depth"

    @property
    def signal_names(self) -> tuple[str, ...]:
        return depth_names(self.prefix)

    def measure(self, evidence: Evidence) -> Sequence[Signal]:
        trace = lens_of(evidence.captured, self.candidates)
        if isinstance(trace, str):
            return [Signal.missing(name, trace) for name in self.signal_names]
        return depth_signals(trace, self.layers, self.delta, self.prefix)


def checked_delta(delta: float) -> float:
    """A step in nats.

    Raises:
        ConfigurationError: it is not a finite number above 0.
    """
    if not (math.isfinite(delta) and delta > 0.0):
        raise ConfigurationError(f"delta={delta} must be a finite number above 0; valley_delta(vocabulary size) is one")
    return delta


def depth_names(prefix: str) -> tuple[str, ...]:
    """Names of `depth_signals`."""
    return tuple(f"{prefix}.{name}" for name in _NAMES)


def depth_signals(trace: LensTrace, layers: Sequence[int], delta: float, prefix: str) -> list[Signal]:
    """The four signals of `LensDepth`."""
    final = trace.layers[-1]
    looked_at = tuple(sorted({*layers, final}))
    if looked_at[-1] != final or final == 0:
        reason = f"layers {looked_at[:64]} do not lie below a final layer {final}"
        return [Signal.missing(name, reason) for name in depth_names(prefix)]
    return [_settled(trace, looked_at, f"{prefix}.{_SETTLED}"), *_valleys(trace, looked_at, delta, prefix)]


def _settled(trace: LensTrace, layers: tuple[int, ...], name: str) -> Signal:
    rows = finite_rows_of(trace, "agreement", layers)
    if isinstance(rows, str):
        return Signal.missing(name, rows)
    if not np.isin(rows, (0.0, 1.0)).all():
        return Signal.missing(name, "agreement holds values other than 0 and 1")
    # From the top down: how many layers in a row agree.
    staying = np.cumprod(rows[::-1], axis=0).sum(axis=0).astype(np.int64)
    first = np.maximum(len(layers) - staying, 0).clip(max=len(layers) - 1)
    depth = np.asarray(layers, dtype=np.float64)[first] / layers[-1]
    return Signal.of(name, float(depth.mean()), Direction.LOWER_IS_SURER)


@dataclass(frozen=True)
class _Valley:
    """Per token: the row of the valley's layer."""

    rows: NDArray[np.int64]
    layers: NDArray[np.int64]


def _valleys(trace: LensTrace, layers: tuple[int, ...], delta: float, prefix: str) -> list[Signal]:
    ways = (Direction.HIGHER_IS_SURER, Direction.LOWER_IS_SURER, Direction.HIGHER_IS_SURER)
    names = tuple(f"{prefix}.{name}" for name in (_DEPTH, _DROP, _LOGPROB))
    final = layers[-1]
    near = [layer for layer in layers if layer >= max(final - REACH, 1)]
    entropy = finite_rows_of(trace, "entropy", near)
    if len(near) < 2:
        entropy = f"none of the layers {layers[:64]} lies within {REACH} layers below the final one"
    if isinstance(entropy, str):
        return [Signal.missing(name, entropy) for name in names]
    valley = _valley(entropy, near, delta)
    tokens = np.arange(entropy.shape[1])
    drop = entropy[-1] - entropy[valley.rows, tokens]
    found = [
        Signal.of(names[0], float((valley.layers / final).mean()), ways[0]),
        Signal.of(names[1], float(drop.mean()), ways[1]),
    ]
    logprob = finite_rows_of(trace, "logprob", near)
    if isinstance(logprob, str) or logprob.shape != entropy.shape:
        reason = logprob if isinstance(logprob, str) else "logprob and entropy have unequal shapes"
        return [*found, Signal.missing(names[2], reason)]
    return [*found, Signal.of(names[2], float(logprob[valley.rows, tokens].mean()), ways[2])]


def _valley(entropy: Floats, layers: Sequence[int], delta: float) -> _Valley:
    """Where the search from the top ends for each token of entropy (layers, tokens)."""
    falls = entropy[:-1] < entropy[1:] - delta
    # From the top down: how many steps in a row go to a lower entropy.
    steps = np.cumprod(falls[::-1], axis=0).sum(axis=0).astype(np.int64)
    rows = len(layers) - 1 - steps
    return _Valley(rows, np.asarray(layers, dtype=np.int64)[rows])
