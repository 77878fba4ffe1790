"""`demur models`: put a local model together before it is needed."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(help="Local models.", no_args_is_help=True)


@app.command("fetch")
def fetch(
    name: Annotated[str, typer.Argument(help="gemma-270m, qwen-0.5b, qwen-1.5b, a folder, or a hub id")],
) -> None:
    """Find a model, downloading and assembling it if need be, and print its folder."""
    from ..models.store import find_model

    Console().print(str(find_model(name)), soft_wrap=True, markup=False, highlight=False)
