"""Ask a model many questions while its inside is read; resumable, in batches, with progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ...core.call import Call
from ...core.decision import Stage
from ...core.errors import BadInput, ConfigurationError, PromptTooLong
from ...core.evidence import CaptureRequest, Document, Evidence, Need
from ...core.protocols import Generation, Model, Probe
from ...core.record import content_hash
from ...core.signal import Signal
from ..assessor import measure
from .asking import Asked, asked_of
from .evidence_cache import CollectedRow, EvidenceCache
from .rows import QuestionRow

Progress = Callable[[int, int], None]
"""Told (rows done, rows in all)."""


def documents_hash(documents: Sequence[Document], call: Call | None = None) -> str:
    """SHA-256 of what a model is shown beside the question: passages in their order, and tools; "" for none."""
    if call is not None and call.tools:
        return content_hash([[document.text for document in documents], list(call.tools)])
    return content_hash([document.text for document in documents]) if documents else ""


def silent(done: int, total: int) -> None:
    """No progress shown."""


class Collector:
    """Collects evidence of one model on one arm.

    Args:
        model: asked in batches where it has `generate_batch`, else one by one.
        probes: all their signals, of both stages, are kept under their names.
        capture: what is read off the model.
        cache_folder: where collected rows are kept between runs.
        arm: "answer", "retrieve" or "escalate:NAME".
        float16: keep hidden vectors in half precision.
    """

    def __init__(
        self,
        model: Model,
        probes: Sequence[Probe],
        capture: CaptureRequest,
        cache_folder: Path,
        *,
        arm: str = "answer",
        batch_size: int = 16,
        float16: bool = False,
    ) -> None:
        self.model = model
        self.probes = tuple(probes)
        self.capture = capture
        self.arm = arm
        self.batch_size = batch_size
        self.settings: dict[str, Any] = {
            "fingerprint": asdict(model.fingerprint()),
            "capture": asdict(capture),
            "arm": arm,
            "signals": sorted(name for probe in self.probes for name in probe.signal_names),
            "float16": float16,
            "format": 1,
        }
        extractor = getattr(model, "answer_extractor", None)
        if extractor not in (None, "first-stop/1"):
            self.settings["extractor"] = extractor
        self.cache = EvidenceCache(cache_folder, self.settings, float16=float16)

    def collect(
        self,
        rows: Sequence[QuestionRow],
        *,
        documents: Mapping[str, Sequence[Document]] | None = None,
        passages: Mapping[str, str] | None = None,
        progress: Progress = silent,
    ) -> list[CollectedRow]:
        """Evidence for every row, in their order; rows collected earlier are read from the cache.

        Args:
            documents: what each row is shown, by its id, in place of what it names itself.
            passages: texts that rows name by `meta.passage_id`.

        Raises:
            BadInput: a question cannot be put to this model; the message names the row.
            ConfigurationError: an answer was stopped early by a rule of the model's.
            ModelError: the model failed. What was collected before is kept.
        """
        known = self.cache.load()
        asked = {row.id: each for row, each in zip(rows, asked_of(rows, passages), strict=True)}
        if documents is not None:
            asked = {name: replace(each, documents=tuple(documents.get(name, ()))) for name, each in asked.items()}
        # The same question with other passages or tools is another prompt.
        wanted = {row.id: (row.question, documents_hash(asked[row.id].documents, asked[row.id].call)) for row in rows}
        fresh = {
            name: known[name]
            for name, asked in wanted.items()
            if name in known and (known[name].question, known[name].documents) == asked
        }
        waiting = [row for row in rows if row.id not in fresh]
        # Rows of like length share a batch, so that little is padded.
        waiting.sort(key=lambda row: (len(row.question) + asked[row.id].length, row.id))
        progress(len(fresh), len(rows))
        for start in range(0, len(waiting), self.batch_size):
            batch = waiting[start : start + self.batch_size]
            collected = self._ask(batch, [asked[row.id] for row in batch])
            fresh.update({row.id: row for row in self.cache.append(collected)})
            progress(len(fresh), len(rows))
        return [fresh[row.id] for row in rows]

    def _ask(self, batch: Sequence[QuestionRow], asked: Sequence[Asked]) -> list[CollectedRow]:
        calls = [each.call for each in asked]
        passages = [each.documents for each in asked]
        generations = self._together(calls, passages)
        if generations is None:
            generations = [self._alone(*each) for each in zip(batch, calls, passages, strict=True)]
        return [
            self._row(row, call, docs, generation)
            for row, call, docs, generation in zip(batch, calls, passages, generations, strict=True)
        ]

    def _together(self, calls: Sequence[Call], passages: Sequence[tuple[Document, ...]]) -> Sequence[Generation] | None:
        """The batch at once; None where the model cannot, or where some row cannot be asked."""
        ask_all = getattr(self.model, "generate_batch", None)
        if ask_all is None:
            return None
        try:
            return ask_all(calls, documents=passages if any(passages) else None, capture=self.capture)
        except (BadInput, PromptTooLong):
            return None

    def _alone(self, row: QuestionRow, call: Call, documents: tuple[Document, ...]) -> Generation:
        try:
            return self.model.generate(call, documents=documents, capture=self.capture)
        except (BadInput, PromptTooLong) as error:
            raise BadInput(f"row {row.id!r} cannot be asked: {error}. Take it out of the file") from error

    def _row(
        self, row: QuestionRow, call: Call, documents: tuple[Document, ...], generation: Generation
    ) -> CollectedRow:
        if generation.response.stopped_early:
            # Not one of the model's answers; and what is cached does not say under which rule it was asked.
            raise ConfigurationError(
                f"row {row.id!r}: the answer was stopped early ({generation.response.stopped_early}); collect from a "
                "model without `early_stop`: model.with_decoding(early_stop=None)"
            )
        evidence = Evidence(
            call=call,
            response=generation.response,
            captured=generation.captured,
            arm=self.arm,
            documents=documents,
            model=self.model,
        )
        signals = self._signals(evidence)
        cost = generation.response.cost
        return CollectedRow(
            id=row.id,
            question=row.question,
            response=generation.response.text,
            signals={signal.name: signal.value for signal in signals},
            hidden=dict(generation.captured.hidden) if generation.captured is not None else {},
            tokens_in=cost.tokens_in,
            tokens_out=cost.tokens_out,
            seconds=cost.seconds,
            documents=documents_hash(documents, call),
        )

    def _signals(self, evidence: Evidence) -> list[Signal]:
        signals: list[Signal] = []
        for stage in Stage:
            for probe in self.probes:
                if probe.stage is stage:
                    signals.extend(measure(probe, evidence))
        return signals


LENSES = ("fast", "exact", "both")


def check_lens(lens: str) -> None:
    """Is there such a lens? Asked before a model is.

    Raises:
        ConfigurationError: there is none of that name.
    """
    if lens not in LENSES:
        raise ConfigurationError(f"lens {lens!r} is none of {', '.join(LENSES)}")


def full_capture(model: Model, lens: str = "fast") -> CaptureRequest:
    """What is worth reading off this model when fitting: nothing off a black box, chosen layers off a white one.

    Vectors at half depth, three quarters and the end; the lens at every second layer of the upper two thirds; the
    question's own likelihood.

    Args:
        lens: "fast" (as good as the exact one and nearly free, docs/results.md), "exact" (then of the prompt, too), or
            "both".

    Raises:
        ConfigurationError: no such lens.
    """
    check_lens(lens)
    depth = getattr(model, "layer_count", None)
    if Need.HIDDEN_STATES not in model.provides or depth is None:
        return CaptureRequest()
    hidden = tuple(sorted({depth // 2, (3 * depth) // 4, depth}))
    layers = (*(layer for layer in range(depth // 3, depth) if (depth - layer) % 2 == 0), depth)
    return CaptureRequest(
        hidden_layers=hidden,
        lens_layers=None if lens == "fast" else layers,
        fast_lens_layers=None if lens == "exact" else layers,
        prompt_lens=lens != "fast",
        question_logprobs=True,
    )
