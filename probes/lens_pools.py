"""The lens pooled in other ways than by its mean: the worst token, and the layers nearest to the answer."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.decision import Stage
from ..core.evidence import Evidence, LensTrace, Need
from ..core.signal import Direction, Signal
from .lens import KINDS, checked_candidates, checked_layers, finite_rows_of, lens_of, lens_prefix, signal_of

_LAST_PART = 0.75


class LensPools:
    """What a mean over tokens or layers hides.

    Of each KIND of `LensProbe`, with its direction:

        lens.KIND.min_token (agreement, logprob) or lens.KIND.max_token (entropy, kl, log_rank): the least sure token,
            after averaging over the given layers.
        lens.KIND.last_quarter: mean over the given layers in the last quarter of the model (number at least
            3/4 of the final layer's), and over tokens.

    Args:
        layers, candidates: as of `LensProbe`.

    Raises:
        ConfigurationError: as of `LensProbe`.
    """

    needs = frozenset({Need.HIDDEN_STATES})
    stage = Stage.AFTER
    cost_rank = 0

    def __init__(self, layers: Sequence[int], *, candidates: int = 0) -> None:
        self.layers = checked_layers(layers, "LensPools")
        self.candidates = checked_candidates(candidates)
        self.prefix = lens_prefix(candidates)
        self.name = f"{self.prefix}_pools"

    @property
    def signal_names(self) -> tuple[str, ...]:
        return pool_names(self.prefix)

    def measure(self, evidence: Evidence) -> Sequence[Signal]:
        trace = lens_of(evidence.captured, self.candidates)
        if isinstance(trace, str):
            return [Signal.missing(name, trace) for name in self.signal_names]
        return pool_signals(trace, self.layers, self.prefix)


def pool_names(prefix: str) -> tuple[str, ...]:
    """Names of `pool_signals`."""
    return tuple(f"{prefix}.{kind}.{pool}" for kind, way in KINDS for pool in (_worst(way), "last_quarter"))


def pool_signals(trace: LensTrace, layers: Sequence[int], prefix: str) -> list[Signal]:
    """The least sure token and the last quarter, for each kind."""
    return [
        signal
        for kind, direction in KINDS
        for signal in (
            _worst_token(trace, layers, f"{prefix}.{kind}", kind, direction),
            last_quarter(trace, layers, f"{prefix}.{kind}.last_quarter", kind, direction),
        )
    ]


def last_quarter(trace: LensTrace, layers: Sequence[int], name: str, kind: str, direction: Direction) -> Signal:
    """Mean of the layers in the last quarter, over tokens."""
    late = [layer for layer in layers if layer >= _LAST_PART * trace.layers[-1]]
    if not late:
        return Signal.missing(name, f"none of the layers {tuple(layers)[:64]} lies in the last quarter")
    return signal_of(name, finite_rows_of(trace, kind, late), lambda rows: float(rows.mean()), direction)


def _worst_token(trace: LensTrace, layers: Sequence[int], stem: str, kind: str, direction: Direction) -> Signal:
    rows = finite_rows_of(trace, kind, layers)
    lowest = direction is Direction.HIGHER_IS_SURER
    return signal_of(
        f"{stem}.{_worst(direction)}",
        rows,
        lambda found: float(found.mean(axis=0).min() if lowest else found.mean(axis=0).max()),
        direction,
    )


def _worst(direction: Direction) -> str:
    return "min_token" if direction is Direction.HIGHER_IS_SURER else "max_token"
