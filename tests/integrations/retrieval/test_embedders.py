"""Embedders: unit vectors or a typed error; nothing cut silently."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings

from demur.core.errors import ConfigurationError, MissingExtra, RetrievalError
from demur.core.protocols import Embedder
from demur.integrations.retrieval import embedders
from demur.integrations.retrieval.embedders import (
    HashingEmbedder,
    LangChainEmbedder,
    SentenceTransformerEmbedder,
    default_embedder,
)


def lengths(vectors):
    return np.linalg.norm(vectors, axis=1)


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.text(max_size=40), max_size=5), width=st.sampled_from([1, 7, 256]))
def test_hashing_gives_unit_vectors_for_any_text(texts, width):
    embedder = HashingEmbedder(width)
    vectors = embedder.embed(texts)
    assert vectors.shape == (len(texts), width) and vectors.dtype == np.float32
    assert lengths(vectors) == pytest.approx(np.ones(len(texts)), abs=1e-5)
    assert np.array_equal(vectors, embedder.embed(texts))


def test_hashing_is_the_same_on_every_machine():
    vector = HashingEmbedder(8).embed(["abc"])[0]
    # " abc " has 3-grams " ab", "abc", "bc ", 4-grams " abc", "abc ", 5-gram " abc ": worked out with hashlib by hand.
    from hashlib import blake2b

    expected = np.zeros(8)
    for gram in (" ab", "abc", "bc ", " abc", "abc ", " abc "):
        number = int.from_bytes(blake2b(gram.encode(), digest_size=8).digest(), "big")
        expected[(number // 2) % 8] += 1 if number % 2 else -1
    assert vector == pytest.approx(expected / np.linalg.norm(expected), abs=1e-6)


def test_hashing_is_lexical():
    cat, cats, money = HashingEmbedder().embed(["The cat sat here", "the CATS  sat here", "Interest on loans"])
    assert cat @ cats > 0.7 > 0.3 > cat @ money
    assert isinstance(HashingEmbedder(), Embedder)
    with pytest.raises(ConfigurationError, match="width 0"):
        HashingEmbedder(0)


def test_minilm_knows_meanings(minilm):
    heart, same, money = minilm.embed(["heart attack", "myocardial infarction", "mortgage rate"])
    assert heart @ same > 0.5 > 0.3 > heart @ money
    assert minilm.width == 384 and minilm.name.startswith("all-MiniLM-L6-v2:")


def test_minilm_equals_the_library(minilm):
    texts = ["A short text.", "", "Another one, a bit longer than the first."]
    expected = minilm._model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    vectors = minilm.embed(texts)
    assert vectors == pytest.approx(expected, abs=1e-5)
    assert vectors.dtype == np.float32 and lengths(vectors) == pytest.approx(np.ones(3), abs=1e-5)
    assert minilm.embed([]).shape == (0, 384)


def test_long_texts_are_windowed_not_cut(minilm):
    start = "The river flows past the old mill. " * 40
    end = "Compound interest makes a debt grow. " * 40
    both, first, last = minilm.embed([start + end, start, end])
    cut = minilm._model.encode([start + end], normalize_embeddings=True, show_progress_bar=False)[0]
    assert cut @ last < 0.3 < 0.5 < both @ last, "the library sees the beginning only"
    assert both @ first > 0.5


@pytest.mark.parametrize("text", ["word " * 3000, "日本語" * 300, "a-b_c" * 900, "x" * 4000])
def test_windows_fit_and_lose_nothing(minilm, text):
    windows = minilm._windows(text)
    assert "".join(window for window, _ in windows) == text
    limit = minilm._model.max_seq_length
    for window, tokens in windows:
        assert len(minilm._model.tokenizer(window, truncation=False)["input_ids"]) == tokens <= limit


def test_a_very_long_question_is_embedded(minilm):
    (vector,) = minilm.embed(["?! " * 700 + "supercalifragilistic" * 300])
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)


def test_minilm_is_safe_between_threads(minilm):
    texts = [f"sentence number {i} " * (1 + 60 * (i % 2)) for i in range(4)]
    expected = [minilm.embed([text])[0] for text in texts]
    got = [None] * len(texts)

    def work(i):
        got[i] = minilm.embed([texts[i]])[0]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.stack(got) == pytest.approx(np.stack(expected), abs=1e-5)


def test_loading_is_silent_and_bound_to_the_weights(minilm, capfd, tmp_path):
    import shutil

    folder = tmp_path / "mine"
    shutil.copytree(embedders.packaged_minilm(), folder)
    other = SentenceTransformerEmbedder(folder, device="cpu")
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
    assert other.name == minilm.name.replace("all-MiniLM-L6-v2", "mine")
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 128, "do_lower_case": false}')
    assert SentenceTransformerEmbedder(folder, device="cpu").name != other.name


def test_a_pickle_is_not_opened(minilm, tmp_path):
    import shutil

    folder = tmp_path / "pickled"
    shutil.copytree(embedders.packaged_minilm(), folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(RetrievalError, match="cannot be loaded"):
        SentenceTransformerEmbedder(folder)


def test_a_model_that_is_not_there_is_a_typed_error(tmp_path, monkeypatch):
    with pytest.raises(RetrievalError, match="cannot be loaded"):
        SentenceTransformerEmbedder(tmp_path)
    monkeypatch.setattr(embedders, "packaged_minilm", lambda: None)
    with pytest.raises(MissingExtra, match=r"demur\[demo\]"):
        SentenceTransformerEmbedder()
    with pytest.raises(ConfigurationError, match="batch_size 0"):
        SentenceTransformerEmbedder(tmp_path, batch_size=0)


def test_text_that_is_no_unicode_is_a_typed_error(minilm):
    with pytest.raises(RetrievalError, match="failed"):
        minilm.embed(["\ud800"])


def test_the_default_without_the_package_warns(monkeypatch):
    monkeypatch.setattr(embedders, "packaged_minilm", lambda: None)
    with pytest.warns(UserWarning, match="lexical"):
        embedder = default_embedder()
    assert isinstance(embedder, HashingEmbedder)


def test_the_default_with_the_package_is_minilm(minilm):
    assert default_embedder().name == minilm.name


class Fixed(Embeddings):
    """Answers with what it was given."""

    def __init__(self, answer):
        self.answer = answer

    def embed_documents(self, texts):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def embed_query(self, text):
        raise AssertionError("one way in")


def test_langchain_embeddings_become_unit_vectors():
    fake = DeterministicFakeEmbedding(size=12)
    embedder = LangChainEmbedder(fake)
    assert embedder.width == 12 and isinstance(embedder, Embedder)
    vectors = embedder.embed(["a", "b"])
    raw = np.asarray(fake.embed_documents(["a", "b"]))
    assert vectors == pytest.approx(raw / np.linalg.norm(raw, axis=1, keepdims=True), abs=1e-6)
    assert vectors.dtype == np.float32
    assert embedder.embed([]).shape == (0, 12)


def test_langchain_embeddings_are_named_by_class_and_model():
    plain = Fixed([[1.0]])
    assert LangChainEmbedder(plain).name == "Fixed"
    plain.model = "embed-3"
    assert LangChainEmbedder(plain).name == "Fixed:embed-3"
    assert LangChainEmbedder(plain, name="mine").name == "mine"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (ValueError("no key"), "no key"),
        ([[1.0, 2.0]], "for 2 texts"),
        ([[1.0, 2.0], [1.0]], "failed"),
        ([[1.0, 2.0], [float("nan"), 1.0]], "text number 1"),
        ([[0.0, 0.0], [1.0, 1.0]], "text number 0"),
        ([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]], "width 3, not 2"),
        ([[], []], "shape"),
        (None, "shape"),
    ],
)
def test_langchain_embeddings_that_misbehave_are_typed_errors(answer, says):
    with pytest.raises(RetrievalError, match=says):
        LangChainEmbedder(Fixed(answer), width=2).embed(["a", "b"])


def test_no_model_is_loaded_by_import():
    import subprocess

    code = (
        "import sys, demur.integrations.retrieval.embedders, demur.integrations.retrieval.hybrid,"
        " demur.integrations.retrieval.langchain, demur.memory.episode_index, demur.probes.grounding\n"
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'faiss', 'langchain_core', 'bm25s', 'scipy'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
