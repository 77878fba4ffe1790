"""`import demur` is light, and every name that it hands on is there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import demur

Run = Callable[..., CompletedProcess[str]]

LIGHT = """
import sys
import demur
heavy = ("torch", "transformers", "faiss", "sentence_transformers", "sklearn", "scipy", "sqlalchemy")
tops = {name.partition(".")[0] for name in sys.modules}
found = sorted(top for top in tops if top in heavy or top.startswith(("langchain", "langgraph")))
assert not found, found
assert set(demur.__all__) <= set(dir(demur)), set(demur.__all__) - set(dir(demur))
"""


def test_importing_demur_loads_nothing_heavy(run: Run, tmp_path: Path) -> None:
    done = run(sys.executable, "-c", LIGHT, cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_every_public_name_can_be_imported(run: Run, tmp_path: Path) -> None:
    names = list(demur.__all__)
    assert names, "demur.__all__ is empty"
    assert len(names) == len(set(names))
    (tmp_path / "names.py").write_text("\n".join(f"from demur import {name}" for name in names))
    done = run(sys.executable, "names.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_a_star_import_brings_every_public_name(run: Run, tmp_path: Path) -> None:
    code = (
        "from demur import *\nimport demur\nmissing = set(demur.__all__) - set(globals())\nassert not missing, missing"
    )
    done = run(sys.executable, "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = demur.no_such_name  # type: ignore[attr-defined]
