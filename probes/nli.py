"""Natural language inference by a sequence-classification model from a folder."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.errors import ConfigurationError, ModelError

Pair = tuple[str, str]
"""Premise and hypothesis."""

Nli = Callable[[Sequence[Pair]], Sequence[Sequence[float]]]
"""Pairs in; for each, in order, the probabilities that the premise entails the hypothesis, says nothing about it
(neutral), and contradicts it."""

_LABELS = ("entail", "neutral", "contradict")
_LEAST_PREMISE = 16
"""Tokens that the premise must have room for."""


def transformers_nli(
    folder: str | Path, *, device: str = "cpu", max_length: int = 512, overlap: int = 64, batch: int = 16
) -> TransformersNli:
    """Open a model folder: safetensors only, no code from the folder, no network.

    The order of the labels is read from the model's `config.id2label`; nothing is assumed about it.

    Args:
        max_length: tokens of premise and hypothesis together; what the model itself can take is never exceeded.
        overlap: tokens that two windows of a long premise share.
        batch: windows in one forward pass.

    Raises:
        ConfigurationError: the labels are not entailment, neutral and contradiction, or a setting cannot work.
        ModelError: the folder does not hold a classifier that opens without running foreign code, or some of its
            weights are missing and would have been drawn at random.
    """
    from safetensors import SafetensorError
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    path = Path(folder)
    if not any(path.glob("*.safetensors")):
        raise ModelError(f"{path} holds no .safetensors weights; only these are loaded (nothing is unpickled)")
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False, local_files_only=True)
        model, told = AutoModelForSequenceClassification.from_pretrained(
            path,
            dtype="float32",
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
        )
        model = model.to(device)
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
        raise ModelError(f"{path} could not be loaded as a sequence-classification model: {error}") from error
    lost = sorted(str(key) for kind in ("missing_keys", "mismatched_keys") for key in told.get(kind, ()))
    if lost:
        raise ModelError(
            f"{path} lacks weights of its classifier ({', '.join(lost[:3])}), which would be drawn at random; use a "
            "model that was fine-tuned for natural language inference"
        )
    return TransformersNli(model.eval(), tokenizer, max_length=max_length, overlap=overlap, batch=batch)


class TransformersNli:
    """An `Nli` over a classifier and its tokenizer; safe to call from several threads, one at a time works.

    A premise that does not fit is read in overlapping windows, and the window that says most (the least neutral one)
    speaks for it [proposal]: a passage that contradicts in one sentence contradicts. The hypothesis is never cut.

    Raises:
        ConfigurationError: see `transformers_nli`.
    """

    def __init__(
        self, model: Any, tokenizer: Any, *, max_length: int = 512, overlap: int = 64, batch: int = 16
    ) -> None:
        if batch < 1 or overlap < 0:
            raise ConfigurationError(f"batch={batch} must be at least 1, and overlap={overlap} not negative")
        self.order = label_order(model.config.id2label)
        self.max_length = min(max_length, _longest(model, tokenizer))
        self.special = int(tokenizer.num_special_tokens_to_add(pair=True))
        if self.max_length < self.special + 1 + _LEAST_PREMISE:
            raise ConfigurationError(f"max_length={self.max_length} leaves no room for a premise and a hypothesis")
        if tokenizer.pad_token_id is None:
            raise ConfigurationError("the tokenizer has no padding token, so windows cannot be put in one batch")
        self.overlap = overlap
        self.batch = batch
        self._model = model
        self._tokenizer = tokenizer
        # A fast tokenizer keeps its truncation settings inside: two threads would meet in them.
        self._lock = threading.Lock()

    def __call__(self, pairs: Sequence[Pair]) -> list[tuple[float, float, float]]:
        """(entailment, neutral, contradiction) of each pair.

        Raises:
            ModelError: a hypothesis is too long to be read whole, or the model gave a number that is not finite.
        """
        with self._lock:
            windows = [(place, window) for place, pair in enumerate(pairs) for window in self._windows(*pair)]
            said = self._classified([window for _, window in windows])
        found: dict[int, tuple[float, float, float]] = {}
        for (place, _), triple in zip(windows, said, strict=True):
            if place not in found or triple[1] < found[place][1]:
                found[place] = triple
        return [found[place] for place in range(len(pairs))]

    def _windows(self, premise: str, hypothesis: str) -> list[dict[str, list[int]]]:
        asked = len(self._tokenizer(hypothesis, add_special_tokens=False, verbose=False)["input_ids"])
        room = self.max_length - self.special - asked
        if room < _LEAST_PREMISE:
            raise ModelError(
                f"the hypothesis has {asked} tokens, which leaves {room} of {self.max_length} for the premise; "
                f"{_LEAST_PREMISE} are needed"
            )
        read = self._tokenizer(
            premise,
            hypothesis,
            truncation="only_first",
            max_length=self.max_length,
            stride=min(self.overlap, room // 2),
            return_overflowing_tokens=True,
            verbose=False,
        )
        names = [name for name in self._tokenizer.model_input_names if name in read]
        return [{name: read[name][row] for name in names} for row in range(len(read["input_ids"]))]

    def _classified(self, windows: Sequence[Mapping[str, list[int]]]) -> list[tuple[float, float, float]]:
        """Alike lengths go together, so that little is padded."""
        import torch

        by_length = sorted(range(len(windows)), key=lambda place: len(windows[place]["input_ids"]))
        found: dict[int, tuple[float, float, float]] = {}
        for start in range(0, len(by_length), self.batch):
            places = by_length[start : start + self.batch]
            padded = self._tokenizer.pad([windows[place] for place in places], return_tensors="pt", verbose=False)
            with torch.inference_mode():
                logits = self._model(**padded.to(self._model.device)).logits
            if not bool(torch.isfinite(logits).all()):
                raise ModelError("the inference model gave logits that are not finite")
            rows = torch.softmax(logits.double(), dim=-1)[:, list(self.order)].tolist()
            found |= {place: (row[0], row[1], row[2]) for place, row in zip(places, rows, strict=True)}
        return [found[place] for place in range(len(windows))]


def label_order(id2label: Mapping[int, str]) -> tuple[int, int, int]:
    """The class numbers of entailment, neutral and contradiction.

    Raises:
        ConfigurationError: not exactly one class of each.
    """
    named = {int(number): str(label).strip().casefold() for number, label in id2label.items()}
    found = [[number for number, label in named.items() if label.startswith(stem)] for stem in _LABELS]
    if len(named) != 3 or any(len(each) != 1 for each in found):
        raise ConfigurationError(
            f"the model's labels are {[str(label)[:40] for label in list(id2label.values())[:10]]}; they must be "
            "entailment, neutral and contradiction in some order. Set `id2label` in the model's config.json to what "
            "its classes mean"
        )
    return found[0][0], found[1][0], found[2][0]


def _longest(model: Any, tokenizer: Any) -> int:
    """Tokens that the model can take."""
    positions = getattr(model.config, "max_position_embeddings", None)
    limits = [int(tokenizer.model_max_length)]
    if isinstance(positions, int) and positions > 0:
        # RoBERTa's positions begin behind that of the padding token.
        behind = getattr(getattr(model.base_model, "embeddings", None), "padding_idx", None)
        limits.append(positions if behind is None else positions - behind - 1)
    return min(limits)
