"""A router whose confidence is set by the test; everything after it is the real thing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from ..core.decision import Route, Stage
from ..core.errors import ConfigurationError
from ..core.evidence import CaptureRequest, Evidence
from ..core.protocols import Model
from ..core.success_chance import SuccessChance
from ..evaluation.turn_kind import turn_kind
from ..integrations.router import Router
from ..policies.expected_cost import Arm
from ..probes.artefact import Artefact
from ..router.assessor import Assessment, Assessor
from ..router.settings import Settings
from .frozen_confidence import FrozenConfidence


class FrozenRouter(Router):
    """The real router, policies, log and queue, in memory, with a confidence that is set.

    Args:
        model: answers first; `ScriptedModel`, say. May be left out where only functions or agents are judged.
        confidence: a number for every call, or a `FrozenConfidence`; None: nothing is known, so the fallback acts.
        chances: "retrieve" or "escalate:NAME" → chance that this route ends with a right answer.
        settings: default: built-in costs, with `mode="enforce"`; the working folder's `demur.toml` is not read.
        options: of `Router`; by default `database=":memory:"` and `seed=0`.

    Raises:
        ConfigurationError: a confidence or a chance that is no number in [0, 1], or an unknown route.
    """

    def __init__(
        self,
        model: Model | None = None,
        *,
        confidence: float | FrozenConfidence | None = None,
        chances: Mapping[str, float] | None = None,
        settings: Settings | None = None,
        **options: Any,
    ) -> None:
        self._frozen = confidence if isinstance(confidence, FrozenConfidence) else FrozenConfidence(confidence)
        self._chances = {arm: _stated(arm, chance) for arm, chance in (chances or {}).items()}
        options = {"database": ":memory:", "seed": 0, **options}
        super().__init__(model, settings=settings if settings is not None else Settings(mode="enforce"), **options)

    def assessor(self, *task: Any, **rest: Any) -> Assessor:
        """Every task's: it measures nothing and says what was set."""
        return _FrozenAssessor(self._frozen, self._chances)


class _FrozenArtefact:
    """As much of an artefact as deciding looks at."""

    id = "frozen for a test"

    def __init__(self, chances: Mapping[str, SuccessChance]) -> None:
        self.chances = dict(chances)

    def head(self, arm: str, stage: Stage) -> None:
        return None


class _FrozenAssessor(Assessor):
    def __init__(self, frozen: FrozenConfidence, chances: Mapping[str, SuccessChance]) -> None:
        super().__init__((), cast("Artefact", _FrozenArtefact(chances)))
        self._frozen = frozen

    def can_judge(self, arm: str, stage: Stage = Stage.AFTER) -> bool:
        return stage is Stage.AFTER

    def capture_request(self, arm: str) -> CaptureRequest:
        return CaptureRequest()

    def assess(self, evidence: Evidence, stage: Stage, *, deadline: datetime | None = None) -> Assessment:
        confidence = self._frozen.of(evidence)
        why_not = "" if confidence is not None else "the test froze no confidence for this"
        turn = turn_kind(evidence.response) if stage is Stage.AFTER and evidence.response is not None else None
        return Assessment((), confidence, why_not, turn=turn)


def _stated(arm: str, chance: float) -> SuccessChance:
    parsed = Arm.parse(arm)
    if parsed.route not in (Route.RETRIEVE, Route.ESCALATE):
        raise ConfigurationError(f"chances names {arm!r}; only 'retrieve' and 'escalate:NAME' have one")
    if not 0.0 <= chance <= 1.0:
        raise ConfigurationError(f"chances[{arm!r}]={chance} must lie in [0, 1]")
    return SuccessChance.stated(parsed.route, chance, target=parsed.target)
