"""`demur status`: what is known, how many labels are missing for what, and the command to get there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...core.text import printable
from ...evaluation.estimate import Estimate
from ...router.learning.shift import Shift
from ...router.settings import Settings
from ...router.status import FittedOn, Status, TaskStatus, status
from .existing import existing
from .status_labels import label_lines


def status_command(
    config: Annotated[Path | None, typer.Option(help="settings file; default: demur.toml where there is one")] = None,
    database: Annotated[str | None, typer.Option(help="instead of the database in the settings")] = None,
    task: Annotated[str | None, typer.Option(help="only this task")] = None,
    tenant: Annotated[str | None, typer.Option(help="count only this tenant's")] = None,
    alpha: Annotated[float, typer.Option(help="the share of wrong answers to promise")] = 0.05,
    delta: Annotated[float, typer.Option(help="the chance that the promise fails")] = 0.1,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of tables")] = False,
) -> None:
    """Say what is known, how many labels are missing for what, and the command to get there."""
    settings = Settings.load(config)
    store = existing(database if database is not None else settings.database)
    try:
        found = status(store, settings, _artefacts(settings), alpha=alpha, delta=delta, tenant=tenant)
    finally:
        store.close()
    if task is not None:
        found = found.model_copy(update={"tasks": tuple(one for one in found.tasks if one.task == task)})
    if as_json:
        sys.stdout.write(found.model_dump_json(indent=2) + "\n")
    else:
        show(found, Console())


def _artefacts(settings: Settings) -> dict[str, FittedOn]:
    """What the artefacts named in the settings rest on; the head with the most labels speaks for its artefact."""
    named = {name: task.artefact for name, task in settings.tasks.items() if task.artefact}
    if not named:
        return {}
    from ...probes.artefact import Artefact

    found = {}
    for task, folder in named.items():
        artefact = Artefact.load(Path(folder))
        head = max(artefact.heads.values(), key=lambda one: one.labels, default=None)
        right, wrong = (0, 0) if head is None else (head.right, head.labels - head.right)
        found[task] = FittedOn(artefact.id, right, wrong)
    return found


def show(found: Status, console: Console) -> None:
    """Print a status as tables."""
    console.print(_line(f"Database {found.database}, mode {found.mode}, irreversible tools: {found.irreversible}."))
    console.print(_line(f"Waiting for a human: {found.waiting}."))
    if found.approved:
        calls, wait = ("call", "waits") if found.approved == 1 else ("calls", "wait")
        console.print(_line(f"{found.approved} approved tool {calls} {wait} for the program: router.resume_all()."))
    if not found.tasks:
        console.print(_line("No runs and no labels yet. Wrap a call with Router(...).guard(...) and come back."))
        return
    console.print(_known(found))
    for task in found.tasks:
        console.print(_needs(task))
        if task.coverage is not None:
            for line in label_lines(task.coverage, task.coverage_of_delivered):
                console.print(_line(line), soft_wrap=True)
        if task.shift is not None:
            for line in shift_lines(task.shift):
                console.print(_line(line), soft_wrap=True)
        for step in task.next_steps:
            console.print(_line(f"  $ {step}"), soft_wrap=True)


def shift_lines(shift: Shift) -> list[str]:
    """What outcomes say of the head since it was fitted, in sentences."""
    lines = []
    if shift.warning is not None:
        lines.append(f"Warning: {shift.warning}.")
    elif shift.recent is not None and shift.recent.value is not None:
        then = f"; {shift.fitted:.0%} when {shift.head} was fitted" if shift.fitted is not None else ""
        lines.append(f"Right among the newest {shift.recent.n} graded answers, weighed: {_share(shift.recent)}{then}.")
    if shift.unweighable:
        lines.append(f"{shift.unweighable} of the newest are left out: their chance of being graded is unknown or 0.")
    if shift.mean_said is not None:
        lines.append(
            f"The head said {shift.mean_fused:.0%} of them on average, after online calibration it was "
            f"{shift.mean_said:.0%}; {shift.mean_observed:.0%} were right."
        )
    if shift.smece_before is not None:
        lines.append(f"Calibration error (smECE): {shift.smece_before:.3f} before, {shift.smece_after:.3f} after it.")
    when = f", last {shift.learned_at:%Y-%m-%d %H:%M} UTC" if shift.learned_at is not None else ""
    behind = f"; {shift.behind} changes of grades are not learned yet" if shift.behind else ""
    lines.append(f"Online calibration has learned from {shift.outcomes} outcomes{when}{behind}.")
    return lines


def _share(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.0%}"
    return f"{estimate.value:.0%} [{estimate.low:.0%}, {estimate.high:.0%}]"


def _line(text: str) -> Text:
    """Text is data: shown as it is, never read as markup."""
    return Text(printable(text, 500))


def _known(found: Status) -> Table:
    columns = ("task", "mode", "runs", "decisions by route", "fallback", "right", "wrong", "fitted on", "waiting")
    table = Table(title="What is known")
    for name in columns:
        table.add_column(name, justify="right" if name in ("runs", "fallback", "right", "wrong", "waiting") else "left")
    for task in found.tasks:
        fitted = "nothing" if task.fitted_right is None else f"{task.fitted_right} right, {task.fitted_wrong} wrong"
        routes = ", ".join(f"{route} {count}" for route, count in sorted(task.routes.items())) or "none"
        cells = (task.task, task.mode, task.runs, routes, task.fallbacks, task.right, task.wrong, fitted, task.waiting)
        table.add_row(*(_line(str(cell)) for cell in cells))
    return table


def _needs(task: TaskStatus) -> Table:
    table = Table(title=_line(f"Labels for {task.task}"))
    for name in ("for", "missing"):
        table.add_column(name)
    if task.allows is not None:
        table.add_row(_line(task.allows), "nothing: there are enough")
    for need in task.fitting:
        of = "of right and of wrong answers each" if need.of == "either" else f"of {need.of} answers"
        table.add_row(_line(need.allows), _line(f"{need.missing} labels {of}"))
    promise = task.guarantee
    said = f"{promise.missing} graded answered rows ({promise.have} of {promise.need}; {promise.errors} wrong so far)"
    if task.unweighable:
        said += f"; {task.unweighable} more do not count: the chance that they were graded is unknown or 0"
    name = f"at most {promise.alpha:.3g} of the answers wrong, promised with chance {1 - promise.delta:.3g}"
    table.add_row(_line(name), _line(said))
    return table
