"""Fingerprints bind to what shapes the answers, and loading runs and unpickles nothing."""

from __future__ import annotations

import json
import os
import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch

from demur.core.call import Call
from demur.core.errors import ConfigurationError, ModelError
from demur.integrations.models.digests import DigestCache, sha256_of, write_atomically
from demur.integrations.models.huggingface.decoding import Decoding
from demur.integrations.models.huggingface.loading import dtype_of
from demur.integrations.models.huggingface.model import HuggingFaceModel
from demur.integrations.models.huggingface.prompt import PromptTemplate


@pytest.fixture
def folder(tmp_path: Path, tiny_model: Any) -> Path:
    model, tokenizer = tiny_model("llama")
    model.save_pretrained(tmp_path / "tiny")
    tokenizer.save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


def test_folder_and_objects_answer_alike(folder: Path, tiny_model: Any) -> None:
    loaded = HuggingFaceModel(folder, max_new_tokens=5)
    in_memory = HuggingFaceModel.from_objects(*tiny_model("llama"), decoding=Decoding(max_new_tokens=5))
    call = Call.ask("Who?")
    assert loaded.generate(call).response.trace.ids == in_memory.generate(call).response.trace.ids
    assert loaded.name == "tiny"
    assert loaded.layer_count == 3
    assert loaded.width == 32


def test_identity_changes_with_every_file_and_with_the_number_type(folder: Path, tmp_path: Path) -> None:
    cache = DigestCache(tmp_path / "digests.json")
    first = HuggingFaceModel(folder).fingerprint(cache=cache)
    assert first.pinned
    assert first == HuggingFaceModel(folder).fingerprint(cache=cache)
    assert HuggingFaceModel(folder, dtype="bfloat16").fingerprint(cache=cache).identity != first.identity
    for name in ("tokenizer_config.json", "config.json"):
        other = tmp_path / f"other-{name}"
        shutil.copytree(folder, other)
        changed = json.loads((other / name).read_text())
        changed["comment"] = "x"
        (other / name).write_text(json.dumps(changed))
        assert HuggingFaceModel(other, name="tiny").fingerprint(cache=cache).identity != first.identity


def test_identity_of_objects_changes_with_one_weight(tiny_model: Any) -> None:
    model, tokenizer = tiny_model("llama")
    first = HuggingFaceModel.from_objects(model, tokenizer).fingerprint()
    assert first == HuggingFaceModel.from_objects(deepcopy(model), tokenizer).fingerprint()
    other = deepcopy(model)
    with torch.no_grad():
        other.lm_head.weight[0, 0] += 1e-3
    assert HuggingFaceModel.from_objects(other, tokenizer).fingerprint().identity != first.identity


def test_prompt_and_decoding_are_hashed_apart(tiny_model: Any) -> None:
    make = lambda **options: HuggingFaceModel.from_objects(*tiny_model("llama"), **options).fingerprint()  # noqa: E731
    plain = make()
    for other in (make(system="Be brief."), make(prompt_template=PromptTemplate(prefix="x"))):
        assert other.prompt != plain.prompt
        assert (other.identity, other.decoding) == (plain.identity, plain.decoding)
    longer = make(decoding=Decoding(max_new_tokens=33), stop=("\n",))
    assert longer.decoding != plain.decoding
    assert longer.prompt == plain.prompt
    model = HuggingFaceModel.from_objects(*tiny_model("llama"))
    assert model.with_decoding(seed=4).fingerprint() == model.fingerprint()
    warm, hot = (model.with_decoding(do_sample=True, temperature=t).fingerprint() for t in (0.5, 1.0))
    assert warm.decoding != hot.decoding


def test_digest_cache_believes_only_unchanged_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import demur.integrations.models.digests as digests

    file = tmp_path / "weights"
    file.write_bytes(b"one")
    reads: list[Path] = []
    monkeypatch.setattr(digests, "sha256_of", lambda path: reads.append(path) or sha256_of(path))
    cache = DigestCache(tmp_path / "deep" / "cache.json")
    first = cache.sha256(file)
    assert first == cache.sha256(file) == sha256_of(file)
    assert len(reads) == 1
    file.write_bytes(b"two")
    os.utime(file, ns=(1, 1))
    assert cache.sha256(file) == sha256_of(file) != first
    (tmp_path / "deep" / "cache.json").write_text("{ half a file")
    assert cache.sha256(file) == sha256_of(file)
    (tmp_path / "deep" / "cache.json").write_text(json.dumps({str(file): {"size": 3, "mtime_ns": 1}}))
    assert cache.sha256(file) == sha256_of(file)
    unwritable = DigestCache(file / "below a file" / "cache.json")
    assert unwritable.sha256(file) == sha256_of(file)


def test_atomic_write_leaves_the_old_text_on_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "note.json"
    target.write_text("old")

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_pickled_weights_are_refused(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(ModelError):
        HuggingFaceModel(folder)


def test_code_in_the_folder_is_not_run(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["model_type"] = "homemade"
    config["auto_map"] = {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text(f"open({str(folder / 'ran')!r}, 'w').close()\n")
    with pytest.raises(ModelError, match="could not be loaded"):
        HuggingFaceModel(folder)
    assert not (folder / "ran").exists()


def test_damaged_weights_are_a_typed_error(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"not safetensors at all")
    with pytest.raises(ModelError, match="could not be loaded"):
        HuggingFaceModel(folder)


def test_number_types() -> None:
    assert dtype_of(None, "cpu") is torch.float32
    assert dtype_of(None, "cuda") is torch.bfloat16
    assert dtype_of("float64", "cpu") is torch.float64
    for bad in ("int8", "no_such", "nn"):
        with pytest.raises(ConfigurationError, match="floating-point"):
            dtype_of(bad, "cpu")
