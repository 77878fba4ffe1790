"""What `demur fit` and `demur eval` share: who is asked, where evidence is kept, and the bar that shows progress."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from ...core.errors import BadInput
from ...core.files import read_named

if TYPE_CHECKING:
    from ...core.protocols import Model


def evidence_folder(given: Path | None) -> Path:
    """The folder given, $DEMUR_CACHE, or `evidence` in the user's cache folder."""
    from ..models.digests import user_cache_folder

    if given is not None:
        return given
    named = os.environ.get("DEMUR_CACHE")
    return Path(named).expanduser() if named else user_cache_folder() / "evidence"


def configured(
    task: str, model: str | None, grader: str | None, refusal: str | None
) -> tuple[str | None, str | None, str | None]:
    """Model, grader and refusal text for questions: as given, or else as `demur.toml` in the working folder says.

    Raises:
        ConfigurationError: the file is there and cannot be used.
    """
    from ...router.settings import Settings

    settings = Settings.load()
    of_task = settings.tasks.get(task)
    if grader is None and of_task is not None:
        grader = of_task.grader
    if refusal is None and of_task is not None and grader == "abstain_ok":
        refusal = of_task.refusal
    return model or settings.models.default, grader, refusal


def answering_model(
    spec: str | None,
    prompt: Path | None,
    system: str | None,
    max_new_tokens: int | None,
    *,
    grader: str | None = None,
    refusal: str | None = None,
) -> Model | None:
    """The model that --model names, set up as the other options say; None without --model.

    Args:
        grader, refusal: what they leave open is taken from the grader's recipe (`models.recipe`).

    Raises:
        BadInput: options of a model without a model, or a prompt file that cannot be used.
    """
    from ...router.pipelines.gather import DEFAULT_GRADER
    from ..models.build import build_model
    from ..models.prompt_file import read_prompt
    from ..models.recipe import recipe_for

    if spec is None:
        given = {"--prompt": prompt, "--system": system, "--max-new-tokens": max_new_tokens}
        unused = [option for option, value in given.items() if value is not None]
        if unused:
            raise BadInput(f"{' and '.join(unused)} would not be used without --model; give it, or leave them out")
        return None
    template = None if prompt is None else read_prompt(prompt)
    recipe = recipe_for(grader or DEFAULT_GRADER, refusal)
    return build_model(spec, system=system, max_new_tokens=max_new_tokens, prompt_template=template, recipe=recipe)


def read_passages(data: Path, given: Path | None) -> dict[str, str] | None:
    """The texts that rows name by `meta.passage_id`, by id; None where there is no file of them.

    Args:
        given: JSONL of {id, text}; by default `NAME_passages.jsonl` beside the rows' NAME.jsonl, if it is there.

    Raises:
        BadInput: the file cannot be read, or a line is not {id, text}; the message names it.
    """
    path = given or data.with_name(f"{data.stem}_passages{data.suffix}")
    if given is None and not path.is_file():
        return None
    try:
        lines = read_named(path, pipes=True).decode("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            found[str(row["id"])] = row["text"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise BadInput(f"{path}:{number}: a passage is {{id, text}}: {error}") from error
        if not isinstance(row["text"], str):
            raise BadInput(f"{path}:{number}: the text is {type(row['text']).__name__}, not a text")
    return found


class _Speed(ProgressColumn):
    """Rows per second, over the last rows."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("- rows/s" if speed is None else f"{speed:.1f} rows/s")


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr, told (rows done, rows in all). Rows from the cache do not count as speed.

    It is there from the first thing it is told; graded rows need no bar.
    """
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        _Speed(),
        TimeElapsedColumn(),
        TextColumn("left", markup=False),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True))

    def told(done: int, total: int) -> None:
        if bar.tasks:
            bar.update(bar.tasks[0].id, completed=done)
        else:
            bar.add_task(label, total=total, completed=done)
            bar.start()

    try:
        yield told
    finally:
        bar.stop()
