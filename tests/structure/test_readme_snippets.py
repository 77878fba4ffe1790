"""What the documents show runs.

Each `python` block and each `$ demur ...` line of a `console` block runs, in the document's order, in one process per
document and in a temporary folder. README.md always; a file under docs/ if it contains `<!-- run -->`. With
`<!-- run: models -->` in it, a document needs the real model. Blocks marked otherwise are for reading only.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from markdown_it import MarkdownIt

Run = Callable[..., CompletedProcess[str]]

ROOT = Path(__file__).resolve().parents[2]
RUN_MARK = re.compile(r"<!--\s*run(?::\s*(\w+))?\s*-->")

# Beside the script: how a console line runs. The shell is the reader's, so `|` and `>` mean what they mean there.
CONSOLE = '''
import subprocess

def console(line):
    """Run one shell line; the script ends where the line fails."""
    print("$", line, flush=True)
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", line], stdin=subprocess.DEVNULL)
    if done.returncode:
        raise SystemExit(f"exit code {done.returncode}: {line}")
'''


def script_of(markdown: str) -> str:
    """One Python script with everything in the document that runs; line N of the script is line N of the document,
    so that a traceback names the line to mend. Empty when nothing runs."""
    lines = [""] * (markdown.count("\n") + 2)
    future: set[str] = set()
    for token in MarkdownIt("commonmark").parse(markdown):
        if token.type != "fence" or token.map is None:
            continue
        language = (token.info.split() or [""])[0]
        first = token.map[0] + 1
        content = token.content.splitlines()
        if language == "python":
            for offset, line in enumerate(content):
                if line.startswith("from __future__ import "):
                    future.add(line.removeprefix("from __future__ import ").strip())
                else:
                    lines[first + offset] = line
        elif language == "console":
            for offset, command in console_commands(content):
                lines[first + offset] = f"console({command!r})"
    if not any(lines):
        return ""
    # A fence opens at the earliest on the first line, so the script's first line is always free.
    imports = f"from __future__ import {', '.join(sorted(future))}; " if future else ""
    lines[0] = f"{imports}from console_lines import console"
    return "\n".join(lines).rstrip("\n") + "\n"


def console_commands(lines: list[str]) -> list[tuple[int, str]]:
    """The `$ demur ...` commands of a console block with the line they start on; a backslash carries on."""
    commands: list[tuple[int, str]] = []
    number = 0
    while number < len(lines):
        start = number
        command = lines[number]
        while command.endswith("\\") and number + 1 < len(lines):
            number += 1
            command = f"{command[:-1].rstrip()} {lines[number].strip().removeprefix('> ')}"
        if re.match(r"\$ demur(\s|$)", command):
            commands.append((start, command.removeprefix("$ ")))
        number += 1
    return commands


def documents() -> list[Any]:
    """The documents that run, each marked with what it needs."""
    found = []
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        mark = RUN_MARK.search(path.read_text())
        if mark is None and path != ROOT / "README.md":
            continue
        need = mark[1] if mark else None
        marks = [getattr(pytest.mark, need)] if need else []
        found.append(pytest.param(path, id=path.relative_to(ROOT).as_posix(), marks=marks))
    return found


def run_document(path: Path, folder: Path, run: Run) -> CompletedProcess[str]:
    """Run what a document shows, in `folder`."""
    scripts = folder / "script"
    work = folder / "work"
    scripts.mkdir()
    work.mkdir()
    (scripts / "console_lines.py").write_text(CONSOLE)
    script = scripts / f"{path.name}.py"
    script.write_text(script_of(path.read_text()))
    return run(sys.executable, script, cwd=work, timeout=600)


@pytest.mark.parametrize("path", documents())
def test_what_the_document_shows_runs(path: Path, run: Run, tmp_path: Path) -> None:
    done = run_document(path, tmp_path, run)
    assert done.returncode == 0, f"{path.name} (line numbers are the document's):\n{done.stdout[-6000:]}"


def test_the_script_has_the_lines_of_the_document() -> None:
    document = textwrap.dedent("""\
        # Title

        ```python
        x = 1
        ```

        1. In a list:

           ```python title="more"
           if x:
               y = x + 1
           ```

        ```console
        $ demur status
        nothing yet
        $ make demo
        $ demur fit --data a.jsonl \\
            --out b | head
        ```

        ```python-like
        not python
        ```

        ~~~json
        {"a": 1}
        ~~~
        """)
    lines = script_of(document).splitlines()
    shown = {number: line for number, line in enumerate(lines, 1) if line}
    assert shown == {
        1: "from console_lines import console",
        4: "x = 1",
        10: "if x:",
        11: "    y = x + 1",
        15: "console('demur status')",
        18: "console('demur fit --data a.jsonl --out b | head')",
    }


def test_a_document_without_snippets_gives_an_empty_script() -> None:
    assert script_of("") == ""
    assert script_of("# Only\n\n`inline`\n\n    indented\n\n```\nplain\n```\n") == ""


def test_imports_from_the_future_come_first() -> None:
    document = "```python\na = 1\n```\n\n```python\nfrom __future__ import annotations\nb = 2\n```\n"
    lines = script_of(document).splitlines()
    assert lines[0] == "from __future__ import annotations; from console_lines import console"
    assert lines[1] == "a = 1"
    assert lines[5:7] == ["", "b = 2"]


def test_blocks_share_a_namespace_and_a_failure_names_the_documents_line(run: Run, tmp_path: Path) -> None:
    good = (
        "# A\n\n```python\nfrom pathlib import Path\nx = 2\n```\n\n```python\nPath('out.txt').write_text(str(x))\n```\n"
    )
    (tmp_path / "good.md").write_text(good)
    done = run_document(tmp_path / "good.md", tmp_path, run)
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "work" / "out.txt").read_text() == "2"

    (tmp_path / "second").mkdir()
    (tmp_path / "bad.md").write_text(f"{good}\n```python\nassert x == 3, x\n```\n")
    done = run_document(tmp_path / "bad.md", tmp_path / "second", run)
    assert done.returncode == 1
    assert "line 13" in done.stdout
    assert "AssertionError: 2" in done.stdout


def test_a_console_line_that_fails_fails_the_document(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.md").write_text("```console\n$ demur no-such-command\n```\n")
    done = run_document(tmp_path / "bad.md", tmp_path, run)
    assert done.returncode == 1
    assert "demur no-such-command" in done.stdout
