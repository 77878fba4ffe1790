"""A model from one word: local folders, hosted names, and words that name nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from demur.core.errors import BadInput, ConfigurationError, MissingExtra, ModelError
from demur.core.evidence import Need
from demur.integrations.models.build import build_model
from demur.integrations.models.huggingface.model import HuggingFaceModel
from demur.integrations.models.prompt_file import read_prompt


def test_a_folder_is_a_local_model_with_the_same_fingerprint(fact_world: Any) -> None:
    built = build_model(str(fact_world.folder))
    assert isinstance(built, HuggingFaceModel)
    assert built.fingerprint() == HuggingFaceModel(fact_world.folder).fingerprint()
    other = build_model(str(fact_world.folder), system="Be brief.", max_new_tokens=5)
    assert other.fingerprint().identity == built.fingerprint().identity
    assert other.fingerprint().prompt != built.fingerprint().prompt
    assert other.fingerprint().decoding != built.fingerprint().decoding


@pytest.mark.parametrize("provider", ["openai", "ollama"])
def test_a_hosted_model_shows_log_probabilities_and_is_unpinned(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    model = build_model(f"{provider}:some-model:latest", max_new_tokens=7)
    assert model.name == f"{provider}:some-model:latest"
    assert model.provides == {Need.TEXT, Need.LOGPROBS}
    fingerprint = model.fingerprint()
    assert not fingerprint.pinned
    assert fingerprint.identity == f"{provider}:some-model:latest:unstated"
    assert fingerprint.decoding != build_model(f"{provider}:some-model:latest").fingerprint().decoding


@pytest.mark.parametrize("provider", ["openai", "ollama"])
def test_a_missing_package_names_its_extra(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, f"langchain_{provider}", None)
    with pytest.raises(MissingExtra, match=rf"langchain-{provider}.*demur\[{provider}\]"):
        build_model(f"{provider}:some-model")


def test_a_client_that_cannot_be_built_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match=r"openai:gpt-x could not be built.*OPENAI_API_KEY"):
        build_model("openai:gpt-x")


@pytest.mark.parametrize(
    ("spec", "said"),
    [("", "no name"), ("acme:x", "no provider 'acme'"), ("openai:", "names no model"), (":x", "no provider ''")],
)
def test_words_that_name_no_model(spec: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        build_model(spec)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="was not found"):
        build_model(str(tmp_path / "nowhere"))
    with pytest.raises(ConfigurationError, match="max_new_tokens=0"):
        build_model(str(tmp_path), max_new_tokens=0)


def test_a_prompt_file_changes_the_parts_that_it_names(tmp_path: Path) -> None:
    path = tmp_path / "prompt.toml"
    path.write_text('prefix = "Short."\nquestion = "Frage: {question}\\nAntwort:"\n', encoding="utf-8")
    template = read_prompt(path)
    assert (template.prefix, template.question) == ("Short.", "Frage: {question}\nAntwort:")
    assert "{documents}" in template.with_documents


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("prefix = ", "cannot be read as TOML"),
        ('prefx = "x"', "no part 'prefx'"),
        ("prefix = 3", "not a text"),
        ('question = "no field"', "must hold exactly"),
    ],
)
def test_a_prompt_file_that_cannot_be_used(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "prompt.toml"
    path.write_text(content)
    with pytest.raises(BadInput, match=said):
        read_prompt(path)
    with pytest.raises(BadInput, match="cannot be read"):
        read_prompt(tmp_path / "nowhere.toml")
