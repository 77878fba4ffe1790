"""The probes that come with Demur, by what is captured of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..core.evidence import CaptureRequest, Need
from ..core.protocols import Model, Probe
from ..probes.grounding import GroundingProbe
from ..probes.layer_convergence import FEWEST, LayerConvergence
from ..probes.lens import LensProbe
from ..probes.lens_depth import LensDepth
from ..probes.lens_pools import LensPools
from ..probes.lens_similarity import LensSimilarity
from ..probes.prefix_confidence import PrefixConfidence
from ..probes.prompt_lens import PromptLensProbe
from ..probes.prompt_statistics import PromptStatistics
from ..probes.question_likelihood import QuestionLikelihood
from ..probes.token_statistics import TokenStatistics
from ..probes.trajectory import Trajectory

if TYPE_CHECKING:
    from ..probes.artefact import Artefact


def standard_probes(artefact: Artefact | None) -> tuple[Probe, ...]:
    """All probes without a model of their own. The hidden-state probes are part of the artefact's heads.

    Their names, and so what they mean, depend on what was captured at fit time.
    """
    if artefact is None:
        return text_and_token_probes()
    bound = artefact.binding
    return (
        *text_and_token_probes(),
        *inside_probes(
            bound.lens_layers,
            fast_layers=bound.fast_lens_layers,
            candidates=bound.lens_candidates,
            hidden_layers=bound.hidden_layers,
        ),
    )


def probes_for(model: Model, capture: CaptureRequest) -> tuple[Probe, ...]:
    """The same for a model that is asked to capture this."""
    depth = getattr(model, "layer_count", None)
    if Need.HIDDEN_STATES not in model.provides or depth is None:
        return text_and_token_probes()
    return (
        *text_and_token_probes(),
        *inside_probes(
            inner(capture.lens_layers, depth),
            fast_layers=inner(capture.fast_lens_layers, depth),
            candidates=capture.lens_candidates,
            hidden_layers=inner(capture.hidden_layers, depth),
        ),
    )


def text_and_token_probes() -> tuple[Probe, ...]:
    """Those that need nothing of the model's inside but, some of them, what it says of its tokens."""
    return (
        PromptStatistics(),
        QuestionLikelihood(),
        TokenStatistics(),
        Trajectory(),
        PrefixConfidence(),
        GroundingProbe(),
    )


def inside_probes(
    lens_layers: Sequence[int],
    *,
    fast_layers: Sequence[int] = (),
    candidates: int = 0,
    hidden_layers: Sequence[int] = (),
) -> tuple[Probe, ...]:
    """Those of the lens, exact and fast, and of the vectors, at these inner layers; none where there are no layers."""
    probes: list[Probe] = []
    if lens_layers:
        probes += [
            LensProbe(lens_layers),
            LensPools(lens_layers),
            LensDepth(lens_layers),
            LensSimilarity(lens_layers, "rapidfuzz"),
            PromptLensProbe(lens_layers),
        ]
    if fast_layers:
        probes += [
            LensProbe(fast_layers, candidates=candidates),
            LensPools(fast_layers, candidates=candidates),
            LensDepth(fast_layers, candidates=candidates),
            LensSimilarity(fast_layers, "rapidfuzz", candidates=candidates),
        ]
    if len(hidden_layers) >= FEWEST:
        probes.append(LayerConvergence(hidden_layers))
    return tuple(probes)


def inner(layers: Sequence[int] | str | None, depth: int) -> tuple[int, ...]:
    """Those of the layers that are not the final one: through the lens, that is the output itself."""
    if layers is None:
        return ()
    if isinstance(layers, str):
        return tuple(range(1, depth))
    return tuple(sorted({layer % (depth + 1) for layer in layers} - {depth}))
