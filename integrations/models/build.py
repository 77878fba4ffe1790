"""A model from one word on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.errors import ConfigurationError, MissingExtra
from .recipe import Recipe

if TYPE_CHECKING:
    from ...core.protocols import Model
    from .huggingface.prompt import PromptTemplate


def build_model(
    spec: str,
    *,
    system: str | None = None,
    max_new_tokens: int | None = None,
    prompt_template: PromptTemplate | None = None,
    recipe: Recipe | None = None,
) -> Model:
    """The model that `spec` names.

    Args:
        spec: a folder, a name from the catalogue or a hub id (a local model with a window), or `openai:NAME` or
            `ollama:NAME` (a hosted one, greedy). The same word gives the same fingerprint as `HuggingFaceModel(spec)`
            or `LangChainModel(...)` around the same client.
        system: system text put before every call.
        max_new_tokens: length limit of an answer; None leaves the model's own.
        prompt_template: how calls are written for a model without a chat template, and how documents are.
        recipe: what is said and how answers are found where the arguments above leave it open (`recipe_for`); the same
            recipe gives the same fingerprint.

    Raises:
        ConfigurationError: an unknown provider, or its client cannot be built (no key, say).
        MissingExtra: the provider's package is not installed.
        ModelError: no such local model.
    """
    if not spec.strip():
        raise ConfigurationError("the model has no name; give a folder, a hub id, openai:NAME or ollama:NAME")
    if max_new_tokens is not None and max_new_tokens < 1:
        raise ConfigurationError(f"max_new_tokens={max_new_tokens} must be at least 1")
    provider, colon, name = spec.partition(":")
    if colon and not Path(spec).expanduser().exists():
        if provider not in _PROVIDERS:
            raise ConfigurationError(
                f"model {spec!r}: there is no provider {provider!r}; use {', '.join(f'{p}:NAME' for p in _PROVIDERS)}, "
                "or the name or folder of a local model"
            )
        if not name:
            raise ConfigurationError(f"model {spec!r} names no model; write {provider}:NAME")
        wanted = recipe or Recipe()
        limit = max_new_tokens or wanted.max_new_tokens
        return _hosted(provider, name, system or wanted.system, limit, prompt_template or wanted.examples)
    return _local(spec, system, max_new_tokens, prompt_template, recipe or Recipe())


def _local(
    spec: str, system: str | None, max_new_tokens: int | None, template: PromptTemplate | None, recipe: Recipe
) -> Model:
    from .huggingface.model import HuggingFaceModel

    options: dict[str, Any] = {"answer": recipe.answer}
    limit = max_new_tokens or recipe.max_new_tokens
    if limit is not None:
        options["max_new_tokens"] = limit
    if system is None and template is None and recipe.examples is not None:
        return HuggingFaceModel(spec, prompt_template=recipe.examples, chat=False, **options)
    model = HuggingFaceModel(spec, system=system, prompt_template=template, **options)
    # A base model takes instructions for one more example.
    return model.with_system(recipe.system) if system is None and recipe.system and model.chats else model


def _hosted(
    provider: str, name: str, system: str | None, max_new_tokens: int | None, template: PromptTemplate | None
) -> Model:
    from .langchain import LangChainModel

    try:
        client = _PROVIDERS[provider](name, max_new_tokens)
    except MissingExtra:
        raise
    except Exception as error:
        raise ConfigurationError(
            f"the client for {provider}:{name} could not be built: {str(error)[:500] or type(error).__name__}"
        ) from error
    return LangChainModel(client, name=f"{provider}:{name}", system=system, prompt_template=template)


def _openai(name: str, max_new_tokens: int | None) -> Any:
    try:
        from langchain_openai import ChatOpenAI
    except ImportError as error:
        raise MissingExtra("langchain-openai", "openai") from error
    options: dict[str, Any] = {} if max_new_tokens is None else {"max_tokens": max_new_tokens}
    return ChatOpenAI(model=name, temperature=0.0, **options)


def _ollama(name: str, max_new_tokens: int | None) -> Any:
    try:
        from langchain_ollama import ChatOllama
    except ImportError as error:
        raise MissingExtra("langchain-ollama", "ollama") from error
    options: dict[str, Any] = {} if max_new_tokens is None else {"num_predict": max_new_tokens}
    return ChatOllama(model=name, temperature=0.0, **options)


_PROVIDERS: dict[str, Callable[[str, int | None], Any]] = {"openai": _openai, "ollama": _ollama}
