"""For the unit tests of people who use Demur: scripted models, a frozen confidence, a router and a queue in memory.

    from demur.testing import FrozenRouter, Reviewer, ScriptedChatModel, ScriptedModel

Nothing here waits, draws at random, needs a key or touches a file. Names are loaded when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .frozen_confidence import FrozenConfidence
    from .frozen_router import FrozenRouter
    from .reviewer import Reviewer
    from .scripted_chat_model import ScriptedChatModel
    from .scripted_model import ScriptedModel

_HOME = {
    "FrozenConfidence": ".frozen_confidence",
    "FrozenRouter": ".frozen_router",
    "Reviewer": ".reviewer",
    "ScriptedChatModel": ".scripted_chat_model",
    "ScriptedModel": ".scripted_model",
}

__all__ = ["FrozenConfidence", "FrozenRouter", "Reviewer", "ScriptedChatModel", "ScriptedModel"]


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'demur.testing' has no attribute {name!r}")
    value = getattr(importlib.import_module(home, __name__), name)
    globals()[name] = value
    return value
