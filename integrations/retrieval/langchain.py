"""Any LangChain retriever as Demur's."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue, TypeAdapter, ValidationError

from ...core.errors import BadInput, RetrievalError
from ...core.evidence import Document
from ...core.record import JsonObject, content_hash
from ...core.text import limited, said

if TYPE_CHECKING:
    from langchain_core.retrievers import BaseRetriever

_JSON: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(JsonObject)
_LONGEST_VALUE = 10_000


class LangChainRetriever:
    """Wraps a LangChain `BaseRetriever`, which is not changed.

    A document's id is its own, else `metadata["id"]`, else a hash of its text; its source is `metadata["source"]`;
    its score is `metadata["relevance_score"]`, where rerankers write it (`score` may be a distance and is not
    taken). Metadata that is not JSON becomes text.
    """

    def __init__(self, retriever: BaseRetriever) -> None:
        self.retriever = retriever

    def retrieve(self, query: str, *, limit: int = 5) -> Sequence[Document]:
        """At most `limit` documents in the retriever's order; none for a blank query.

        Raises:
            BadInput: `limit` is below 1.
            RetrievalError: the retriever failed or gave something that is not a document.
        """
        if _asks_nothing(query, limit):
            return ()
        try:
            found = self.retriever.invoke(query)
        except Exception as error:
            raise self._failed(error) from error
        return self._documents(found, limit)

    async def aretrieve(self, query: str, *, limit: int = 5) -> Sequence[Document]:
        if _asks_nothing(query, limit):
            return ()
        try:
            found = await self.retriever.ainvoke(query)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            raise self._failed(error) from error
        return self._documents(found, limit)

    def _failed(self, error: Exception) -> RetrievalError:
        return RetrievalError(f"the retriever {type(self.retriever).__name__} failed: {said(error)}")

    def _documents(self, found: Any, limit: int) -> tuple[Document, ...]:
        try:
            return tuple(_document(document) for document in list(found)[:limit])
        except (AttributeError, TypeError, ValueError) as error:
            name = type(self.retriever).__name__
            raise RetrievalError(f"the retriever {name} gave something that is not a document: {error}") from error


def _asks_nothing(query: str, limit: int) -> bool:
    if limit < 1:
        raise BadInput(f"limit {limit} must be at least 1")
    return not query.strip()


def _document(document: Any) -> Document:
    text = document.page_content
    metadata = {str(key): _json(value) for key, value in dict(document.metadata).items()}
    id = document.id or metadata.get("id")
    score = metadata.get("relevance_score")
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        score = None
    return Document(
        id=str(id) if id is not None and id != "" else content_hash(text)[:32],
        text=text,
        source=str(metadata.get("source") or ""),
        score=score,
        metadata=metadata,
    )


def _json(value: Any) -> JsonValue:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    try:
        return _JSON.validate_python({"value": value})["value"]
    except (ValidationError, RecursionError):
        return limited(str(value), _LONGEST_VALUE)
