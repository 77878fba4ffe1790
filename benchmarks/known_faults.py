"""The 31 known faults: fifteen of tools of this kind, sixteen of LangChain agents. Each is held where its body holds,
and fails once its fix is taken away."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

TESTS = Path(__file__).parent.parent / "tests"
FIFTEEN = TESTS / "faults" / "test_fifteen_faults.py"
SIXTEEN = TESTS / "integrations" / "langchain" / "test_sixteen_cases.py"
TOTAL = 31


def held(say: Callable[[str], object]) -> tuple[int, int, list[str]]:
    """How many are held, of how many, and which are not, with the reason."""
    missing: list[str] = []
    seen = 0
    for name, number, body, undone in _all():
        seen += 1
        try:
            with tempfile.TemporaryDirectory() as folder:
                body(Path(folder))
        except Exception as error:  # noqa: BLE001 - whatever it is, the fault is not held
            missing.append(f"{name} {number}: {type(error).__name__}")
            continue
        if not _fails_without_its_fix(body, undone):
            missing.append(f"{name} {number}: its test cannot fail")
    say(f"known faults: {seen - len(missing)} of {TOTAL} held{'; not: ' + '; '.join(missing) if missing else ''}")
    return seen - len(missing), TOTAL, missing


def _fails_without_its_fix(body: Callable[[Path], None], undone: Callable[[], Any]) -> bool:
    with undone():
        try:
            with tempfile.TemporaryDirectory() as folder:
                body(Path(folder))
        except BaseException as error:  # noqa: BLE001 - pytest's own failures are no Exceptions
            return isinstance(error, AssertionError) or type(error).__name__ == "Failed"
    return False


def _all() -> Iterator[tuple[str, int, Callable[[Path], None], Callable[[], Any]]]:
    import pytest

    @contextlib.contextmanager
    def patched(undone: Callable[[pytest.MonkeyPatch], Any]) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch, undone(patch) or contextlib.nullcontext():
            yield

    for number, fault in sorted(_module(FIFTEEN).FAULTS.items()):
        yield "fault", number, fault.holds, lambda fault=fault: patched(fault.undone)
    if not SIXTEEN.exists():
        return
    for number, case in sorted(_module(SIXTEEN).CASES.items()):
        yield "case", number, case[0], lambda case=case: patched(case[1])


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
