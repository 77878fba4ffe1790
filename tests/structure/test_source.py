"""What no file may contain, and what every module must have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

MEGABYTE = 1 << 20
LONGEST = 400

# Loaders that can run code that a file brings along. numpy's is fine as long as it does not unpickle.
UNSAFE_MODULES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal"}
UNSAFE_FUNCTIONS = {
    "joblib.load",
    "torch.load",
    "yaml.load",
    "yaml.unsafe_load",
    "yaml.full_load",
    "pandas.read_pickle",
}
UNSAFE_BUILTINS = {"eval", "exec", "compile", "__import__"}
ALIASES = {"pd": "pandas", "np": "numpy"}

OWN_MACHINE = re.compile(r"(?<![.\w])/(?:home|work|root|Users)/\w")


def dotted(node: ast.expr) -> str:
    """`a.b.c` of a name or attribute, or ""."""
    if isinstance(node, ast.Name):
        return ALIASES.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def unsafe_uses(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of everything that unpickles or evaluates."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name.split(".")[0] in UNSAFE_MODULES)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            module = node.module or ""
            if module.split(".")[0] in UNSAFE_MODULES:
                yield node.lineno, module
            names = (f"{module}.{alias.name}" for alias in node.names)
            yield from ((node.lineno, name) for name in names if name in UNSAFE_FUNCTIONS)
        elif isinstance(node, ast.Call):
            name = dotted(node.func)
            if name in UNSAFE_FUNCTIONS | UNSAFE_BUILTINS:
                yield node.lineno, name
            for keyword in node.keywords:
                is_false = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
                if keyword.arg == "allow_pickle" and not is_false:
                    yield node.lineno, f"{name} with allow_pickle"
                if keyword.arg == "trust_remote_code" and not is_false:
                    yield node.lineno, f"{name} with trust_remote_code"


@pytest.fixture(scope="module")
def modules(root: Path, in_rooms: tuple[Path, ...]) -> dict[Path, str]:
    return {path: (root / path).read_text() for path in in_rooms if path.suffix == ".py"}


def test_no_tracked_file_is_over_a_megabyte(root: Path, tracked: tuple[Path, ...]) -> None:
    assert [str(path) for path in tracked if (root / path).stat().st_size > MEGABYTE] == []


def test_nothing_is_unpickled_or_evaluated(modules: dict[Path, str]) -> None:
    found = [f"{path}:{line}: {name}" for path, text in modules.items() for line, name in unsafe_uses(ast.parse(text))]
    assert found == []


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import pickle", "pickle"),
        ("from pickle import loads", "pickle"),
        ("import torch\ntorch.load('weights')", "torch.load"),
        ("from joblib import load", "joblib.load"),
        ("import yaml\nyaml.load('a: 1')", "yaml.load"),
        ("import numpy as np\nnp.load('a.npy', allow_pickle=True)", "numpy.load with allow_pickle"),
        ("ev" + "al('1')", "eval"),
        ("ex" + "ec('1')", "exec"),
        ("model.from_pretrained('x', trust_remote_code=True)", "model.from_pretrained with trust_remote_code"),
    ],
)
def test_the_check_sees_what_is_unsafe(code: str, name: str) -> None:
    assert name in [found for _, found in unsafe_uses(ast.parse(code))]


def test_the_check_lets_pass_what_only_looks_unsafe() -> None:
    code = "model.ev" + "al()\nyaml.safe_load('a: 1')\nnp.load('a.npy', allow_pickle=False)\nre.compile('a')"
    assert list(unsafe_uses(ast.parse(code))) == []


def test_no_file_names_a_folder_of_somebodys_machine(root: Path, tracked: tuple[Path, ...]) -> None:
    found = []
    for path in tracked:
        content = (root / path).read_bytes()
        if b"\0" in content:
            continue
        lines = content.decode("utf-8").splitlines()
        found += [f"{path}:{number}" for number, line in enumerate(lines, 1) if OWN_MACHINE.search(line)]
    assert found == []


def test_every_public_module_says_what_it_holds(modules: dict[Path, str]) -> None:
    public = {
        path: text
        for path, text in modules.items()
        if not path.stem.startswith("_") or path.name in ("__init__.py", "__main__.py")
    }
    assert [str(path) for path, text in public.items() if not (ast.get_docstring(ast.parse(text)) or "").strip()] == []


def test_every_module_is_short(modules: dict[Path, str]) -> None:
    assert {str(p): n for p, text in modules.items() if (n := len(text.splitlines())) >= LONGEST} == {}
