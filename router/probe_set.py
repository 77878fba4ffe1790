"""The probes that come with Demur, fitted to what an artefact was fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..core.protocols import Probe
from ..probes.grounding import GroundingProbe
from ..probes.lens import LensProbe
from ..probes.prompt_statistics import PromptStatistics
from ..probes.token_statistics import TokenStatistics

if TYPE_CHECKING:
    from ..probes.artefact import Artefact


def standard_probes(artefact: Artefact | None) -> tuple[Probe, ...]:
    """All probes without a model of their own. The hidden-state probes are part of the artefact's heads.

    Their names, and so what they mean, depend on what was captured at fit time.
    """
    if artefact is None:
        return (PromptStatistics(), TokenStatistics(), GroundingProbe())
    return probes_for_lens(artefact.binding.lens_layers)


def probes_for_lens(layers: Sequence[int]) -> tuple[Probe, ...]:
    """The standard probes with the lens at these layers (none: without the lens)."""
    probes: tuple[Probe, ...] = (PromptStatistics(), TokenStatistics(), GroundingProbe())
    return (*probes, LensProbe(layers)) if layers else probes
