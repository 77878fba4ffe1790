"""The commands for people: the Makefile, .ci/run, the pre-commit hooks, the licence."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml

Run = Callable[..., CompletedProcess[str]]

# The Apache Software Foundation's own text, byte for byte.
APACHE_2 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"

# Makes .venv/bin/python, which notes down what it is asked to do.
FAKE_PYTHON = """#!/bin/sh
case "$1 $2" in
  "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  "-m pip") echo "$*" >> installs ;;
esac
"""
OLD_PYTHON = "#!/bin/sh\nexit 1\n"


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """A folder with what the Makefile looks at."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copyfile(root / name, tmp_path / name)
    return tmp_path


def test_a_second_run_installs_only_after_a_change(copy: Path, run: Run) -> None:
    executable(copy / "bin" / "python3.11", FAKE_PYTHON)
    path = {"PATH": f"{copy / 'bin'}{os.pathsep}{os.environ['PATH']}"}

    def installs() -> list[str]:
        done = run("make", "install", cwd=copy, env=path)
        assert done.returncode == 0, done.stdout
        return (copy / "installs").read_text().splitlines()

    assert len(installs()) == 1
    assert len(installs()) == 1
    later = (copy / "pyproject.toml").stat().st_mtime + 10
    for name in ("constraints.txt", "pyproject.toml"):
        os.utime(copy / name, (later, later))
    (line, again) = installs()
    assert line == again
    assert "-c constraints.txt -e .[demo,dev,langchain]" in line


def test_without_a_fitting_python_the_error_says_what_to_do(copy: Path, run: Run) -> None:
    for name in ("python3.11", "python3"):
        executable(copy / "bin" / name, OLD_PYTHON)
    path = {"PATH": f"{copy / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    done = run("make", "demo", cwd=copy, env=path)
    assert done.returncode == 2
    assert "no Python 3.11 or newer" in done.stdout
    assert "make PYTHON=" in done.stdout
    assert not (copy / ".venv").exists()


def test_a_python_can_be_named(copy: Path, run: Run) -> None:
    executable(copy / "elsewhere" / "python", FAKE_PYTHON)
    done = run("make", "install", f"PYTHON={copy / 'elsewhere' / 'python'}", cwd=copy)
    assert done.returncode == 0, done.stdout
    assert (copy / ".venv" / "bin" / "python").read_text() == FAKE_PYTHON


def test_make_test_ends_with_the_tests(root: Path, run: Run) -> None:
    dry = run("make", "--dry-run", "--no-print-directory", "test", cwd=root)
    assert dry.returncode == 0, dry.stdout
    stages = [word for word in ("ruff check", "pyright", "lint-imports", "-m pytest") if word in dry.stdout]
    assert stages == ["ruff check", "pyright", "lint-imports", "-m pytest"]
    last = dry.stdout.strip().splitlines()[-1]
    assert "-m pytest tests" in last
    assert "not models" in last
    with_models = run("make", "--dry-run", "--no-print-directory", "unit", "MODELS=1", cwd=root)
    assert "not models" not in with_models.stdout


def test_the_ci_script_is_a_program_that_calls_make_test(root: Path, run: Run) -> None:
    script = root / ".ci" / "run"
    assert os.access(script, os.X_OK)
    mode = subprocess.run(["git", "ls-files", "-s", ".ci/run"], cwd=root, capture_output=True, text=True, check=True)
    assert mode.stdout.startswith("100755 ")
    assert run("bash", "-n", script, cwd=root).returncode == 0
    lines = [line for line in script.read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "set -euo pipefail"
    assert "test MODELS=1" in lines[-1]


def test_the_hooks_use_the_programs_of_the_virtual_environment(root: Path) -> None:
    config = yaml.safe_load((root / ".pre-commit-config.yaml").read_text())
    (repository,) = config["repos"]
    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        assert hook["language"] == "system"
        folder, _, program = hook["entry"].split()[0].rpartition("/")
        assert folder == ".venv/bin"
        assert (Path(sys.executable).parent / program).is_file()


def test_the_licence_is_apache_2_word_for_word(root: Path) -> None:
    assert hashlib.sha256((root / "LICENSE").read_bytes()).hexdigest() == APACHE_2
