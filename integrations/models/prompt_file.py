"""A prompt template from a TOML file, for models that have no chat template of their own."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path

from ...core.errors import BadInput, ConfigurationError
from ...core.files import read_named
from .huggingface.prompt import PromptTemplate


def read_prompt(path: Path) -> PromptTemplate:
    """The template whose parts the file names (prefix, question, turn, with_documents, chat_documents); others keep
    their defaults.

    Raises:
        BadInput: the file cannot be read, names another part, or a part lacks its fields.
    """
    try:
        given = tomllib.loads(read_named(path, largest=1 << 20, pipes=True).decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # not UTF-8, not TOML, numbers of thousands of digits
        raise BadInput(f"{path} cannot be read as TOML: {error}") from error
    known = [part.name for part in fields(PromptTemplate)]
    for name, text in given.items():
        if name not in known:
            raise BadInput(f"{path}: there is no part {name!r} of a prompt; known are {', '.join(known)}")
        if not isinstance(text, str):
            raise BadInput(f"{path}: {name} is {text!r}, not a text")
    try:
        return PromptTemplate(**given)
    except ConfigurationError as error:
        raise BadInput(f"{path}: {error}") from error
