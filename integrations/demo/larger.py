"""A larger model for the demo, with its success chance measured: shipped for qwen-1.5b, asked for otherwise."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.call import Call
from ...core.decision import Route
from ...core.errors import ConfigurationError
from ...core.protocols import Model
from ...core.record import content_hash
from ...core.success_chance import SuccessChance
from ...evaluation.graders.registry import get_grader
from ...router.settings import Settings
from .files import DemoQuestion
from .model import CHAT_SYSTEM, large_model

if TYPE_CHECKING:
    from ...probes.artefact import Artefact

Progress = Callable[[int, int], None]

SHIPPED = "qwen-1.5b"
"""The local model whose success chance and calibration the shipped artefact holds."""

MEASURED_ON = 100
"""Questions that any other larger model is asked first."""

PRICE = 0.05
"""What asking the larger model once costs in the demo, in its unit."""


def find_larger(spec: str) -> Model:
    """`qwen-1.5b`, or `openai:NAME` / `ollama:NAME`.

    Raises:
        ConfigurationError: the spec names nothing that can be asked.
        ModelError: it cannot be loaded.
    """
    from ..models.store import find_model

    if spec == SHIPPED:
        return large_model(find_model(SHIPPED), SHIPPED)
    provider, _, name = spec.partition(":")
    if provider not in ("openai", "ollama") or not name:
        raise ConfigurationError(f"--large {spec!r}: use {SHIPPED}, openai:NAME or ollama:NAME")
    from ..models.build import build_model

    return build_model(spec, system=CHAT_SYSTEM, max_new_tokens=24)


def priced(settings: Settings, name: str) -> Settings:
    """The demo's settings with what asking the larger model costs."""
    escalate = {**settings.costs.escalate, name: PRICE}
    return Settings(**{**settings.model_dump(), "costs": {**settings.costs.model_dump(), "escalate": escalate}})


def cache_folder() -> Path:
    """Where measured chances are kept."""
    return Path(os.environ.get("DEMUR_CACHE") or Path.home() / ".cache" / "demur")


def measured_chance(
    model: Model, questions: Sequence[DemoQuestion], cache: Path, *, progress: Progress = lambda done, total: None
) -> SuccessChance:
    """Ask the model the measuring questions and learn how its success goes with the small model's confidence.

    Kept in `cache`, by the model's fingerprint and the questions, so that a hosted model is paid for once.

    Raises:
        ModelError: it did not answer.
        NotEnoughLabels: too few questions.
    """
    from ...probes.success_chance import fit_success_chance

    key = content_hash(
        {"model": asdict(model.fingerprint()), "questions": [each.model_dump(mode="json") for each in questions]}
    )
    stored = cache / f"chance-{key[:32]}.json"
    if stored.exists():
        return SuccessChance.model_validate_json(stored.read_text(encoding="utf-8"))
    grader = get_grader("alias")
    right: list[bool] = []
    for number, row in enumerate(questions, start=1):
        text = model.generate(Call.ask(row.question)).response.text
        right.append(grader.grade(text, row.answers, {}))
        progress(number, len(questions))
    base = [each.base_probability for each in questions]
    if any(value is None for value in base):
        raise ConfigurationError("a measuring question has no base_probability; build the demo's files again")
    chance = fit_success_chance([float(p or 0.0) for p in base], right, route=Route.ESCALATE, target=model.name)
    cache.mkdir(parents=True, exist_ok=True)
    temporary = stored.with_suffix(".tmp")
    temporary.write_text(json.dumps(chance.model_dump(mode="json")), encoding="utf-8")
    temporary.replace(stored)
    return chance


def with_chance(artefact: Artefact, name: str, chance: SuccessChance) -> Artefact:
    """The artefact with one more chance; everything else as it was."""
    from ...probes.artefact import Artefact

    chances = {**artefact.chances, f"{Route.ESCALATE.value}:{name}": chance}
    return Artefact(artefact.heads, artefact.binding, chances, artefact.notes)
