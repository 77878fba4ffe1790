"""The wheel holds the tracked files of the rooms: all of them, and nothing else."""

from __future__ import annotations

import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Run = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="module")
def wheel(root: Path, tracked: tuple[Path, ...], run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the tracked files, with the setuptools that is installed (no network)."""
    folder = tmp_path_factory.mktemp("wheel")
    for path in tracked:
        (folder / "source" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, folder / "source" / path)
    done = run(
        *(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder / "dist"),
        cwd=folder / "source",
    )
    assert done.returncode == 0, done.stdout[-4000:]
    (built,) = (folder / "dist").glob("*.whl")
    return built


def test_the_wheel_holds_the_tracked_files_of_the_rooms_and_nothing_else(
    wheel: Path, in_rooms: tuple[Path, ...]
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/") and ".dist-info/" not in name}
    expected = {f"demur/{path.as_posix()}" for path in in_rooms}
    assert sorted(expected - names) == [], "missing from the wheel: see package-data in pyproject.toml"
    assert sorted(names - expected) == [], "in the wheel and not in a room"


def test_what_must_be_there_at_run_time_is_there(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        licences = [name for name in names if name.endswith(".dist-info/licenses/LICENSE")]
        assert len(licences) == 1
        assert b"Apache License" in archive.read(licences[0])
    migrations = "demur/core/database/migrations"
    assert {
        "demur/py.typed",
        f"{migrations}/env.py",
        f"{migrations}/script.py.mako",
        f"{migrations}/versions/v0001_first_schema.py",
    } <= names


def test_every_file_in_the_wheel_is_what_git_tracks(wheel: Path, root: Path, in_rooms: tuple[Path, ...]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        different = [
            str(path) for path in in_rooms if archive.read(f"demur/{path.as_posix()}") != (root / path).read_bytes()
        ]
    assert different == []
