"""HybridRetriever: finds what only words find and what only meaning finds."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.core.errors import BadInput, ConfigurationError, RetrievalError
from demur.core.evidence import Document
from demur.core.protocols import Retriever
from demur.integrations.retrieval.embedders import HashingEmbedder
from demur.integrations.retrieval.hybrid import HybridRetriever, _Bm25, read_documents


def ids(documents):
    return [document.id for document in documents]


def documents(*texts):
    return [Document(id=f"d{i}", text=text) for i, text in enumerate(texts)]


class Ordered:
    """An embedder whose cosines are set by hand: the query is (1, 0), documents follow by their angle."""

    name = "by hand"
    width = 2

    def __init__(self, angles):
        self.angles = angles

    def embed(self, texts):
        import numpy as np

        angles = np.asarray([self.angles.get(text, 0.0) for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


BY_MEANING = "What is a heart attack?"
BY_WORD = "E4711"


def test_golden_what_each_way_finds_alone(corpus, minilm):
    texts = [document.text for document in corpus]
    lexical = _Bm25(texts)
    assert ids(corpus[i] for i in lexical.best(BY_WORD, 12)) == ["error"]
    assert lexical.best(BY_MEANING, 12) == {}

    hybrid = HybridRetriever(corpus, minilm)
    assert isinstance(hybrid, Retriever)
    for query, right in ((BY_WORD, "error"), (BY_MEANING, "heart")):
        assert ids(hybrid.retrieve(query, limit=1)) == [right]


def test_golden_embeddings_alone_would_miss_the_code():
    corpus = documents("alpha E4711 beta", "gamma", "delta")
    embedder = Ordered({"alpha E4711 beta": 1.2, "gamma": 0.1, "delta": 0.2, "E4711": 0.0})
    semantic_only = embedder.embed([d.text for d in corpus]) @ embedder.embed(["E4711"])[0]
    assert semantic_only.argmax() == 1
    assert ids(HybridRetriever(corpus, embedder).retrieve("E4711")) == ["d0", "d1", "d2"]


def test_golden_scores_by_hand():
    corpus = documents("apple pear", "apple", "cherry")
    embedder = Ordered({"apple pear": 0.9, "apple": 0.5, "cherry": 0.1, "apple pie": 0.0})
    found = HybridRetriever(corpus, embedder).retrieve("apple pie")
    # BM25: the shorter d1, then d0; meaning: d2, d1, d0.
    assert {d.id: d.score for d in found} == pytest.approx({"d1": 1 / 61 + 1 / 62, "d0": 1 / 62 + 1 / 63, "d2": 1 / 61})
    assert ids(found) == ["d1", "d0", "d2"]
    parts = {d.id: d.metadata["retrieval"] for d in found}
    assert parts["d2"]["bm25"] is None and parts["d2"]["cosine"] == pytest.approx(0.995004, abs=1e-5)
    # Lucene's BM25 by hand: idf = ln(1 + (3-2+.5)/(2+.5)), mean length 4/3, k1 = 1.5, b = .75, f = 1.
    idf = 0.4700036
    assert parts["d1"]["bm25"] == pytest.approx(idf / (1 + 1.5 * (0.25 + 0.75 * 0.75)), abs=1e-4)
    assert parts["d0"]["bm25"] == pytest.approx(idf / (1 + 1.5 * (0.25 + 0.75 * 1.5)), abs=1e-4)


def test_rank_constant_and_depth_are_used():
    corpus = documents("apple pear", "apple", "cherry")
    embedder = Ordered({"apple pear": 0.9, "apple": 0.5, "cherry": 0.1})
    found = HybridRetriever(corpus, embedder, rank_constant=1, depth=1).retrieve("apple pie", limit=1)
    assert {d.id: d.score for d in found} == {"d1": 0.5}
    for wrong in ({"rank_constant": 0}, {"depth": 0}):
        with pytest.raises(ConfigurationError, match="at least 1"):
            HybridRetriever(corpus, embedder, **wrong)


def test_ties_keep_the_order_of_the_documents():
    corpus = documents(*["the same words"] * 30)
    retriever = HybridRetriever(corpus, HashingEmbedder())
    assert ids(retriever.retrieve("same words", limit=4)) == ["d0", "d1", "d2", "d3"]


def test_the_corpus_is_not_changed_and_metadata_stays(corpus):
    corpus[3] = corpus[3].model_copy(update={"metadata": {"page": 4}})
    (best,) = HybridRetriever(corpus, HashingEmbedder()).retrieve("capital of France", limit=1)
    assert (best.id, best.source, best.metadata["page"]) == ("paris", "golden", 4)
    assert corpus[3].score is None and corpus[3].metadata == {"page": 4}


def test_the_title_is_searched():
    corpus = [Document(id="a", text="It is tall.", metadata={"title": "Eiffel"}), Document(id="b", text="It is old.")]
    assert ids(HybridRetriever(corpus, HashingEmbedder()).retrieve("Eiffel"))[0] == "a"


@pytest.mark.parametrize("query", ["", "  \n\t"])
def test_a_blank_query_finds_nothing(corpus, query):
    assert HybridRetriever(corpus, HashingEmbedder()).retrieve(query) == ()


@pytest.mark.parametrize(
    "query",
    ["the of and to", "?!…", "quel est le sens", "日本の首都は", "столица", "capital " * 12_500, "\x00\x1b[31m"],
)
def test_odd_queries_find_by_embedding_at_least(corpus, query):
    found = HybridRetriever(corpus, HashingEmbedder()).retrieve(query, limit=100)
    assert sorted(ids(found)) == sorted(ids(corpus))


def test_stop_words_do_not_count():
    assert _Bm25(["the cat", "a dog"]).best("the a", 5) == {}
    assert _Bm25(["the", "of and"]).best("the", 5) == {}
    retriever = HybridRetriever(documents("the", "of and"), HashingEmbedder())
    assert ids(retriever.retrieve("the")) == ["d0", "d1"]


def test_other_scripts_are_words_too():
    lexical = _Bm25(["東京は日本の首都です", "Столица России – Москва", "Αθήνα"])
    assert next(iter(lexical.best("日本の首都", 3))) == 0
    assert list(lexical.best("МОСКВА", 3)) == [1]
    assert list(lexical.best("αθήνα", 3)) == [2]


def test_limits(corpus):
    retriever = HybridRetriever(corpus, HashingEmbedder())
    assert len(retriever.retrieve("capital")) == 5
    assert len(retriever.retrieve("capital", limit=10_000)) == 12
    with pytest.raises(BadInput, match="limit 0"):
        retriever.retrieve("capital", limit=0)


def test_one_document():
    assert ids(HybridRetriever(documents("alone"), HashingEmbedder()).retrieve("alone")) == ["d0"]


def test_a_corpus_that_cannot_be_searched_is_refused():
    with pytest.raises(ConfigurationError, match="no documents"):
        HybridRetriever([], HashingEmbedder())
    with pytest.raises(BadInput, match="'x' is there twice"):
        HybridRetriever([Document(id="x", text="a"), Document(id="x", text="b")], HashingEmbedder())
    with pytest.raises(BadInput, match="'x' has no text"):
        HybridRetriever([Document(id="x", text=" ")], HashingEmbedder())


def test_nothing_is_printed(corpus, capfd):
    HybridRetriever(corpus, HashingEmbedder()).retrieve("capital of France")
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_a_failing_embedder_is_a_typed_error(corpus):
    embedder = HashingEmbedder()
    retriever = HybridRetriever(corpus, embedder)

    def fail(texts):
        raise RetrievalError("gone")

    embedder.embed = fail
    with pytest.raises(RetrievalError, match="gone"):
        retriever.retrieve("capital")


@settings(max_examples=40, deadline=None)
@given(query=st.text(max_size=60), limit=st.integers(1, 20))
def test_any_query_gives_a_sorted_list_without_repeats(query, limit):
    retriever = HybridRetriever(documents("one two", "two three", "three four five"), HashingEmbedder(32))
    found = retriever.retrieve(query, limit=limit)
    assert len(found) == (min(limit, 3) if query.strip() else 0)
    assert len(set(ids(found))) == len(found)
    scores = [document.score for document in found]
    assert scores == sorted(scores, reverse=True)
    assert retriever.retrieve(query, limit=limit) == found


async def test_asynchronous_is_the_same(corpus):
    retriever = HybridRetriever(corpus, HashingEmbedder())
    for query in ("capital of France", "", "E4711"):
        assert await retriever.aretrieve(query, limit=3) == retriever.retrieve(query, limit=3)
    with pytest.raises(BadInput, match="limit 0"):
        await retriever.aretrieve("capital", limit=0)


def write(path, *rows):
    path.write_bytes(b"\n".join(row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows))
    return path


def test_from_jsonl(tmp_path):
    path = write(
        tmp_path / "d.jsonl",
        b"\xef\xbb\xbf" + json.dumps({"id": 7, "text": "Paris lies on the Seine."}).encode(),
        b"",
        {"id": "b", "text": "Cold. Dark.", "title": "Oslo", "source": "atlas", "extra": 1},
    )
    assert read_documents(path) == (
        Document(id="7", text="Paris lies on the Seine."),
        Document(id="b", text="Cold. Dark.", source="atlas", metadata={"title": "Oslo"}),
    )
    retriever = HybridRetriever.from_jsonl(path, HashingEmbedder(), rank_constant=10)
    (best,) = retriever.retrieve("Oslo", limit=1)
    assert (best.id, best.score) == ("b", pytest.approx(2 / 11))


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (b"{", "Expecting property name"),
        (b"[1]", "expected an object"),
        (b"\xff\xfe", "decode"),
        (b"[" * 100_000, "recursion"),
        ({"text": "no id"}, "id None"),
        ({"id": True, "text": "a"}, "id True"),
        ({"id": "", "text": "a"}, "id ''"),
        ({"id": "a"}, "text is missing"),
        ({"id": "a", "text": " "}, "text is missing or blank"),
        ({"id": "a", "text": 5}, "text must be text, not int"),
        ({"id": "a", "text": "b", "title": None}, "title must be text"),
        ({"id": "a", "text": "\ud800"}, "surrogates"),
        ({"id": "first", "text": "again"}, "id 'first' is that of line 1 too"),
    ],
)
def test_bad_lines_are_named(tmp_path, row, says):
    path = write(tmp_path / "d.jsonl", {"id": "first", "text": "fine"}, row)
    with pytest.raises(BadInput, match=rf"line 2: (.|\n)*{says}"):
        read_documents(path)


def test_a_file_that_is_not_there_or_empty(tmp_path):
    with pytest.raises(BadInput, match="cannot be read"):
        HybridRetriever.from_jsonl(tmp_path / "no.jsonl", HashingEmbedder())
    with pytest.raises(ConfigurationError, match="no documents"):
        HybridRetriever.from_jsonl(write(tmp_path / "empty.jsonl"), HashingEmbedder())
