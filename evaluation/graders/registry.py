"""Graders by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any, Protocol

from ...core.errors import ConfigurationError
from ...core.protocols import Grader
from .abstain_ok import AbstainOkGrader
from .alias import AliasGrader
from .bfcl_ast import BfclAstGrader
from .choice import ChoiceGrader
from .llm_judge import LlmJudge
from .number import NumberGrader
from .ste_exact import SteExactGrader


class VersionedGrader(Grader, Protocol):
    """A grader whose `version` changes whenever a grade could change; artefacts and results bind to both."""

    @property
    def version(self) -> str: ...


_GRADERS: dict[str, Callable[..., VersionedGrader]] = {
    grader.name: grader
    for grader in (AliasGrader, NumberGrader, ChoiceGrader, AbstainOkGrader, BfclAstGrader, SteExactGrader, LlmJudge)
}

grader_names: tuple[str, ...] = tuple(_GRADERS)
"""All names, for help texts."""


def get_grader(name: str, **options: Any) -> VersionedGrader:
    """A grader by name, such as `get_grader("abstain_ok", refusal="I do not know")`.

    Raises:
        ConfigurationError: there is no such grader, or it does not take these options.
    """
    if name not in _GRADERS:
        close = difflib.get_close_matches(str(name).lower().replace("-", "_"), _GRADERS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ConfigurationError(f"there is no grader {name!r}{hint} Known graders: {', '.join(_GRADERS)}")
    try:
        return _GRADERS[name](**options)
    except TypeError as error:
        raise ConfigurationError(f"grader {name!r} cannot be built from {sorted(options)}: {error}") from None
