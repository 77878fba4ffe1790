"""One stream through the real router, with the committed signals in place of a model's inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from loop_data import Item

from demur import Artefact, Call, Router, Settings
from demur.core.database import Database
from demur.core.decision import Stage
from demur.core.evidence import Evidence, Need
from demur.core.protocols import Fingerprint, Generation
from demur.core.response import Response
from demur.core.signal import Signal
from demur.evaluation.near_duplicates import question_groups
from demur.integrations.retrieval.embedders import default_embedder
from demur.memory.episode_index import EpisodeIndex
from demur.memory.episode_store import EpisodeStore
from demur.memory.recall_probe import RecallProbe
from demur.probes.binding import Binding, ModelBinding
from demur.probes.fit_head import fit_head
from demur.probes.head import Head
from demur.router.assessor import Assessor
from demur.router.pipelines.fit import lens_layers
from demur.router.pipelines.table import collected_table

FINGERPRINT = Fingerprint("gemma-270m", "committed evidence of gemma-270m", True, "", "")


@dataclass
class Played:
    """What was said of every row before its outcome was told; NaN where nothing was.

    Attributes:
        loop: the confidence of the loop.
        fused: the same before online calibration.
        static: the head of the first rows, left alone.
        recall: `recall.log_odds`.
        fitted_at: row numbers after which a head was fitted on the log.
    """

    loop: np.ndarray
    fused: np.ndarray
    static: np.ndarray
    recall: np.ndarray
    fitted_at: list[int] = field(default_factory=list)


class Replay:
    """The model's committed answers; also the probe that gives their committed signals."""

    name, needs, stage, cost_rank = "gemma-270m", frozenset({Need.TEXT}), Stage.AFTER, 0
    provides = frozenset({Need.TEXT})

    def __init__(self, stream: Sequence[Item]) -> None:
        self._by_question = {item.row.question: item for item in stream}
        self.signal_names = tuple(sorted(stream[0].evidence.signals))

    def fingerprint(self) -> Fingerprint:
        return FINGERPRINT

    def generate(self, call: Call, **_: object) -> Generation:
        item = self._by_question[call.question]
        return Generation(Response(text=item.evidence.response, model=self.name))

    async def agenerate(self, call: Call, **_: object) -> Generation:
        return self.generate(call)

    def measure(self, evidence: Evidence) -> Sequence[Signal]:
        signals = self._by_question[evidence.call.question].evidence.signals
        return [Signal.of(name, signals.get(name)) for name in self.signal_names]


class ReplayRouter(Router):
    """A router that reads the committed signals instead of a model."""

    replay: Replay
    recall: RecallProbe | None

    def assessor(self, task: str) -> Assessor:
        if task not in self._assessors:
            probes = (self.replay, *(() if self.recall is None else (self.recall,)))
            self._assessors[task] = Assessor(probes, self.artefacts.get(task), learning=self.learning)
        return self._assessors[task]


def play(stream: Sequence[Item], *, first: int, memory: bool, advance: Callable[[], object]) -> Played:
    """Judge, then tell the outcome, row by row. After `first` rows the static head is fitted and handed in."""
    head = static_head(stream[:first])
    table = collected_table([item.evidence for item in stream], [item.correct for item in stream]).table
    nothing = np.full(len(stream), np.nan)
    played = Played(nothing.copy(), nothing.copy(), head.predict_table(table).probability, nothing.copy())
    database = Database(":memory:")
    router = _router(stream, database, None, memory)
    for number, item in enumerate(stream):
        if number == first:
            router = _router(stream, database, head, memory)
        result = router.run(Call.ask(item.row.question, task="trivia"))
        confidence = result.confidence
        if confidence is not None and not confidence.is_prior:
            played.loop[number] = confidence.value
            played.fused[number] = confidence.value if confidence.fused is None else confidence.fused
        if memory:
            (round_,) = router.log.get(result.run_id).rounds
            played.recall[number] = next(
                (s.value for s in round_.signals if s.name == "recall.log_odds" and s.value is not None), np.nan
            )
        router.record_outcome(result.response_id or "", item.correct, source="test", source_name="alias")
        if number >= first and router.learning.relearn(only_due=True):
            played.fitted_at.append(number)
        advance()
    router.close()
    return played


def static_head(rows: Sequence[Item]) -> Head:
    """Fitted as `demur fit` does, on what was committed of these rows."""
    graded = collected_table([item.evidence for item in rows], [item.correct for item in rows])
    groups = question_groups([item.row.question for item in rows])
    return fit_head(graded.table, graded.correct, groups, arm="answer", stage=Stage.AFTER, seed=7)


def _router(stream: Sequence[Item], database: Database, head: Head | None, memory: bool) -> ReplayRouter:
    replay = Replay(stream)
    artefacts = [] if head is None else [Artefact({head.key: head}, _binding(stream), {})]
    settings = Settings(mode="shadow", learning={"refit_growth": 0.25})
    router = ReplayRouter(replay, settings=settings, artefacts=artefacts, database=database, seed=1)
    router.learning.relearn_in_background = lambda: None  # here: between rows, so that the run can be repeated
    router.replay, router.recall = replay, None
    if memory:
        router.recall = RecallProbe(EpisodeIndex(EpisodeStore(router.database), _EMBEDDER, None, progress=False))
    return router


def _binding(stream: Sequence[Item]) -> Binding:
    layers = lens_layers(collected_table([stream[0].evidence], [stream[0].correct]).table)
    return Binding(
        model=ModelBinding.of(FINGERPRINT),
        task="trivia",
        extractor="whole",
        grader="alias",
        grader_version="1",
        data="the first rows of the stream",
        lens_layers=layers,
        created_at=datetime(2026, 12, 1, tzinfo=UTC),
    )


class _Cached:
    """Every text is embedded once in a benchmark."""

    def __init__(self) -> None:
        self._inner = default_embedder()
        self.name, self.width = self._inner.name, self._inner.width
        self._known: dict[str, np.ndarray] = {}

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            self._known.update(zip(new, self._inner.embed(new), strict=True))
        return np.stack([self._known[text] for text in texts])


_EMBEDDER = _Cached()
