"""Layer convergence: do the later layers still move what the earlier ones arrived at? (arXiv 2510.01237)"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..core.decision import Stage
from ..core.errors import ConfigurationError
from ..core.evidence import Captured, Evidence, Need
from ..core.signal import Signal
from .lens import Floats, checked_layers

FEWEST = 5
_VARIANTS = ("raw", "rms", "delta")


class LayerConvergence:
    """s = σ²_early / (σ²_late + ε) over the last prompt token's vectors of the given layers; higher is surer.

    σ² of a half is the variance over the half's layers (divided by their number), averaged over dimensions. The
    layers are split in the middle; with an odd number the middle one belongs to neither. [proposal: the paper does
    not tell which variance, where "early" ends, nor ε.] Three variants:

        convergence.raw: of the vectors as they are: the paper's. A trap: the residual stream grows with depth, so this
            is small and close to constant whatever was asked.
        convergence.rms: of each layer's vector divided by its root mean square: what turns, not what grows.
        convergence.delta: of the differences between consecutive given layers: how unlike each other the updates are.

    The ratio exceeds 1 at times: it is a score, no probability (`FourTierScore` makes r / (1 + r) of it).

    Args:
        layers: at least 5. The vectors are Hugging Face's `hidden_states`, whose last one is after the final norm, on
            another scale than the others: leave it out, unless the jump is meant to be in.
        epsilon: ε, above 0, in the squared units of the vectors.

    Raises:
        ConfigurationError: fewer than 5 layers, a negative one, or one twice; epsilon not a number above 0.
    """

    name = "convergence"
    needs = frozenset({Need.HIDDEN_STATES})
    stage = Stage.BEFORE
    cost_rank = 0
    signal_names = tuple(f"convergence.{variant}" for variant in _VARIANTS)

    def __init__(self, layers: Sequence[int], *, epsilon: float = 1e-6) -> None:
        self.layers = checked_layers(layers, "LayerConvergence")
        if len(self.layers) < FEWEST:
            raise ConfigurationError(f"layers={self.layers}: at least {FEWEST} are needed, so that halves can vary")
        if not (math.isfinite(epsilon) and epsilon > 0.0):
            raise ConfigurationError(f"epsilon={epsilon} must be a finite number above 0")
        self.epsilon = epsilon

    def measure(self, evidence: Evidence) -> Sequence[Signal]:
        states = self._states(evidence.captured)
        if isinstance(states, str):
            return [Signal.missing(name, states) for name in self.signal_names]
        raw, rms, delta = self.signal_names
        return [
            Signal.of(raw, self._ratio(states)),
            self._turned(rms, states),
            Signal.of(delta, self._ratio(np.diff(states, axis=0))),
        ]

    def _turned(self, name: str, states: Floats) -> Signal:
        sizes = np.sqrt((states**2).mean(axis=1, keepdims=True))
        if not (sizes > 0.0).all():
            return Signal.missing(name, f"the vector of layer {self.layers[int(np.argmin(sizes))]} is all zeros")
        return Signal.of(name, self._ratio(states / sizes))

    def _states(self, captured: Captured | None) -> Floats | str:
        """(layers, width), or why not."""
        hidden = {} if captured is None else captured.hidden
        names = [f"prompt_last.L{layer}" for layer in self.layers]
        lost = [name for name in names if name not in hidden]
        if lost:
            return f"vectors were not captured: {', '.join(lost[:10])}"
        vectors = [np.asarray(hidden[name], dtype=np.float64) for name in names]
        if vectors[0].ndim != 1 or vectors[0].size == 0 or any(v.shape != vectors[0].shape for v in vectors):
            return f"vectors have shapes {sorted({v.shape for v in vectors})[:5]}; one (width,) is needed"
        states = np.stack(vectors)
        bad = ~np.isfinite(states).all(axis=1)
        return f"{names[int(np.argmax(bad))]} has values that are not finite" if bad.any() else states

    def _ratio(self, rows: Floats) -> float:
        half = len(rows) // 2
        early, late = rows[:half], rows[len(rows) - half :]
        return float(early.var(axis=0).mean() / (late.var(axis=0).mean() + self.epsilon))
