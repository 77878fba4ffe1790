"""LangChainRetriever: LangChain's documents as Demur's, its failures as typed errors."""

from __future__ import annotations

import asyncio
from datetime import date

import pytest
from langchain_core.documents import Document as LangChainDocument
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import Field

from demur.core.errors import BadInput, RetrievalError
from demur.core.protocols import Retriever
from demur.integrations.retrieval.langchain import LangChainRetriever


class FakeRetriever(BaseRetriever):
    """Gives back what it was given; `asked` says by which way."""

    answer: list = Field(default_factory=list)
    error: Exception | None = None
    asked: list = Field(default_factory=list)

    def _get_relevant_documents(self, query, *, run_manager):
        self.asked.append(("sync", query))
        if self.error:
            raise self.error
        return self.answer

    async def _aget_relevant_documents(self, query, *, run_manager):
        self.asked.append(("async", query))
        if self.error:
            raise self.error
        return self.answer


def test_documents_are_turned_into_demurs():
    fake = FakeRetriever(
        answer=[
            LangChainDocument(id="x", page_content="one", metadata={"source": "a.txt", "relevance_score": 0.5}),
            LangChainDocument(page_content="two", metadata={"id": 7, "score": 0.1, "day": date(2026, 1, 2)}),
            LangChainDocument(page_content="three", metadata={"relevance_score": float("nan"), "tags": ["a", 1]}),
        ]
    )
    retriever = LangChainRetriever(fake)
    assert isinstance(retriever, Retriever)
    one, two, three = retriever.retrieve("q")
    assert (one.id, one.text, one.source, one.score) == ("x", "one", "a.txt", 0.5)
    assert (two.id, two.source, two.score, two.metadata["day"]) == ("7", "", None, "2026-01-02")
    assert three.score is None and three.metadata == {"relevance_score": None, "tags": ["a", 1]}
    assert three.id == retriever.retrieve("q")[2].id and len(three.id) == 32


def test_limit_is_applied():
    fake = FakeRetriever(answer=[LangChainDocument(id=str(i), page_content="t") for i in range(9)])
    retriever = LangChainRetriever(fake)
    assert [document.id for document in retriever.retrieve("q", limit=2)] == ["0", "1"]
    assert len(retriever.retrieve("q")) == 5
    assert len(retriever.retrieve("q", limit=100)) == 9
    with pytest.raises(BadInput, match="limit 0"):
        retriever.retrieve("q", limit=0)


async def test_asynchronous_is_the_same_and_uses_ainvoke():
    fake = FakeRetriever(answer=[LangChainDocument(id="x", page_content="one")], asked=[])
    retriever = LangChainRetriever(fake)
    assert await retriever.aretrieve("q", limit=1) == retriever.retrieve("q", limit=1)
    assert [way for way, _ in fake.asked] == ["async", "sync"]
    with pytest.raises(BadInput, match="limit 0"):
        await retriever.aretrieve("q", limit=0)


async def test_blank_queries_are_not_sent():
    fake = FakeRetriever(asked=[])
    assert LangChainRetriever(fake).retrieve("  ") == ()
    assert await LangChainRetriever(fake).aretrieve("") == ()
    assert fake.asked == []


async def test_failures_are_typed_and_keep_their_cause():
    error = ConnectionError("no route to host")
    retriever = LangChainRetriever(FakeRetriever(error=error))
    with pytest.raises(RetrievalError, match="FakeRetriever failed: ConnectionError: no route") as caught:
        retriever.retrieve("q")
    assert caught.value.__cause__ is error
    with pytest.raises(RetrievalError, match="no route"):
        await retriever.aretrieve("q")


@pytest.mark.parametrize("answer", [["text"], [None], None, 5])
def test_answers_that_are_no_documents_are_typed_errors(monkeypatch, answer):
    fake = FakeRetriever()
    monkeypatch.setattr(FakeRetriever, "invoke", lambda self, query: answer)
    with pytest.raises(RetrievalError, match="not a document"):
        LangChainRetriever(fake).retrieve("q")


async def test_cancelling_is_not_swallowed(monkeypatch):
    async def cancelled(self, query):
        raise asyncio.CancelledError

    monkeypatch.setattr(FakeRetriever, "ainvoke", cancelled)
    with pytest.raises(asyncio.CancelledError):
        await LangChainRetriever(FakeRetriever()).aretrieve("q")


def test_a_real_vector_store():
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=16))
    store.add_texts(["one", "two", "three"], ids=["1", "2", "3"])
    retriever = LangChainRetriever(store.as_retriever(search_kwargs={"k": 3}))
    assert retriever.retrieve("two", limit=1)[0].id == "2"
