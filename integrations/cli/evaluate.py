"""`demur eval`: judge an artefact on rows that it was not fitted on."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...core.text import printable
from .collecting import answering_model, configured, evidence_folder, progress_bar, read_passages

if TYPE_CHECKING:
    from ...evaluation.graders.registry import VersionedGrader
    from ...probes.artefact import Artefact
    from ...router.pipelines.table import GradedTable


def evaluate(
    data: Annotated[Path, typer.Option(help="JSONL: {id, question, answers}, or {id, prompt, response, correct}")],
    artefact: Annotated[Path, typer.Option(help="folder that `demur fit` wrote")],
    out: Annotated[Path, typer.Option(help="folder for scores.jsonl, metrics.json and report.html")],
    model: Annotated[
        str | None, typer.Option(help="who answers the questions: the model that the artefact was fitted for")
    ] = None,
    task: Annotated[str | None, typer.Option(help="refuse an artefact for another task")] = None,
    grader: Annotated[str | None, typer.Option(help="refuse an artefact of another grader; default: its own")] = None,
    refusal: Annotated[str | None, typer.Option(help="for abstain_ok: the text that refuses")] = None,
    prompt: Annotated[
        Path | None, typer.Option(help="TOML with the parts of a prompt template, for a model without a chat template")
    ] = None,
    system: Annotated[str | None, typer.Option(help="system text for the model")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(help="length limit of an answer")] = None,
    passages: Annotated[
        Path | None, typer.Option(help="JSONL {id, text} of what rows name by passage_id; default: NAME_passages.jsonl")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="at most so many rows, drawn with the seed")] = None,
    seed: Annotated[int, typer.Option(help="of every random choice", min=0)] = 0,
    cache: Annotated[
        Path | None, typer.Option(help="folder for collected evidence; default $DEMUR_CACHE or the user's cache")
    ] = None,
    allow_overlap: Annotated[
        bool, typer.Option("--allow-overlap", help="measure on rows that were fitted on, too: the figures flatter")
    ] = False,
    examples: Annotated[
        bool, typer.Option("--examples/--no-examples", help="quote a handful of questions and answers in report.html")
    ] = True,
) -> None:
    """Score rows with an artefact and measure how good the scores are."""
    from ...probes.artefact import Artefact
    from ...router.pipelines.evaluate import check_overlap, evaluate_artefact
    from ...router.pipelines.fit import extractor_of
    from ...router.pipelines.gather import are_graded, check_rows, gather
    from ...router.pipelines.output import REPORT, check_out, write_report, write_results
    from ...router.pipelines.rows import read_rows
    from ...router.reports.page import Provenance, report

    check_out(out)
    fitted = Artefact.load(artefact)
    rows = read_rows(data, limit=limit, seed=seed)
    if not are_graded(rows):
        model, _, _ = configured(fitted.binding.task, model, grader, refusal)
    check_rows(rows, has_model=model is not None, grader=grader, refusal=refusal)
    judge = _grader(fitted, by_hand=are_graded(rows), name=grader, refusal=refusal, task=task)
    overlapping = check_overlap(fitted, [row.id for row in rows], allow=allow_overlap)
    asked_for = {} if judge is None else {"grader": judge.name, "refusal": getattr(judge, "refusal", None)}
    answering = answering_model(model, prompt, system, max_new_tokens, **asked_for)
    shown = None if judge is None else read_passages(data, passages)
    if answering is not None:
        fitted.check(answering.fingerprint(), extractor=extractor_of(answering))
    with progress_bar("asking") as progress:
        graded = gather(
            rows,
            answering,
            judge,
            evidence_folder(cache),
            binding=fitted.binding,
            passages=shown,
            progress=progress,
        )
    found = evaluate_artefact(fitted, graded, seed=seed, overlapping=len(overlapping))
    write_results(out, found.scores, found.metrics)
    source = Provenance(_command(), judging_seconds=_judging_seconds(fitted, graded), seed=seed)
    write_report(out, report(found, graded, fitted, source, examples=examples))
    _show(found.metrics, len(overlapping))
    said = f"scores.jsonl and metrics.json are in {out}; the report for people: {out / REPORT}"
    Console().print(Text(printable(said, 1000)), soft_wrap=True)


def _command() -> str:
    """The command line as typed."""
    return shlex.join(["demur", *sys.argv[1:]])


def _judging_seconds(artefact: Artefact, rows: GradedTable) -> float:
    """What it takes to turn the signals of all rows into confidences."""
    from ...core.decision import Stage
    from ...router.pipelines.fit import ANSWER

    head = artefact.head(ANSWER, Stage.AFTER)
    assert head is not None  # evaluate_artefact refuses otherwise
    start = time.perf_counter()
    head.predict_table(rows.table)
    return time.perf_counter() - start


def _grader(
    artefact: Artefact, *, by_hand: bool, name: str | None, refusal: str | None, task: str | None
) -> VersionedGrader | None:
    """The artefact's own grader, unless another is asked for; that one is then refused.

    Raises:
        ArtefactMismatch: fitted for another task or grader.
    """
    from ...router.pipelines.gather import make_grader
    from ...router.pipelines.grade import GIVEN, grader_key

    if by_hand:
        artefact.check(task=task, grader=GIVEN)
        return None
    bound = artefact.binding
    if bound.grader == GIVEN[0]:
        artefact.check(task=task, grader=grader_key(make_grader(name, refusal)))
    if refusal is None and name in (None, bound.grader):
        refusal = _bound_refusal(bound.grader_version)
    judge = make_grader(name or bound.grader, refusal)
    artefact.check(task=task, grader=grader_key(judge))
    return judge


def _bound_refusal(version: str) -> str | None:
    """The refusal text in a grader's version (see `grade.grader_key`)."""
    _, mark, refusal = version.partition(":refusal=")
    return refusal if mark else None


def _show(metrics: dict[str, dict[str, Any]], overlapping: int) -> None:
    """The figures in groups, each with its interval."""
    from ...evaluation.metrics.bas import CLIP
    from ...router.reports.metric_groups import grouped

    console = Console()
    table = Table(title="95 % intervals; the arrow points to better", caption=f"bas: ε = {CLIP:g}")
    for name in ("metric", "", "value", "low", "high", "n"):
        table.add_column(name, justify="left" if name == "metric" else "right")
    for group in grouped(metrics):
        table.add_section()
        table.add_row(Text(group.title, style="bold"))
        for figure in group.figures:
            cells = (
                f"  {figure.name}",
                figure.better,
                *(_number(figure.row[key]) for key in ("value", "low", "high", "n")),
            )
            table.add_row(*(Text(printable(cell, 200)) for cell in cells))
    console.print(table)
    if overlapping:
        console.print(Text(f"note: {overlapping} rows were used for fitting; these figures flatter"))


def _number(value: float | int | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.4f}"
