"""Models of this folder: small, random, made in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from demur.integrations.models.huggingface.decoding import Decoding
from demur.integrations.models.huggingface.model import HuggingFaceModel
from demur.integrations.models.huggingface.prompt import PromptTemplate

Make = Callable[..., HuggingFaceModel]


@pytest.fixture(scope="session")
def hugging(tiny_model: Any) -> Make:
    """`hugging(family, max_new_tokens=6, stop=(), **config)`: a model over random weights with a short prompt."""

    def make(
        family: str = "llama",
        *,
        max_new_tokens: int = 6,
        stop: tuple[str, ...] = (),
        prefix: str = "",
        assistant_model: Any = None,
        **config: Any,
    ) -> HuggingFaceModel:
        model, tokenizer = tiny_model(family, **config)
        return HuggingFaceModel.from_objects(
            model,
            tokenizer,
            name=family,
            decoding=Decoding(max_new_tokens=max_new_tokens, stop=stop),
            prompt_template=PromptTemplate(prefix=prefix),
            assistant_model=assistant_model,
        )

    return make
