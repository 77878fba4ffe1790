"""Shared by the tests of evaluation/: goldens from files, and a judge that answers from a script."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from demur.core.call import Call
from demur.core.evidence import Need
from demur.core.protocols import Fingerprint, Generation
from demur.core.response import Response


class ScriptedJudge:
    """A model that gives the next of its verdicts and keeps what it was asked."""

    name = "scripted"
    provides = frozenset({Need.TEXT})

    def __init__(self, verdicts: Sequence[str]) -> None:
        self.verdicts = list(verdicts)
        self.calls: list[Call] = []

    def fingerprint(self) -> Fingerprint:
        return Fingerprint(name=self.name, identity="abc", pinned=True, prompt="", decoding="")

    def generate(self, call: Call, **_: Any) -> Generation:
        self.calls.append(call)
        return Generation(Response(text=self.verdicts.pop(0), model=self.name))

    async def agenerate(self, call: Call, **_: Any) -> Generation:
        return self.generate(call)


@pytest.fixture
def scripted_judge() -> Callable[[Sequence[str]], ScriptedJudge]:
    return ScriptedJudge


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`golden` and its grader's name, one test a line of goldens/*.jsonl."""
    if "golden" in metafunc.fixturenames:
        found = []
        for path in sorted((Path(__file__).parent / "goldens").glob("*.jsonl")):
            for line in path.read_text(encoding="utf-8").splitlines():
                golden = json.loads(line)
                found.append(pytest.param(path.stem, golden, id=f"{path.stem}-{golden['note']}"))
        metafunc.parametrize(("grader_name", "golden"), found)
