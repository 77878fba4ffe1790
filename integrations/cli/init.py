"""`demur init`: write a commented settings file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...core.errors import BadInput
from ...core.text import printable


def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("demur.toml"),
) -> None:
    """Write a demur.toml that names every setting with its default."""
    from ...router.settings import Settings

    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(Settings.example())
    except FileExistsError as error:
        raise BadInput(f"{path} is there already and is not overwritten; name another file") from error
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error}") from error
    typer.echo(f"wrote {printable(str(path))}")
