"""Demur: middleware that gives LLM agents the judgement to say "I am not sure".

It wraps model and tool calls, computes a calibrated confidence, and routes: answer, retrieve, escalate to a larger
model, defer to a human, or abstain. Names are loaded when first used: `import demur` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .core.call import Call, Message, SideEffects
    from .core.confidence import Confidence, Interval, Probability
    from .core.decision import Decision, Mode, Route
    from .core.errors import (
        Abstained,
        ArtefactMismatch,
        BadInput,
        CallFailed,
        ConfigurationError,
        Deferred,
        DemurError,
        ModelError,
        NotEnoughLabels,
        Refused,
        StillWaiting,
        StoreError,
    )
    from .core.outcome import Outcome
    from .core.response import Cost, Response, TokenTrace
    from .core.run import Result, Run
    from .core.utility import Utility
    from .integrations.langchain.chat_model import LocalChatModel
    from .integrations.langchain.middleware import DemurMiddleware
    from .integrations.models.function import FunctionModel
    from .integrations.models.huggingface.model import HuggingFaceModel
    from .integrations.models.langchain import LangChainModel
    from .integrations.retrieval.hybrid import HybridRetriever
    from .integrations.router import Router
    from .policies.costs import Costs
    from .policies.policy import CostPolicy
    from .probes.artefact import Artefact
    from .review.queue import ReviewQueue
    from .router.settings import Settings
    from .router.site import Tool

__version__ = "0.1.0"

_HOME = {
    "Abstained": ".core.errors",
    "Artefact": ".probes.artefact",
    "ArtefactMismatch": ".core.errors",
    "BadInput": ".core.errors",
    "Call": ".core.call",
    "CallFailed": ".core.errors",
    "Confidence": ".core.confidence",
    "ConfigurationError": ".core.errors",
    "Cost": ".core.response",
    "CostPolicy": ".policies.policy",
    "Costs": ".policies.costs",
    "Decision": ".core.decision",
    "Deferred": ".core.errors",
    "DemurError": ".core.errors",
    "DemurMiddleware": ".integrations.langchain.middleware",
    "FunctionModel": ".integrations.models.function",
    "HuggingFaceModel": ".integrations.models.huggingface.model",
    "HybridRetriever": ".integrations.retrieval.hybrid",
    "Interval": ".core.confidence",
    "LangChainModel": ".integrations.models.langchain",
    "LocalChatModel": ".integrations.langchain.chat_model",
    "Message": ".core.call",
    "Mode": ".core.decision",
    "ModelError": ".core.errors",
    "NotEnoughLabels": ".core.errors",
    "Outcome": ".core.outcome",
    "Probability": ".core.confidence",
    "Refused": ".core.errors",
    "Response": ".core.response",
    "Result": ".core.run",
    "ReviewQueue": ".review.queue",
    "Route": ".core.decision",
    "Router": ".integrations.router",
    "Run": ".core.run",
    "Settings": ".router.settings",
    "SideEffects": ".core.call",
    "StillWaiting": ".core.errors",
    "StoreError": ".core.errors",
    "TokenTrace": ".core.response",
    "Tool": ".router.site",
    "Utility": ".core.utility",
}

__all__ = [
    "Abstained",
    "Artefact",
    "ArtefactMismatch",
    "BadInput",
    "Call",
    "CallFailed",
    "Confidence",
    "ConfigurationError",
    "Cost",
    "CostPolicy",
    "Costs",
    "Decision",
    "Deferred",
    "DemurError",
    "DemurMiddleware",
    "FunctionModel",
    "HuggingFaceModel",
    "HybridRetriever",
    "Interval",
    "LangChainModel",
    "LocalChatModel",
    "Message",
    "Mode",
    "ModelError",
    "NotEnoughLabels",
    "Outcome",
    "Probability",
    "Refused",
    "Response",
    "Result",
    "ReviewQueue",
    "Route",
    "Router",
    "Run",
    "Settings",
    "SideEffects",
    "StillWaiting",
    "StoreError",
    "TokenTrace",
    "Tool",
    "Utility",
]


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'demur' has no attribute {name!r}")
    value = getattr(importlib.import_module(home, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
