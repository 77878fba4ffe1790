"""Lexical and semantic search over a small corpus, fused by rank."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.errors import BadInput, ConfigurationError
from ...core.evidence import Document
from ...core.files import read_named
from ...core.protocols import Embedder
from ...core.words import words
from ...memory.vector_index import VectorIndex
from .embedders import default_embedder

if TYPE_CHECKING:
    from numpy.typing import NDArray


class HybridRetriever:
    """BM25 and embeddings, fused by reciprocal rank: Σ 1/(rank_constant + rank) (Cormack, Clarke, Büttcher 2009).

    Equal scores keep the order of `documents`, so the same query always gives the same list. A query of nothing but
    stop words goes by the embedding alone. `metadata["title"]` is searched together with the text.

    Args:
        documents: the corpus; ids are unique, texts are not blank.
        embedder: None for `default_embedder()`.
        rank_constant: 60 in the paper; smaller trusts the first ranks more.
        depth: how far down each of the two lists is read.

    Raises:
        ConfigurationError: no documents, or `rank_constant` or `depth` below 1.
        BadInput: an id is there twice, or a text is blank.
        RetrievalError: the embedder failed.
    """

    def __init__(
        self,
        documents: Iterable[Document],
        embedder: Embedder | None = None,
        *,
        rank_constant: int = 60,
        depth: int = 100,
    ) -> None:
        if rank_constant < 1 or depth < 1:
            raise ConfigurationError(f"rank_constant {rank_constant} and depth {depth} must be at least 1")
        self.documents = tuple(documents)
        if not self.documents:
            raise ConfigurationError("there are no documents to search; give at least one, or leave the retriever out")
        seen: set[str] = set()
        for document in self.documents:
            if document.id in seen:
                raise BadInput(f"document id {document.id!r} is there twice; ids are unique")
            if not document.text.strip():
                raise BadInput(f"document {document.id!r} has no text; leave it out")
            seen.add(document.id)
        self.rank_constant = rank_constant
        self.depth = depth
        self.embedder: Embedder = default_embedder() if embedder is None else embedder
        texts = [_searched(document) for document in self.documents]
        self._bm25 = _Bm25(texts)
        self._vectors = VectorIndex(self.embedder.width)
        self._vectors.add(range(len(texts)), self.embedder.embed(texts))

    @classmethod
    def from_jsonl(cls, path: str | Path, embedder: Embedder | None = None, **options: Any) -> HybridRetriever:
        """From a file of rows `{id, text, title?, source?}`, one a line.

        Raises:
            BadInput: the file or a line cannot be read; the message names the line.
        """
        return cls(read_documents(path), embedder, **options)

    def retrieve(self, query: str, *, limit: int = 5) -> Sequence[Document]:
        """At most `limit` documents, best first; none for a blank query.

        Each one's score is the fused one; `metadata["retrieval"]` has the two it was made of, `bm25` and `cosine`
        (null where it was not in that list).

        Raises:
            BadInput: `limit` is below 1.
            RetrievalError: the embedder failed.
        """
        if limit < 1:
            raise BadInput(f"limit {limit} must be at least 1")
        if not query.strip():
            return ()
        depth = max(self.depth, limit)
        lexical = self._bm25.best(query, depth)
        hits = self._vectors.search(self.embedder.embed([query])[0], depth)
        semantic = {hit.id: hit.score for hit in hits}
        fused: dict[int, float] = {}
        for ranking in (lexical, semantic):
            for rank, position in enumerate(ranking, start=1):
                fused[position] = fused.get(position, 0.0) + 1.0 / (self.rank_constant + rank)
        best = sorted(fused, key=lambda position: (-fused[position], position))[:limit]
        return tuple(
            self.documents[position].model_copy(
                update={
                    "score": fused[position],
                    "metadata": {
                        **self.documents[position].metadata,
                        "retrieval": {"bm25": lexical.get(position), "cosine": semantic.get(position)},
                    },
                }
            )
            for position in best
        )

    async def aretrieve(self, query: str, *, limit: int = 5) -> Sequence[Document]:
        return await asyncio.to_thread(self.retrieve, query, limit=limit)


class _Bm25:
    """bm25s over Demur's words (Lucene's variant, k1 = 1.5, b = .75), English stop words left out."""

    def __init__(self, texts: Sequence[str]) -> None:
        import bm25s
        from bm25s.stopwords import STOPWORDS_EN

        self._stopwords = frozenset(STOPWORDS_EN)
        corpus = [self._terms(text) for text in texts]
        self._vocabulary = frozenset(term for terms in corpus for term in terms)
        self._index: Any = None
        if self._vocabulary:  # bm25s cannot index a corpus without a single word
            self._index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
            self._index.index(corpus, show_progress=False)

    def best(self, query: str, depth: int) -> dict[int, float]:
        """Score by position, best first, of the documents that share a word with the query."""
        terms = [term for term in self._terms(query) if term in self._vocabulary]
        if not terms:
            return {}
        scores: NDArray[np.float32] = self._index.get_scores(terms)
        order = np.lexsort((np.arange(len(scores)), -scores))[:depth]
        return {int(position): float(scores[position]) for position in order if scores[position] > 0.0}

    def _terms(self, text: str) -> list[str]:
        return [word for word in words(text) if word not in self._stopwords]


def read_documents(path: str | Path) -> tuple[Document, ...]:
    """Documents from JSON lines `{id, text, title?, source?}`; blank lines are passed over.

    Raises:
        BadInput: the file cannot be read, or a line is not such a row or repeats an id; the message names the line.
    """
    try:
        lines = read_named(path, pipes=True).splitlines()
    except OSError as error:
        raise BadInput(f"documents {str(path)!r} cannot be read: {error}") from error
    documents: list[Document] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            document = _parse(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{str(path)!r} line {number}: {error}") from error
        if document.id in seen:
            raise BadInput(f"{str(path)!r} line {number}: id {document.id!r} is that of line {seen[document.id]} too")
        seen[document.id] = number
        documents.append(document)
    return tuple(documents)


def _parse(line: str) -> Document:
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError(f"expected an object {{id, text, title?, source?}}, found {type(row).__name__}")
    id = row.get("id")
    if isinstance(id, bool) or not isinstance(id, str | int) or id == "":
        raise ValueError(f"id {id!r} must be text or a whole number")
    for name in ("text", "title", "source"):
        value = row.get(name, "")
        if not isinstance(value, str):
            raise ValueError(f"{name} must be text, not {type(value).__name__}")
        value.encode()  # a lone surrogate is no text: no model or database takes it
    if not row.get("text", "").strip():
        raise ValueError("text is missing or blank")
    title = row.get("title", "")
    metadata = {"title": title} if title else {}
    return Document(id=str(id), text=row["text"], source=row.get("source", ""), metadata=metadata)


def _searched(document: Document) -> str:
    title = document.metadata.get("title")
    return f"{title}\n{document.text}" if isinstance(title, str) and title else document.text
