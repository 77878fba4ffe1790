"""`demur demo`: a real small model, trivia questions, and every route taken for real."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ...core.text import printable


def demo(
    large: Annotated[
        str | None, typer.Option(help="A larger model to escalate to: qwen-1.5b, openai:NAME or ollama:NAME.")
    ] = None,
    database: Annotated[Path, typer.Option(help="Where queue and log go.")] = Path(".demur/demo.db"),
    limit: Annotated[int | None, typer.Option(help="Play only so many questions.", min=1)] = None,
) -> None:
    """Answer 24 trivia questions with a 270M-parameter model, and say when it is not sure."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    logging.getLogger("demur").setLevel(logging.ERROR)
    from ...probes.artefact import Artefact
    from ...router.settings import Settings
    from ..demo import files, larger, play, show
    from ..demo.model import small_model
    from ..models.store import find_model

    console = Console()
    data = files.folder()
    model = small_model(find_model("gemma-270m"))
    artefact = Artefact.load(data / "artefact")
    settings = Settings.load(data / "settings.toml")
    models = {}
    if large is not None:
        big = larger.find_larger(large)
        name = big.name
        models[name] = big
        settings = larger.priced(settings, name)
        if f"escalate:{name}" not in artefact.chances:
            asked = files.measuring_questions()[: larger.MEASURED_ON]
            with _progress(console, f"measuring {printable(name, 60)}", len(asked)) as advance:
                chance = larger.measured_chance(big, asked, larger.cache_folder(), progress=advance)
            artefact = larger.with_chance(artefact, name, chance)
    questions = files.questions()[:limit]
    for old in (database, *(database.with_name(database.name + end) for end in ("-wal", "-shm"))):
        old.unlink(missing_ok=True)
    router = play.build_router(model, artefact, settings, database, larger=models)
    played = show.live_table(console, play.play(router, questions), len(questions))
    if not models:
        console.print("no larger model is set: nothing was escalated (try: demur demo --large qwen-1.5b)", style="dim")
    report = files.report()
    costs = settings.policy_for("triviaqa").costs
    measured = {None: "without_large", larger.SHIPPED: "with_large"}.get(large, "")
    show.summary(console, played, costs, report.get(measured))
    waiting = router.queue.waiting()
    console.print(f"\nlog and queue: {database} ({waiting} waiting)", markup=False, highlight=False)
    console.print(f"work the queue: demur review next --database {database}", markup=False, highlight=False)
    router.close()


@contextmanager
def _progress(console: Console, label: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """A progress bar, moved by calling `advance(done, total)`."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done, total: bar.update(task, completed=done, total=total)
