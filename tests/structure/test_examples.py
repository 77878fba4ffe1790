"""Every file in examples/ runs by itself in an empty folder. `# run: models` in it says it needs the real model."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

Run = Callable[..., CompletedProcess[str]]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RUN_MARK = re.compile(r"^# run: (\w+)$", re.MULTILINE)


def needs(text: str) -> list[Any]:
    """The pytest marks that an example asks for."""
    return [getattr(pytest.mark, mark) for mark in RUN_MARK.findall(text)]


def examples() -> list[Any]:
    return [pytest.param(path, id=path.name, marks=needs(path.read_text())) for path in sorted(EXAMPLES.glob("*.py"))]


def test_every_example_says_what_it_shows() -> None:
    undescribed = [p.name for p in EXAMPLES.glob("*.py") if not ast.get_docstring(ast.parse(p.read_text()))]
    assert undescribed == []


def test_the_mark_is_read() -> None:
    assert needs('"""Shows."""\n\n# run: models\nx = 1\n') == [pytest.mark.models]
    assert needs('"""Say `# run: models` in prose."""\n') == []


if found := examples():

    @pytest.mark.parametrize("path", found)
    def test_the_example_runs(path: Path, run: Run, tmp_path: Path) -> None:
        done = run(sys.executable, path, cwd=tmp_path, timeout=600)
        assert done.returncode == 0, done.stdout[-6000:]
