"""The logit lens before a token is generated: do the layers agree on how the answer begins?"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.decision import Stage
from ..core.evidence import Evidence, Need
from ..core.signal import Signal
from .lens import KINDS, checked_candidates, checked_layers, layer_names, layer_signals, of_kind_meant
from .lens_depth import DEFAULT_DELTA, checked_delta, depth_names, depth_signals
from .lens_pools import last_quarter

_PREFIX = "prompt_lens"


class PromptLensProbe:
    """`LensProbe` and `LensDepth` at the last prompt token, for the token that is likeliest to come first.

    Signals `prompt_lens.KIND.L12`, `prompt_lens.KIND.mean`, `prompt_lens.KIND.last_quarter`, `prompt_lens.depth_wins`,
    `prompt_lens.valley_depth`, `prompt_lens.valley_drop` and `prompt_lens.valley_logprob`, with meanings and directions
    as there. Available before generation, so that a gate can use them. [proposal: MICE, arXiv 2504.20168, and
    Confident Decoding, arXiv 2606.21906, read them while generating]

    Args:
        layers, candidates: as of `LensProbe`; the prompt is always read by the exact lens today.
        delta: as of `LensDepth`.

    Raises:
        ConfigurationError: as of `LensProbe` and `LensDepth`.
    """

    name = "prompt_lens"
    needs = frozenset({Need.HIDDEN_STATES})
    stage = Stage.BEFORE
    cost_rank = 0

    def __init__(self, layers: Sequence[int], *, delta: float = DEFAULT_DELTA, candidates: int = 0) -> None:
        self.layers = checked_layers(layers, "PromptLensProbe")
        self.delta = checked_delta(delta)
        self.candidates = checked_candidates(candidates)

    @property
    def signal_names(self) -> tuple[str, ...]:
        late = tuple(f"{_PREFIX}.{kind}.last_quarter" for kind, _ in KINDS)
        return (*layer_names(self.layers, _PREFIX), *late, *depth_names(_PREFIX))

    def measure(self, evidence: Evidence) -> Sequence[Signal]:
        captured = evidence.captured
        absent = "no logit lens of the prompt was captured"
        trace = of_kind_meant(None if captured is None else captured.prompt_lens, self.candidates, absent)
        if isinstance(trace, str):
            return [Signal.missing(name, trace) for name in self.signal_names]
        return [
            *layer_signals(trace, self.layers, _PREFIX),
            *(last_quarter(trace, self.layers, f"{_PREFIX}.{k}.last_quarter", k, way) for k, way in KINDS),
            *depth_signals(trace, self.layers, self.delta, _PREFIX),
        ]
