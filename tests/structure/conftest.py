"""The repository as git sees it, and a clean way to start other processes in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository, which is also the package."""
    return ROOT


@pytest.fixture(scope="session")
def rooms() -> tuple[str, ...]:
    """The rooms of the design, lowest first: each imports only from those before it."""
    return ("core", "evaluation", "probes", "memory", "policies", "review", "router", "integrations", "testing")


@pytest.fixture(scope="session")
def tracked() -> tuple[Path, ...]:
    """Every file that git tracks and that is there, relative to the root."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout
    return tuple(Path(name) for name in sorted(set(listing.split("\0"))) if name and (ROOT / name).is_file())


@pytest.fixture(scope="session")
def in_rooms(tracked: tuple[Path, ...], rooms: tuple[str, ...]) -> tuple[Path, ...]:
    """The tracked files that make up the package: the rooms, and the root's own modules and marker."""
    return tuple(
        path
        for path in tracked
        if path.parts[0] in rooms or (len(path.parts) == 1 and (path.suffix == ".py" or path.name == "py.typed"))
    )


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """This environment without what make, pytest and xdist put into it, with this interpreter's programs first."""
    foreign = ("PYTEST_", "PYTHONPATH", "MAKE", "MFLAGS")  # the suite itself may run under `make test MODELS=1`
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign) and name != "MODELS"}
    kept["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    return kept | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "NO_COLOR": "1", "COLUMNS": "120"}


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def run(environment: dict[str, str]) -> Run:
    """Start a program, wait for it, hand back its output. `env` adds to the clean environment."""

    def start(
        *command: str | Path, cwd: Path, env: dict[str, str] | None = None, timeout: float = 300.0
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(part) for part in command],
            cwd=cwd,
            env=environment | (env or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )

    return start
