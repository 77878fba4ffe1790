"""`demur fit`: learn from graded rows how far the model is to be believed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...core.text import printable
from .collecting import answering_model, configured, evidence_folder, progress_bar, read_passages

if TYPE_CHECKING:
    from ...evaluation.estimate import Estimate
    from ...router.pipelines.report import HeadReport

_METRICS = (
    ("AUROC", "auroc"),
    ("AUROC of the mean log-prob", "mean_logprob_auroc"),
    ("AUROC difference", "fused_minus_mean_logprob_auroc"),
    ("Brier", "brier"),
    ("Brier of the base rate", "brier_base_rate"),
    ("Brier difference", "brier_minus_base_rate"),
)


def fit(
    data: Annotated[Path, typer.Option(help="JSONL: {id, question, answers}, or {id, prompt, response, correct}")],
    out: Annotated[Path, typer.Option(help="folder for the artefact")],
    model: Annotated[
        str | None, typer.Option(help="who answers the questions: folder, hub id, openai:NAME or ollama:NAME")
    ] = None,
    task: Annotated[str, typer.Option(help="the population that shares this calibration")] = "default",
    grader: Annotated[str | None, typer.Option(help="who says right or wrong; default alias")] = None,
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
    fusion: Annotated[
        str, typer.Option(help="how signals are fused: auto, logistic, forest, boosted or stacked")
    ] = "auto",
    lens: Annotated[
        str, typer.Option(help="how inner layers are viewed: fast (few tokens), exact (all of them), or both")
    ] = "fast",
    calibrator: Annotated[
        str | None, typer.Option(help="by name, such as venn_abers; default: the simplest that is good enough")
    ] = None,
    suspects: Annotated[
        Path | None, typer.Option(help="JSONL to write rows to whose grade looks wrong: look at them again")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace the artefact in --out")] = False,
) -> None:
    """Fit an artefact on questions that the model answers now, or on responses that were graded before."""
    from ...probes.artefact_files import check_target
    from ...router.pipelines.collect import check_lens
    from ...router.pipelines.fit import check_fusion, extractor_of, fit_artefact
    from ...router.pipelines.gather import are_graded, check_rows, gather, make_grader
    from ...router.pipelines.grade import GIVEN, grader_key
    from ...router.pipelines.report import fit_report
    from ...router.pipelines.rows import read_rows
    from ...router.pipelines.suspects import suspects_of, write_suspects

    check_target(out, overwrite)
    check_fusion(fusion, calibrator)
    check_lens(lens)
    rows = read_rows(data, limit=limit, seed=seed)
    by_hand = are_graded(rows)
    if not by_hand:
        model, grader, refusal = configured(task, model, grader, refusal)
    check_rows(rows, has_model=model is not None, grader=grader, refusal=refusal)
    judge = None if by_hand else make_grader(grader, refusal)
    answering = answering_model(model, prompt, system, max_new_tokens, grader=grader, refusal=refusal)
    with progress_bar("asking") as progress:
        shown = None if by_hand else read_passages(data, passages)
        graded = gather(rows, answering, judge, evidence_folder(cache), passages=shown, progress=progress, lens=lens)
    artefact = fit_artefact(
        graded,
        task=task,
        grader=GIVEN if judge is None else grader_key(judge),
        model=None if answering is None else answering.fingerprint(),
        extractor=extractor_of(answering),
        seed=seed,
        method=fusion,
        calibrator=calibrator,
    )
    artefact.save(out, overwrite=overwrite)
    _show(fit_report(artefact, graded, seed=seed), artefact.notes)
    found = suspects_of(artefact, graded)
    listed = "--suspects FILE lists them"
    if suspects is not None:
        write_suspects(suspects, found, graded)
        listed = f"listed in {suspects}"
    if found or suspects is not None:
        Console().print(_text(f"{len(found)} of {len(graded)} grades look wrong; {listed}"), soft_wrap=True)
    Console().print(_text(f"artefact {artefact.id[:16]} for task {task!r} in {out}"), soft_wrap=True)


def _show(reports: list[HeadReport], notes: tuple[str, ...]) -> None:
    """The figures of every head, measured out of fold."""
    console = Console()
    table = Table(title="Out of fold, with 95 % intervals")
    table.add_column("")
    for report in reports:
        table.add_column(_text(report.key), justify="right")
    for label, cells in (
        ("rows", [str(report.labels) for report in reports]),
        ("right / wrong", [f"{report.right} / {report.wrong}" for report in reports]),
        ("rows scored", [str(report.scored) for report in reports]),
        ("labels of the rarer class", [report.tier for report in reports]),
        ("calibrator", [report.calibrator for report in reports]),
        *((label, [_estimate(report.metrics[name]) for report in reports]) for label, name in _METRICS),
    ):
        table.add_row(_text(label), *(_text(cell) for cell in cells))
    console.print(table)
    for note in dict.fromkeys([*notes, *(f"{report.key}: {note}" for report in reports for note in report.notes)]):
        console.print(_text(f"note: {note}"), soft_wrap=True)


def _estimate(found: Estimate) -> str:
    if found.value is None:
        return "-"
    if found.low is None or found.high is None:
        return f"{found.value:.3f}"
    return f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"


def _text(text: str) -> Text:
    """Text is data: shown as it is, never read as markup."""
    return Text(printable(text, 500))
