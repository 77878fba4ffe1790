"""From rows to a graded table: ask the model where there is a question, take the grade where there is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...core.errors import BadInput, ConfigurationError
from ...core.evidence import CaptureRequest, Need
from ...core.protocols import Model
from ...evaluation.graders.llm_judge import LlmJudge
from ...evaluation.graders.registry import VersionedGrader, get_grader
from ...probes.binding import Binding
from ..called_tool import tool_in_text
from ..probe_set import probes_for
from .asking import asked_of
from .collect import Collector, Progress, full_capture, silent
from .grade import grade_rows
from .rows import GradedRow, QuestionRow
from .table import GradedTable, collected_table, graded_table

DEFAULT_GRADER = "alias"


def are_graded(rows: Sequence[QuestionRow] | Sequence[GradedRow]) -> bool:
    """True where the rows brought their responses and grades."""
    return isinstance(rows[0], GradedRow)


def check_rows(
    rows: Sequence[QuestionRow] | Sequence[GradedRow], *, has_model: bool, grader: str | None, refusal: str | None
) -> None:
    """Do rows and options belong together?

    Raises:
        BadInput: questions without a model to ask; or graded responses with a model or grader that would not be used.
    """
    if not are_graded(rows):
        if not has_model:
            raise BadInput(
                f"{len(rows)} questions and no model to ask: give --model (a folder, a hub id, openai:NAME or "
                "ollama:NAME), or rows that were answered and graded: {id, prompt, response, correct}"
            )
        return
    unused = [
        option
        for option, given in (("--model", has_model), ("--grader", grader), ("--refusal", refusal))
        if given not in (None, False)
    ]
    if unused:
        raise BadInput(
            f"the rows were answered and graded already, so {' and '.join(unused)} would not be used: leave it out, or "
            "give rows {id, question, answers}"
        )


def make_grader(name: str | None, refusal: str | None = None) -> VersionedGrader:
    """A grader by name; the default is `alias`.

    Raises:
        ConfigurationError: no such grader, a refusal text that it does not take, or a model as judge: its error has to
            be measured first, so its grades are handed in with the rows.
    """
    chosen = name or DEFAULT_GRADER
    if chosen == LlmJudge.name:
        raise ConfigurationError(
            f"--grader {chosen}: a model's grades are no labels before its error is measured. Measure it in Python "
            "(demur.evaluation.graders.llm_judge), then hand in rows {id, prompt, response, correct}"
        )
    return get_grader(chosen) if refusal is None else get_grader(chosen, refusal=refusal)


def capture_of(model: Model, binding: Binding | None, lens: str = "fast") -> CaptureRequest:
    """What to read off the model: all that is worth it when fitting, and the same again when evaluating."""
    depth = getattr(model, "layer_count", None)
    if binding is None or Need.HIDDEN_STATES not in model.provides or depth is None:
        return full_capture(model, lens)
    return binding.capture(depth)


def gather(
    rows: Sequence[QuestionRow] | Sequence[GradedRow],
    model: Model | None,
    grader: VersionedGrader | None,
    cache_folder: Path,
    *,
    binding: Binding | None = None,
    passages: Mapping[str, str] | None = None,
    progress: Progress = silent,
    batch_size: int = 16,
    lens: str = "fast",
) -> GradedTable:
    """A table with signals and grades.

    Args:
        model, grader: for questions; graded rows need neither.
        passages: texts that rows name by `meta.passage_id`.
        lens: see `full_capture`; an artefact's binding knows its own.
        binding: of the artefact that will be evaluated, so that the same is captured; None when fitting.

    Raises:
        BadInput: a row cannot be asked or graded, or there is no model to ask.
        ModelError: the model failed; what was collected before is kept in the cache.
    """
    graded = [row for row in rows if isinstance(row, GradedRow)]
    if graded:
        return graded_table(graded)
    questions = [row for row in rows if isinstance(row, QuestionRow)]
    if model is None or grader is None:
        raise BadInput(f"{len(questions)} questions need a model to ask and a grader")
    capture = capture_of(model, binding, lens)
    collector = Collector(model, probes_for(model, capture), capture, cache_folder, batch_size=batch_size)
    collected = collector.collect(questions, passages=passages, progress=progress)
    tools = [
        tool_in_text(each.call, row.response)
        for each, row in zip(asked_of(questions, passages), collected, strict=True)
    ]
    return collected_table(collected, grade_rows(questions, collected, grader), tools)
