"""How alike two texts are: edit distance, and BERTScore over a small encoder."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.errors import ConfigurationError, ModelError

TokenEncoder = Callable[[Sequence[str]], Sequence[NDArray[np.floating]]]
"""Texts in; for each, in order, one vector a token: (tokens, width), special tokens left out."""


class TextSimilarity(Protocol):
    """Compares texts with one reference; 1 says they are the same.

    Attributes:
        name: stands in the names of signals; lower-case letters, digits and underscores.
        cost_rank: 0 for arithmetic, 1 where a small model is asked.
    """

    name: str
    cost_rank: int

    def similarities(self, texts: Sequence[str], reference: str) -> Sequence[float]:
        """One number a text, in order."""
        ...


class RapidFuzz:
    """Normalised indel similarity, 1 - distance / (sum of lengths), in [0, 1]: rapidfuzz's `ratio` / 100."""

    name = "rapidfuzz"
    cost_rank = 0

    def similarities(self, texts: Sequence[str], reference: str) -> Sequence[float]:
        from rapidfuzz import fuzz

        return [fuzz.ratio(text, reference) / 100.0 for text in texts]


class BertScore:
    """BERTScore F1 (arXiv 1904.09675): every token is matched to the most similar one of the other text.

    Precision is the mean over the text's tokens of the largest cosine with a token of the reference, recall the same
    the other way round, F1 = 2 P R / (P + R); 0 where P or R is not above 0, and for a text without tokens. There is no
    idf weighting and no rescaling by a baseline. MICE (arXiv 2504.20168) takes DeBERTa-xlarge-mnli; a small encoder in
    its place is a deviation.

    Args:
        encoder: such as `transformers_token_encoder(folder)`.
    """

    name = "bertscore"
    cost_rank = 1

    def __init__(self, encoder: TokenEncoder) -> None:
        self.encoder = encoder

    def similarities(self, texts: Sequence[str], reference: str) -> Sequence[float]:
        """F1 of each text.

        Raises:
            ModelError: the encoder's vectors are not finite, have no direction, or disagree in number or width.
        """
        distinct = list(dict.fromkeys((*texts, reference)))
        vectors = self.encoder(distinct)
        if len(vectors) != len(distinct):
            raise ModelError(f"the token encoder gave {len(vectors)} blocks for {len(distinct)} texts")
        units = {text: _unit(block) for text, block in zip(distinct, vectors, strict=True)}
        return [_f1(units[text], units[reference]) for text in texts]


def transformers_token_encoder(folder: str | Path, *, device: str = "cpu", batch: int = 16) -> TransformersTokenEncoder:
    """Token vectors from an encoder in a folder, such as all-MiniLM-L6-v2; opened at the first call.

    Safetensors only, no code from the folder, no network. A sentence-transformers folder holds such an encoder.

    Raises:
        ConfigurationError: the folder holds no safetensors weights, or batch < 1.
    """
    path = Path(folder)
    if not any(path.glob("*.safetensors")):
        raise ConfigurationError(f"{path} holds no .safetensors weights; only these are loaded (nothing is unpickled)")
    if batch < 1:
        raise ConfigurationError(f"batch={batch} must be at least 1")
    return TransformersTokenEncoder(path, device=device, batch=batch)


class TransformersTokenEncoder:
    """A `TokenEncoder`: the last layer's vectors. Made by `transformers_token_encoder`; safe to share between threads.

    Raises:
        ModelError: the folder does not hold an encoder that opens without running foreign code, or a text is longer
            than it takes (nothing is cut silently).
    """

    def __init__(self, folder: Path, *, device: str, batch: int) -> None:
        self.folder = folder
        self.device = device
        self.batch = batch
        self._lock = threading.Lock()
        self._opened: tuple[Any, Any] | None = None

    def __call__(self, texts: Sequence[str]) -> list[NDArray[np.floating]]:
        """(tokens, width) float32 for each text."""
        import torch

        found: list[NDArray[np.floating]] = []
        with self._lock:  # fast tokenizers must not be used by two threads at once
            model, tokenizer = self._opened or self._open()
            for start in range(0, len(texts), self.batch):
                read = tokenizer(
                    list(texts[start : start + self.batch]),
                    padding=True,
                    truncation=False,
                    return_special_tokens_mask=True,
                    return_tensors="pt",
                    verbose=False,
                )
                longest = _longest(model, tokenizer)
                if read["input_ids"].shape[1] > longest:
                    raise ModelError(
                        f"a text has {read['input_ids'].shape[1]} tokens, the encoder takes {longest}; use rapidfuzz "
                        "or token_match for answers that long"
                    )
                content = ~read.pop("special_tokens_mask").bool() & read["attention_mask"].bool()
                with torch.inference_mode():
                    states = model(**read.to(self.device)).last_hidden_state.float().cpu()
                found += [row[kept].numpy() for row, kept in zip(states, content, strict=True)]
        return found

    def _open(self) -> tuple[Any, Any]:
        from safetensors import SafetensorError
        from transformers import AutoModel, AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(self.folder, trust_remote_code=False, local_files_only=True)
            model = AutoModel.from_pretrained(
                self.folder, dtype="float32", use_safetensors=True, trust_remote_code=False, local_files_only=True
            )
        except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
            raise ModelError(f"{self.folder} could not be loaded as an encoder: {error}") from error
        self._opened = model.to(self.device).eval(), tokenizer
        return self._opened


def _longest(model: Any, tokenizer: Any) -> int:
    """Tokens that the encoder can take."""
    positions = getattr(model.config, "max_position_embeddings", None)
    limits = [int(tokenizer.model_max_length)]
    if isinstance(positions, int) and positions > 0:
        # RoBERTa's positions begin behind that of the padding token.
        behind = getattr(getattr(model, "embeddings", None), "padding_idx", None)
        limits.append(positions if behind is None else positions - behind - 1)
    return min(limits)


def _unit(block: NDArray[np.floating]) -> NDArray[np.float64]:
    rows = np.asarray(block, dtype=np.float64)
    if rows.ndim != 2:
        raise ModelError(f"the token encoder gave shape {rows.shape}; (tokens, width) is needed")
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not (np.isfinite(lengths) & (lengths > 0.0)).all():
        raise ModelError("the token encoder gave a vector that is not finite or all zeros")
    return rows / lengths


def _f1(text: NDArray[np.float64], reference: NDArray[np.float64]) -> float:
    if len(text) == 0 or len(reference) == 0:
        return 0.0
    if text.shape[1] != reference.shape[1]:
        raise ModelError(f"the token encoder gave widths {text.shape[1]} and {reference.shape[1]}")
    cosines = np.clip(text @ reference.T, -1.0, 1.0)
    precision, recall = float(cosines.max(axis=1).mean()), float(cosines.max(axis=0).mean())
    if precision <= 0.0 or recall <= 0.0:
        return 0.0
    return 2.0 * precision * recall / (precision + recall)
