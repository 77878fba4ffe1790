"""MICE's features: how much of the answer each layer would have written already."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal, get_args

from ..core.decision import Stage
from ..core.errors import ConfigurationError, DemurError
from ..core.evidence import Evidence, LensTrace, Need
from ..core.signal import Direction, Signal
from .lens import checked_candidates, checked_layers, finite_rows_of, lens_of, mean_signal
from .text_similarity import RapidFuzz, TextSimilarity

AGREEMENT = "token_match"

Output = Literal["final_layer", "response"]


class LensSimilarity:
    """Similarity of the text y_i that an inner layer would have written to the output y (MICE, arXiv 2504.20168).

    y_i is the layer's likeliest token at every position of the answer's content, decoded together (`LensTrace.said`).
    Signals `mice.METRIC.L7` for each given layer and `mice.METRIC.mean` over the inner ones; higher is surer. The
    final layer has no such feature: its text is y. Together with the raw confidence `token.sum_logprob` they are what
    MICE's classifiers read.

    Args:
        layers: as of `LensProbe`.
        metric: "rapidfuzz"; "token_match", the share of positions where the layer's token is the generated one (then
            it equals `lens.agreement.*`: use one of them); or any `TextSimilarity`, such as `BertScore(encoder)`,
            which is the paper's.
        output: where y comes from. "final_layer": the final layer's text, which is the output under greedy decoding,
            the paper's setting. "response" [a deviation]: the response's whole text, for sampled answers; scaffolding
            is in it.
        candidates: as of `LensProbe`; of the fast lens, names begin with `fast_mice.`.

    Raises:
        ConfigurationError: as of `LensProbe`, or a metric or output that is not known or not named as it must be.
    """

    needs = frozenset({Need.HIDDEN_STATES})
    stage = Stage.AFTER

    def __init__(
        self,
        layers: Sequence[int],
        metric: str | TextSimilarity = "rapidfuzz",
        *,
        output: Output = "final_layer",
        candidates: int = 0,
    ) -> None:
        self.layers = checked_layers(layers, "LensSimilarity")
        self.candidates = checked_candidates(candidates)
        if output not in get_args(Output):
            raise ConfigurationError(f"output={output!r}: use one of {get_args(Output)}")
        self.output: Output = output
        self.similarity = _similarity(metric)
        self.metric = AGREEMENT if self.similarity is None else self.similarity.name
        self.name = f"{'fast_' if candidates else ''}mice.{self.metric}"
        self.cost_rank = 0 if self.similarity is None else self.similarity.cost_rank

    @property
    def signal_names(self) -> tuple[str, ...]:
        return (*(self._of(layer) for layer in self.layers), f"{self.name}.mean")

    def measure(self, evidence: Evidence) -> Sequence[Signal]:
        trace = lens_of(evidence.captured, self.candidates)
        if isinstance(trace, str):
            return self._none(trace)
        inner = [layer for layer in self.layers if layer < trace.layers[-1]]
        known = [layer for layer in inner if layer in trace.layers]
        found = self._matches(trace, known) if self.similarity is None else self._texts(trace, known, evidence)
        if isinstance(found, str):
            return self._none(found)
        scores = dict(zip(known, found, strict=True))
        signals = [self._signal(layer, scores, trace) for layer in self.layers]
        of_inner = [signal for layer, signal in zip(self.layers, signals, strict=True) if layer in inner]
        return [*signals, mean_signal(f"{self.name}.mean", of_inner, Direction.HIGHER_IS_SURER)]

    def _of(self, layer: int) -> str:
        return f"{self.name}.L{layer}"

    def _none(self, reason: str) -> list[Signal]:
        return [Signal.missing(name, reason) for name in self.signal_names]

    def _signal(self, layer: int, scores: dict[int, float | str], trace: LensTrace) -> Signal:
        if layer >= trace.layers[-1]:
            return Signal.missing(self._of(layer), f"{trace.layers[-1]} is the final layer: its text is the output")
        score = scores.get(layer)
        if score is None:
            return Signal.missing(self._of(layer), f"layer {layer} was not captured; captured are {trace.layers[:64]}")
        if isinstance(score, str):
            return Signal.missing(self._of(layer), score)
        return Signal.of(self._of(layer), score)

    @staticmethod
    def _matches(trace: LensTrace, layers: Sequence[int]) -> list[float | str]:
        rows = [finite_rows_of(trace, "agreement", (layer,)) for layer in layers]
        return [row if isinstance(row, str) else float(row.mean()) for row in rows]

    def _texts(self, trace: LensTrace, layers: Sequence[int], evidence: Evidence) -> list[float] | str:
        if len(trace.said) != len(trace.layers):
            return f"the lens holds {len(trace.said)} texts for {len(trace.layers)} layers; it was captured without"
        y = trace.said[-1]
        if self.output == "response":
            y = "" if evidence.response is None else evidence.response.text
        if not y.strip():
            return "the output has no text"
        assert self.similarity is not None
        try:
            scores = self.similarity.similarities([trace.said[trace.layers.index(layer)] for layer in layers], y)
        except DemurError as error:
            return str(error)
        if len(scores) != len(layers):
            return f"{self.metric} gave {len(scores)} numbers for {len(layers)} texts"
        return [float(score) if math.isfinite(score) else math.nan for score in scores]


def _similarity(metric: str | TextSimilarity) -> TextSimilarity | None:
    """None for token_match, which compares tokens and no texts."""
    if isinstance(metric, str):
        if metric == AGREEMENT:
            return None
        if metric == RapidFuzz.name:
            return RapidFuzz()
        raise ConfigurationError(
            f"metric={str(metric)[:40]!r}: use {AGREEMENT!r}, {RapidFuzz.name!r}, or an object such as "
            "BertScore(encoder)"
        )
    if not re.fullmatch(r"[a-z0-9_]{1,40}", metric.name) or metric.name == AGREEMENT:
        raise ConfigurationError(
            f"metric {metric.name[:40]!r} must be named in lower-case letters, digits and underscores, and not "
            f"{AGREEMENT!r}"
        )
    return metric
