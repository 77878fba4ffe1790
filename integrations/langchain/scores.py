"""The score of a proposed tool call: made once when it is proposed, kept in the state, used when it is carried out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from ...core.call import Call
from ...core.confidence import Confidence
from ...core.evidence import Need
from ...core.protocols import Fingerprint, Generation
from ...core.record import content_hash
from ...core.response import Response
from ...core.signal import Signal
from ...core.turn import TurnKind
from ...router.assessor import Assessment
from ...router.scored import ScoredGeneration
from ...router.site import Site

_SIGNALS = TypeAdapter(tuple[Signal, ...])


def digest(name: str, arguments: Mapping[str, Any]) -> str:
    """What the call is, whatever its id: the same call under another id is the same (fault 14)."""
    try:
        return content_hash({"name": name, "arguments": dict(arguments)})
    except (TypeError, ValueError):
        return content_hash({"name": name, "text": repr(arguments)})


@dataclass(frozen=True)
class Proposer:
    """The model that proposed a call, as far as it is known when the call is carried out: it is not asked again."""

    name: str
    print: Fingerprint

    @property
    def provides(self) -> frozenset[Need]:
        return frozenset({Need.TEXT})

    def fingerprint(self) -> Fingerprint:
        return self.print

    def generate(self, call: Call, **_: Any) -> Generation:
        raise NotImplementedError("a proposer is only known by its name")

    async def agenerate(self, call: Call, **_: Any) -> Generation:
        raise NotImplementedError("a proposer is only known by its name")


def score_entry(
    site: Site, response: Response, assessment: Assessment, name: str, arguments: Mapping[str, Any], earlier: Any
) -> dict[str, Any]:
    """What goes into the state under the call's id. Plain values; the evidence as JSON text.

    Args:
        earlier: the entry that stood under this id before: a model may use its ids again in a later turn.
    """
    confidence = assessment.confidence
    model = site.model
    record = {
        "response": response.model_dump(mode="json"),
        "signals": _SIGNALS.dump_python(assessment.signals, mode="json"),
        "confidence": None if confidence is None else confidence.model_dump(mode="json"),
        "why_not": assessment.why_not,
        "not_run": dict(assessment.not_run),
        "model": None if model is None else {"name": model.name, **vars(model.fingerprint())},
    }
    return {
        "confidence": None if confidence is None else float(confidence.value),
        "low": None if confidence is None else float(confidence.interval.low),
        "high": None if confidence is None else float(confidence.interval.high),
        "labels": 0 if confidence is None else int(confidence.labels),
        "name": name,
        "digest": digest(name, arguments),
        "response_id": response.id,
        "nth": 0 if not isinstance(earlier, Mapping) else int(earlier.get("nth", 0)) + 1,
        "record": json.dumps(record, allow_nan=False),
    }


def proposal_of(entry: Any, name: str, arguments: Mapping[str, Any]) -> tuple[ScoredGeneration, Proposer | None] | None:
    """What was made of the call when it was proposed; None where nothing is known, or it was another call."""
    if not isinstance(entry, Mapping) or entry.get("digest") != digest(name, arguments):
        return None
    try:
        record = json.loads(entry["record"])
        confidence = record["confidence"]
        assessment = Assessment(
            _SIGNALS.validate_python(record["signals"]),
            None if confidence is None else Confidence.model_validate_json(json.dumps(confidence)),
            record["why_not"],
            record["not_run"],
            TurnKind.TOOL_CALL,
        )
        response = Response.model_validate_json(json.dumps(record["response"]))
        model = record["model"]
        proposer = None if model is None else Proposer(model["name"], Fingerprint(**model))
    except (TypeError, ValueError, KeyError):
        return None  # a damaged score is no score: the fallback acts (rule 1)
    return ScoredGeneration(response, assessment=assessment), proposer
