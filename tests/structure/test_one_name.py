"""No module is loaded under two names: not by importing all of them, not by pytest, not in a clone of another name."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Run = Callable[..., CompletedProcess[str]]

HERE = Path(__file__).parent

WALK = """
import importlib, sys
from pathlib import Path
root, *names = sys.argv[1:]
for name in names:
    importlib.import_module(name)
import one_name
found = one_name.doubles(Path(root))
assert not found, found
loaded = [name for name in sys.modules if name == "demur" or name.startswith("demur.")]
assert set(names) <= set(loaded), set(names) - set(loaded)
print("imported", len(names))
"""

TWICE = """
import importlib.util, sys
from pathlib import Path
import demur.core.signal as first
spec = importlib.util.spec_from_file_location("other.signal", first.__file__)
sys.modules["other.signal"] = importlib.util.module_from_spec(spec)
import one_name
found = one_name.doubles(Path(sys.argv[1]))
assert found == {"core/signal.py": ["demur.core.signal", "other.signal"]}, found
"""


def module_names(in_rooms: tuple[Path, ...]) -> list[str]:
    """The package's modules. Alembic runs `migrations/env.py` as a script; it is no module to import."""
    files = [path for path in in_rooms if path.suffix == ".py" and path.stem != "__main__"]
    names = []
    for path in files:
        if path.name == "env.py" and path.parent.name == "migrations":
            continue
        parts = path.parent.parts if path.name == "__init__.py" else path.with_suffix("").parts
        names.append(".".join(("demur", *parts)))
    return names


def test_every_module_imports_and_under_one_name(root: Path, in_rooms: tuple[Path, ...], run: Run) -> None:
    names = module_names(in_rooms)
    assert "demur" in names
    assert "demur.core.signal" in names
    done = run(sys.executable, "-c", WALK, root, *names, cwd=root, env={"PYTHONPATH": str(HERE)})
    assert done.returncode == 0, done.stdout
    assert f"imported {len(names)}" in done.stdout


def test_the_check_sees_a_double(root: Path, run: Run) -> None:
    done = run(sys.executable, "-c", TWICE, root, cwd=root, env={"PYTHONPATH": str(HERE)})
    assert done.returncode == 0, done.stdout


def test_this_very_session_has_no_double(root: Path) -> None:
    import demur.core.call

    by_file: dict[str, set[str]] = {}
    for name, module in list(sys.modules.items()):
        origin = getattr(module, "__file__", None)
        if isinstance(origin, str) and name != "__main__" and "site-packages" not in origin:
            by_file.setdefault(os.path.realpath(origin), set()).add(name)
    ours = {path: names for path, names in by_file.items() if Path(path).is_relative_to(root)}
    assert ours[os.path.realpath(demur.core.call.__file__)] == {"demur.core.call"}
    assert {path: names for path, names in ours.items() if len(names) > 1} == {}


def test_pytest_collects_everything_under_one_name(root: Path, run: Run) -> None:
    done = run(
        *(sys.executable, "-m", "pytest", "tests", "--collect-only", "-q", "-p", "no:cacheprovider", "-p", "one_name"),
        cwd=root,
        env={"PYTHONPATH": str(HERE)},
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert f"demur came from {root / '__init__.py'}; loaded under two names: nothing" in done.stdout


@pytest.fixture
def clone(root: Path, tracked: tuple[Path, ...], tmp_path: Path) -> Path:
    """What git tracks, in a folder whose name cannot be a module's."""
    folder = tmp_path / "x-1"
    for path in tracked:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, folder / path)
    return folder


def test_the_linter_does_not_mind_the_name_of_the_clone(clone: Path, run: Run) -> None:
    done = run("ruff", "check", "--no-cache", "--output-format", "concise", ".", cwd=clone)
    assert done.returncode in (0, 1), done.stdout[-4000:]  # 1: findings, which `make lint` is there to report
    assert "N999" not in done.stdout


def test_the_suite_runs_in_a_clone_whose_name_is_no_identifier(clone: Path, run: Run, tmp_path: Path) -> None:
    """The package comes from the clone: a link named `demur` leads the path, and the
    path is asked before the finder of the editable install."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "demur").symlink_to(clone, target_is_directory=True)
    shutil.copyfile(HERE / "one_name.py", site / "one_name.py")
    done = run(
        *(sys.executable, "-m", "pytest", "tests/core", "-q", "-x", "-p", "no:cacheprovider", "-p", "one_name"),
        cwd=clone,
        env={"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert f"demur came from {os.path.realpath(clone)}/__init__.py; loaded under two names: nothing" in done.stdout
