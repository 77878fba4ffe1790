"""Is one of Demur's files loaded under two names? A function, and a pytest plugin (`-p one_name`) that asks at the end.

The root of the repository is a package, and pytest would like to import it a second time under the folder's name;
then every class exists twice, and `isinstance` and registries break in ways that are hard to see.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from pathlib import Path

import pytest


def doubles(root: Path) -> dict[str, list[str]]:
    """Files under `root` (outside its virtual environment) that more than one entry of `sys.modules` came from."""
    names: dict[str, list[str]] = defaultdict(list)
    real_root = Path(os.path.realpath(root))
    for name, module in sorted(sys.modules.items()):
        origin = getattr(module, "__file__", None)
        if not isinstance(origin, str) or name == "__main__":
            continue
        path = Path(os.path.realpath(origin))
        if path.is_relative_to(real_root) and "site-packages" not in path.parts:
            names[str(path.relative_to(real_root))].append(name)
    return {path: found for path, found in names.items() if len(found) > 1}


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the session on a double, and say where `demur` came from."""
    demur = sys.modules.get("demur")
    origin = os.path.realpath(demur.__file__) if demur is not None and demur.__file__ else "nowhere"
    found = doubles(session.config.rootpath)
    print(f"\ndemur came from {origin}; loaded under two names: {found or 'nothing'}")
    if found:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
