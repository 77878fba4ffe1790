"""A proposed tool call that was judged when it was proposed, so that it is not judged again when it is carried out."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..core.protocols import Generation
from .assessor import Assessment


@dataclass(frozen=True)
class ScoredGeneration(Generation):
    """A generation with what was made of it: its signals and its confidence are taken as they are (rule 3)."""

    assessment: Assessment = field(default_factory=lambda: Assessment((), None, "nothing was assessed"))
