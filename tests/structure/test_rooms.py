"""The rooms, their order, and the list of packages that is installed."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

Run = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="module")
def project(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text())


def test_the_contract_lists_the_rooms_in_the_order_of_the_design(
    project: dict[str, Any], rooms: tuple[str, ...]
) -> None:
    (contract,) = project["tool"]["importlinter"]["contracts"]
    assert contract["type"] == "layers"
    assert contract["containers"] == ["demur"]
    assert contract["exhaustive"] is True
    assert contract["layers"] == list(reversed(rooms))


def test_every_top_level_package_is_a_room(tracked: tuple[Path, ...], rooms: tuple[str, ...]) -> None:
    packages = {path.parts[0] for path in tracked if len(path.parts) == 2 and path.name == "__init__.py"}
    assert packages == set(rooms)


def test_the_contract_is_kept(root: Path, run: Run) -> None:
    done = run("lint-imports", "--no-logo", "--no-cache", cwd=root)
    assert done.returncode == 0, done.stdout
    assert "1 kept, 0 broken" in done.stdout


def test_a_room_imports_its_neighbours_relatively(root: Path, in_rooms: tuple[Path, ...]) -> None:
    offenders = []
    for path in in_rooms:
        if path.suffix != ".py":
            continue
        for node in ast.walk(ast.parse((root / path).read_bytes())):
            absolute = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                absolute = [node.module or ""]
            offenders += [f"{path}: {name}" for name in absolute if name.split(".")[0] == "demur"]
    assert offenders == []


def test_the_packages_are_the_folders_with_modules(project: dict[str, Any], in_rooms: tuple[Path, ...]) -> None:
    folders = {path.parent for path in in_rooms if path.suffix == ".py"}
    expected = sorted(".".join(("demur", *folder.parts)) for folder in folders)
    assert sorted(project["tool"]["setuptools"]["packages"]) == expected


def test_every_package_has_its_init(root: Path, in_rooms: tuple[Path, ...]) -> None:
    folders = {path.parent for path in in_rooms if path.suffix == ".py"}
    assert [str(folder) for folder in sorted(folders) if not (root / folder / "__init__.py").is_file()] == []
