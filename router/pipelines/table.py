"""Rows with their signals and grades as one table: what is fitted on and evaluated."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...core.call import Call
from ...core.errors import BadInput
from ...core.evidence import Evidence
from ...core.response import Cost, Response, TokenTrace
from ...core.signal import Signal
from ...evaluation.joined_groups import joined_groups
from ...evaluation.near_duplicates import question_groups
from ...probes.signal_table import SignalTable
from ...probes.token_statistics import TokenStatistics
from ..assessor import measure
from .evidence_cache import CollectedRow
from .rows import GradedRow

BUILT_IN = (
    *("token.", "trajectory.", "prefix.", "prompt.", "question."),
    *("lens.", "fast_lens.", "prompt_lens.", "mice.", "fast_mice.", "convergence.", "semantic."),
    *("hidden.", "prompt_last.", "answer_mean.", "answer_last.", "answer_text."),
    *("grounding.", "evidence.", "samples.", "recall.", "head."),
)
"""What the names of Demur's own signals and vectors begin with; a row's own signals must be called something else."""


@dataclass(frozen=True)
class GradedTable:
    """n graded responses with their signals.

    Attributes:
        ids: of the rows.
        responses: the graded texts.
        table: signals and vectors.
        correct: (n,) right or wrong.
        groups: (n,) the same question, near-duplicates, or turns of one conversation share a number.
        data: SHA-256 of ids, questions, responses and grades.
        questions: what was asked, for people; empty where the table does not say.
        tools: what each response calls; empty where none does.
        conversations, turns: which conversation each response belongs to (None: to none that is known), and its place
            in it, from 1; empty where no row says.
        costs: of each response with everything that was read off the model meanwhile; empty where it is not known.
    """

    ids: tuple[str, ...]
    responses: tuple[str, ...]
    table: SignalTable
    correct: NDArray[np.bool_]
    groups: NDArray[np.int64]
    data: str
    questions: tuple[str, ...] = ()
    costs: tuple[Cost, ...] = ()
    tools: tuple[str | None, ...] = ()
    conversations: tuple[str | None, ...] = ()
    turns: tuple[int | None, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def right(self) -> int:
        """Number of right rows."""
        return int(self.correct.sum())


def collected_table(
    rows: Sequence[CollectedRow], correct: Sequence[bool] | NDArray[np.bool_], tools: Sequence[str | None] = ()
) -> GradedTable:
    """A table of what a model answered.

    Args:
        tools: what each answer calls (`called_tool.tool_in_text`).

    Raises:
        BadInput: another number of grades than rows, or vectors of unequal width.
    """
    grades = np.asarray(correct, dtype=np.bool_)
    if grades.shape != (len(rows),):
        raise BadInput(f"{len(rows)} rows came with grades of shape {grades.shape}")
    table = SignalTable.from_signals(
        [[Signal.of(name, value) for name, value in row.signals.items()] for row in rows],
        [row.hidden for row in rows],
    ).without_empty()
    return _graded(
        [row.id for row in rows],
        [row.question for row in rows],
        [row.response for row in rows],
        table,
        grades,
        [Cost(tokens_in=row.tokens_in, tokens_out=row.tokens_out, seconds=row.seconds) for row in rows],
        tools if any(tools) else (),
    )


def graded_table(rows: Sequence[GradedRow]) -> GradedTable:
    """A table of responses that came with their grades: token statistics where there are log-probabilities, and the
    rows' own signals under their names.

    Raises:
        BadInput: a row's signal has the name of one of Demur's own; the message names the row.
    """
    probe = TokenStatistics()
    signals = [_signals_of(row, probe) for row in rows]
    if not any(row.logprobs for row in rows):
        # Columns that nobody could fill would only be noted as dropped, one by one.
        signals = [[signal for signal in row if not signal.name.startswith("token.")] for row in signals]
    found = _graded(
        [row.id for row in rows],
        [row.prompt for row in rows],
        [row.response for row in rows],
        SignalTable.from_signals(signals),
        np.array([row.correct for row in rows], dtype=np.bool_),
        tools=[row.tool for row in rows] if any(row.tool for row in rows) else (),
    )
    return _with_conversations(found, rows) if any(row.conversation for row in rows) else found


def _with_conversations(table: GradedTable, rows: Sequence[GradedRow]) -> GradedTable:
    # A row of no conversation is one of its own, by a number that no text equals.
    apart = [(0, row.conversation) if row.conversation else (1, str(place)) for place, row in enumerate(rows)]
    places = {each: number for number, each in enumerate(dict.fromkeys(apart))}
    return replace(
        table,
        groups=joined_groups(table.groups, [places[each] for each in apart]).astype(np.int64),
        conversations=tuple(row.conversation for row in rows),
        turns=tuple(row.turn for row in rows),
    )


def _signals_of(row: GradedRow, probe: TokenStatistics) -> list[Signal]:
    clash = sorted(name for name in row.signals if name.startswith(BUILT_IN))
    if clash:
        raise BadInput(
            f"row {row.id!r}: signal {clash[0]!r} is named like one of Demur's own ({', '.join(BUILT_IN)}); rename it"
            + (", or give `logprobs` and let Demur work it out" if clash[0].startswith("token.") else "")
        )
    trace = TokenTrace(logprobs=row.logprobs) if row.logprobs else None
    evidence = Evidence(call=Call.ask(row.prompt), response=Response(text=row.response, trace=trace))
    own = [Signal.of(name, value) for name, value in row.signals.items()]
    return [*measure(probe, evidence), *own]


def _graded(
    ids: Sequence[str],
    questions: Sequence[str],
    responses: Sequence[str],
    table: SignalTable,
    correct: NDArray[np.bool_],
    costs: Sequence[Cost] = (),
    tools: Sequence[str | None] = (),
) -> GradedTable:
    return GradedTable(
        ids=tuple(ids),
        responses=tuple(responses),
        table=table,
        correct=correct,
        groups=question_groups(list(questions)),
        data=data_hash(zip(ids, questions, responses, correct.tolist(), strict=True)),
        questions=tuple(questions),
        costs=tuple(costs),
        tools=tuple(tools),
    )


def data_hash(rows: Iterable[tuple[str, str, str, bool]]) -> str:
    """SHA-256 (hex) of (id, question, response, grade) rows, whatever their order."""
    digest = hashlib.sha256()
    for line in sorted(json.dumps(row) for row in rows):
        digest.update(line.encode("ascii") + b"\n")
    return digest.hexdigest()
