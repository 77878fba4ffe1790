"""What an artefact was fitted for (rule 4): loading it into anything else is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from ..core.evidence import CaptureRequest
from ..core.protocols import Fingerprint
from ..core.record import Record, content_hash

if TYPE_CHECKING:
    from .head import Head

SIGNAL_VERSION = 1
"""Raised whenever a signal of the same name starts to mean something else."""

RECORDS = "records:"
"""The identity of an artefact's model begins so where it was fitted on graded records, without a model."""

_LIBRARIES = ("demur", "numpy", "scipy", "scikit-learn", "torch", "transformers")


def current_versions() -> dict[str, str]:
    """Installed versions of the libraries that signals and fits come from."""
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str] = {}
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            found[library] = "not installed"
    return found


class ModelBinding(Record):
    """A model's fingerprint, as stored; see `core.protocols.Fingerprint`."""

    name: str
    identity: str
    pinned: bool
    prompt: str
    decoding: str

    @classmethod
    def of(cls, fingerprint: Fingerprint) -> ModelBinding:
        return cls(
            name=fingerprint.name,
            identity=fingerprint.identity,
            pinned=fingerprint.pinned,
            prompt=fingerprint.prompt,
            decoding=fingerprint.decoding,
        )

    def differences(self, here: Fingerprint, label: str = "model") -> list[str]:
        """Each field that differs, with both values; the name is for people and is not compared."""
        if self.identity.startswith(RECORDS) and here.identity != self.identity:
            return [
                f"{label}: fitted on graded records, without a model, so it vouches for no model (here "
                f"{here.name[:160]!r}); it serves guarded functions: a Router without model="
            ]
        pairs = (
            (label, f"{self.name} {self.identity}", f"{here.name} {here.identity}", self.identity == here.identity),
            (f"{label} prompt template", self.prompt, here.prompt, self.prompt == here.prompt),
            (f"{label} decoding settings", self.decoding, here.decoding, self.decoding == here.decoding),
        )
        return [differs(what, stored, now) for what, stored, now, same in pairs if not same]


class Binding(Record):
    """Everything an artefact is tied to.

    Attributes:
        model: the model that drafts.
        targets: models it escalates to, by the NAME of the arm "escalate:NAME".
        extractor: the answer extractor.
        grader, grader_version: who said right or wrong.
        feature_schema: hash of the signals and vectors of every head; filled in by `Artefact`.
        data: hash of the rows it was fitted on.
        versions: libraries at fit time; recorded, not compared.
        fit_ids: SHA-256 of each fitted row's id, so that evaluation can refuse rows met before.
        top_k, hidden_layers, lens_layers, fast_lens_layers, lens_candidates, prompt_lens, question_logprobs: what was
            captured when the signals were made, as in `CaptureRequest`; of both lenses without the final layer.
    """

    model: ModelBinding
    targets: dict[str, ModelBinding] = Field(default_factory=dict)
    task: str
    extractor: str
    grader: str
    grader_version: str
    feature_schema: str = ""
    data: str
    versions: dict[str, str] = Field(default_factory=current_versions)
    created_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    fit_ids: tuple[str, ...] = ()
    top_k: int = Field(default=5, ge=0)
    hidden_layers: tuple[int, ...] = ()
    lens_layers: tuple[int, ...] = ()
    fast_lens_layers: tuple[int, ...] = ()
    lens_candidates: int = Field(default=64, ge=1)
    prompt_lens: bool = False
    question_logprobs: bool = False

    @model_serializer(mode="wrap")
    def _as_it_always_was(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without the captures that came later, where there are none: so that an older artefact keeps its id."""
        later = ("fast_lens_layers", "lens_candidates", "prompt_lens", "question_logprobs")
        unset = {name for name in later if getattr(self, name) == type(self).model_fields[name].default}
        return {name: value for name, value in dump(self).items() if name not in unset}

    def capture(self, depth: int) -> CaptureRequest:
        """The same capture again.

        Args:
            depth: number of the model's final layer.
        """
        return CaptureRequest(
            top_k=self.top_k,
            hidden_layers=tuple(self.hidden_layers),
            lens_layers=(*self.lens_layers, depth) if self.lens_layers else None,
            fast_lens_layers=(*self.fast_lens_layers, depth) if self.fast_lens_layers else None,
            lens_candidates=self.lens_candidates,
            prompt_lens=self.prompt_lens,
            question_logprobs=self.question_logprobs,
        )


def differs(what: str, stored: str, now: str) -> str:
    """One line of a mismatch message; long values are cut."""
    return f"{what}: fitted for {stored[:160]!r}, here {now[:160]!r}"


def hash_id(row_id: str) -> str:
    """SHA-256 (hex) of a row's id."""
    return hashlib.sha256(str(row_id).encode("utf-8", "surrogatepass")).hexdigest()


def hash_ids(row_ids: Iterable[str]) -> tuple[str, ...]:
    """Sorted, distinct hashes for `Binding.fit_ids`."""
    return tuple(sorted({hash_id(row_id) for row_id in row_ids}))


def feature_schema(heads: Mapping[str, Head]) -> str:
    """Hash of which signals and vectors (with widths) each head reads, and of what the names mean."""
    described = {
        key: {
            "signals": sorted(head.signal_names),
            "hidden": {vector: head.probes[vector].width for vector in head.hidden_names},
        }
        for key, head in heads.items()
    }
    return content_hash({"version": SIGNAL_VERSION, "heads": described})
