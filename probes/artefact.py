"""An artefact: fitted heads and success chances, bound to what they were fitted for."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..core.decision import Stage
from ..core.errors import ArtefactMismatch, BadInput
from ..core.evidence import CaptureRequest
from ..core.protocols import Fingerprint
from ..core.success_chance import SuccessChance
from .access import Access
from .artefact_files import Arrays, read_folder, seal, write_folder
from .binding import Binding, differs, feature_schema, hash_id
from .head import Head, HeadPrediction, head_key
from .head_storage import head_from_parts, head_to_parts
from .signal_table import SignalTable

_LAYER = re.compile(r"\.L(\d+)$")
_OF_LENS = ("lens.", "prompt_lens.", "mice.")
_OF_LAYERS = ("convergence.", "semantic.")
"""Signals over the vectors of all bound layers."""
_OF_TOP = re.compile(r"token\..+_margin$|trajectory\.(consilience|lowest_window|bottom_share|tail)$")


class Artefact:
    """What `demur fit` leaves behind and the router loads.

    Args:
        heads: by "arm/stage": "answer/before", "answer/after", "retrieve/after", "escalate:NAME/after"; beside each
            there may be heads for less access, "answer/after@grey" and "answer/after@black".
        binding: what it was fitted for; `feature_schema` may be left empty and is then filled in.
        chances: success chances by "retrieve", "escalate:NAME", "defer".
        notes: for people.

    Raises:
        BadInput: a head under a key that is not its own.
        ArtefactMismatch: the binding names another feature schema than the heads have.
    """

    def __init__(
        self,
        heads: Mapping[str, Head],
        binding: Binding,
        chances: Mapping[str, SuccessChance] | None = None,
        notes: Iterable[str] = (),
    ) -> None:
        for key, head in heads.items():
            if head.key != key:
                raise BadInput(f"head {head.key!r} is filed under {key!r}")
        schema = feature_schema(heads)
        if binding.feature_schema not in ("", schema):
            raise ArtefactMismatch(
                f"{differs('feature schema', binding.feature_schema, schema)}. The heads read other signals, or "
                "signals mean something else in this version of Demur: fit again with `demur fit`"
            )
        self.heads = dict(heads)
        self.binding = binding.model_copy(update={"feature_schema": schema})
        self.chances = dict(chances or {})
        self.notes = tuple(notes)

    @property
    def id(self) -> str:
        """SHA-256 (hex) of the content: equal artefacts have equal ids."""
        return self._sealed[0]["id"]

    @cached_property
    def _sealed(self) -> tuple[dict[str, Any], bytes]:
        arrays: Arrays = {}
        heads: dict[str, Any] = {}
        for key, head in self.heads.items():
            heads[key], parts = head_to_parts(head)
            arrays |= {f"{key}|{name}": array for name, array in parts.items()}
        body = {
            "binding": self.binding.model_dump(mode="json"),
            "heads": heads,
            "chances": {name: chance.model_dump(mode="json") for name, chance in self.chances.items()},
            "notes": list(self.notes),
        }
        return seal(body, arrays)

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the folder whole or not at all.

        Raises:
            BadInput: the folder is not empty; with `overwrite`, an artefact (and nothing else) is replaced.
            StoreError: the disk did not take it.
        """
        path = Path(folder)
        write_folder(path, *self._sealed, overwrite=overwrite)
        return path

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Artefact:
        """Read what `save` wrote; every array's shape, type and values are checked.

        Raises:
            BadInput: not an artefact, another format version, or contents that do not fit together.
            ArtefactMismatch: a file was changed, or the signals mean something else in this version.
        """
        manifest, arrays = read_folder(Path(folder))
        try:
            binding = Binding.model_validate(manifest["binding"])
            chances = {name: SuccessChance.model_validate(c) for name, c in manifest["chances"].items()}
            heads: dict[str, Head] = {}
            for key, meta in manifest["heads"].items():
                own = [name for name in arrays if name.startswith(f"{key}|")]
                heads[key] = head_from_parts(meta, {name[len(key) + 1 :]: arrays.pop(name) for name in own})
            notes = [str(note) for note in manifest["notes"]]
        except (KeyError, AttributeError, TypeError, ValidationError) as error:
            raise BadInput(f"{folder}: the manifest does not fit together: {str(error)[:500]}") from error
        if arrays:
            raise BadInput(f"{folder}: arrays {sorted(arrays)[:5]} belong to no head")
        return cls(heads, binding, chances, notes)

    def head(self, arm: str, stage: Stage) -> Head | None:
        """The head for an arm and stage, or None: then the prior speaks."""
        return self.heads.get(f"{arm}/{stage.value}")

    def heads_for(self, arm: str, stage: Stage) -> tuple[Head, ...]:
        """The heads for an arm and stage, the one that goes by most first: ask the next where one has too little."""
        found = (self.heads.get(head_key(arm, stage, access)) for access in Access)
        return tuple(head for head in found if head is not None)

    def calibrator_id(self, arm: str, stage: Stage, access: Access = Access.WHITE) -> str:
        """What to write into a confidence: which artefact, which head."""
        return f"{self.id[:16]}:{head_key(arm, stage, access)}"

    def predict_table(
        self, table: SignalTable, arm: str, stage: Stage, tools: Sequence[str | None] | None = None
    ) -> HeadPrediction:
        """What is said of each of the n rows by the first of the heads that has enough to go on, of its own too.

        Raises:
            ArtefactMismatch: there is no head for this arm and stage.
            BadInput: a vector has another width than it was fitted on.
        """
        heads = self.heads_for(arm, stage)
        if not heads:
            raise ArtefactMismatch(
                f"artefact {self.id[:16]} has no head {head_key(arm, stage)!r}; fit one with `demur fit`"
            )
        *others, last = heads
        said = last.predict_table(table, tools)
        for head in reversed(others):
            said = head.predict_table(table, tools).or_else(said)
        return said

    @property
    def signal_names(self) -> tuple[str, ...]:
        """Every scalar signal that some head reads, sorted."""
        return tuple(sorted({name for head in self.heads.values() for name in head.signal_names}))

    @property
    def hidden_names(self) -> tuple[str, ...]:
        """Every vector that some head reads, sorted."""
        return tuple(sorted({name for head in self.heads.values() for name in head.hidden_names}))

    def needed_capture(self, arm: str | None = None) -> CaptureRequest:
        """What the model must be asked to read so that the heads get what they were fitted on.

        Args:
            arm: only for the heads of this arm; None for all. A larger model is not read for what only the small
                model's heads want.
        """
        heads = [head for key, head in self.heads.items() if arm is None or key.rpartition("/")[0] == arm]
        names = {name for head in heads for name in head.signal_names}
        vectors = {name for head in heads for name in head.hidden_names}
        viewed = {name for name in names if name.startswith(_OF_LENS)}
        lens = set(self.binding.lens_layers) if viewed else set()
        lens |= {int(found[1]) for name in viewed if (found := _LAYER.search(name))}
        hidden = {int(found[1]) for name in vectors if (found := _LAYER.search(name))}
        if any(name.startswith(_OF_LAYERS) for name in names):
            hidden |= set(self.binding.hidden_layers)
        fast = any(name.startswith(("fast_lens.", "fast_mice.")) for name in names)
        wants_top = any("_top" in name or _OF_TOP.match(name) for name in names)
        return CaptureRequest(
            top_k=self.binding.top_k if wants_top else 0,
            hidden_layers=tuple(sorted(hidden)),
            lens_layers=tuple(sorted(lens)) or None,
            fast_lens_layers=tuple(self.binding.fast_lens_layers) if fast else None,
            lens_candidates=self.binding.lens_candidates,
            prompt_lens=any(name.startswith("prompt_lens.") for name in names),
            question_logprobs=any(name.startswith("prompt.question_") for name in names),
        )

    def overlap(self, row_ids: Iterable[str]) -> tuple[str, ...]:
        """Those of the ids that it was fitted on."""
        known = set(self.binding.fit_ids)
        return tuple(row_id for row_id in row_ids if hash_id(row_id) in known)

    def check(
        self,
        fingerprint: Fingerprint | None = None,
        *,
        targets: Mapping[str, Fingerprint] | None = None,
        task: str | None = None,
        extractor: str | None = None,
        grader: tuple[str, str] | None = None,
        signals: Collection[str] | None = None,
    ) -> None:
        """Compare what is given with what it was fitted for; None is not compared.

        Args:
            targets: fingerprints of the models to escalate to, by name; those without heads here are not compared.
            grader: name and version.
            signals: every signal name that the probes at hand can give.

        Raises:
            ArtefactMismatch: naming each difference with both values.
        """
        bound = self.binding
        found: list[str] = [] if fingerprint is None else bound.model.differences(fingerprint)
        for name, here in (targets or {}).items():
            if name in bound.targets:
                found += bound.targets[name].differences(here, f"escalation target {name}")
            elif any(key.startswith(f"escalate:{name}/") for key in self.heads):
                found.append(differs(f"escalation target {name}", "no fingerprint", here.identity))
        if task is not None and task != bound.task:
            found.append(differs("task", bound.task, task))
        if extractor is not None and extractor != bound.extractor:
            found.append(differs("answer extractor", bound.extractor, extractor))
        if grader is not None and grader != (bound.grader, bound.grader_version):
            found.append(differs("grader", f"{bound.grader} {bound.grader_version}", " ".join(grader)))
        lost = sorted(set(self.signal_names) - set(signals)) if signals is not None else []
        if lost:
            found.append(
                f"signals: fitted on {len(self.signal_names)}, no probe here gives {', '.join(lost[:5])[:300]}"
            )
        if found:
            raise ArtefactMismatch(
                f"artefact {self.id[:16]} does not fit: {'; '.join(found)}. Load the artefact made for this set-up, or "
                "fit one with `demur fit`"
            )
