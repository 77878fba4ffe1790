"""Runs, rounds and decisions as rows of their tables, and back."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Row

from ..core.call import Call, CallKind
from ..core.confidence import Confidence
from ..core.decision import Decision, Mode
from ..core.errors import StoreError
from ..core.record import content_hash
from ..core.response import Response
from ..core.run import Round, Run, RunState
from ..core.signal import Signal
from ..core.stored_cost import cost_columns, cost_of
from ..core.stored_result import pack_result, unpack_result

_SIGNALS = TypeAdapter(tuple[Signal, ...])
_NOT_RUN = TypeAdapter(dict[str, str])


def substance(call: Call) -> str:
    """What is asked, whoever asks and whenever: the same under one key, and the same again where it was rejected.

    Of a tool call what was said before does not count. Numbers count as JSON's do: 3 and 3.0 are one, 1, true and "1"
    are three.
    """
    parts = {"kind", "tool_name", "arguments", "task"} if call.kind is CallKind.TOOL else {"kind", "messages", "task"}
    return content_hash(_plain_numbers(call.model_dump(mode="json", include=parts)))


def _plain_numbers(value: Any) -> Any:
    """The value with whole floats as integers: a model writes 40 now and 40.0 then."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _plain_numbers(each) for name, each in value.items()}
    return [_plain_numbers(each) for each in value] if isinstance(value, list) else value


def run_row(run: Run, mode: Mode, owner: str, now: datetime) -> dict[str, Any]:
    """The column values of a run (its rounds have rows of their own)."""
    call = run.call
    return {
        "id": run.id,
        "call_id": call.id,
        "kind": call.kind.value,
        "task": call.task,
        "tenant": call.tenant,
        "conversation_id": call.conversation_id,
        "idempotency_key": call.idempotency_key,
        "mode": mode.value,
        "state": run.state.value,
        "call": call.model_dump_json(),
        "substance": substance(call),
        "parent_id": run.parent_id,
        "result": None if run.result is None else pack_result(run.result),
        "error": run.error,
        "owner": owner,
        "created_at": run.created_at,
        "updated_at": now,
        **cost_columns(run.cost),
    }


def round_row(run_id: str, round_: Round, now: datetime) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "number": round_.number,
        "arm": round_.arm,
        "response_id": None if round_.response is None else round_.response.id,
        "response": None if round_.response is None else round_.response.model_dump_json(),
        "signals": _SIGNALS.dump_json(round_.signals).decode(),
        "confidence": None if round_.confidence is None else round_.confidence.model_dump_json(),
        "fused": _fused(round_.confidence),
        "calibrator": _head_of(round_.confidence),
        "turn": None if round_.turn is None else round_.turn.value,
        "fingerprint": round_.fingerprint,
        "not_run": _NOT_RUN.dump_json(round_.not_run).decode(),
        "created_at": now,
    }


def _fused(confidence: Confidence | None) -> float | None:
    """What the fitted head alone said."""
    if confidence is None or confidence.is_prior:
        return None
    return confidence.value if confidence.fused is None else confidence.fused


def _head_of(confidence: Confidence | None) -> str | None:
    return None if confidence is None or confidence.is_prior else confidence.calibrator[:200]


def decision_row(decision: Decision, task: str, tenant: str) -> dict[str, Any]:
    return {
        "id": decision.id,
        "run_id": decision.run_id,
        "round": decision.round,
        "stage": decision.stage.value,
        "task": task,
        "tenant": tenant,
        "route": decision.route.value,
        "probability": None if decision.confidence is None else decision.confidence.value,
        "fallback": decision.fallback,
        "label_propensity": decision.label_propensity,
        "sampled_for_label": decision.sampled_for_label,
        "artefact_id": decision.artefact_id,
        "policy_id": decision.policy_id,
        "decision": decision.model_dump_json(),
        "decided_at": decision.decided_at,
    }


def run_of(row: Row[Any], round_rows: Iterable[Row[Any]]) -> Run:
    """A run from its row and the rows of its rounds (each joined with its decision), in order.

    Raises:
        StoreError: a row is damaged.
    """
    try:
        return Run(
            id=row.id,
            call=Call.model_validate_json(row.call),
            parent_id=row.parent_id,
            state=RunState(row.state),
            rounds=tuple(_round_of(each) for each in round_rows),
            result=None if row.result is None else unpack_result(row.result),
            cost=cost_of(row),
            error=row.error,
            created_at=row.created_at,
        )
    except ValidationError as error:
        raise StoreError(f"run {row.id!r} is damaged: {error}") from error


def _round_of(row: Row[Any]) -> Round:
    return Round(
        number=row.number,
        arm=row.arm,
        response=None if row.response is None else Response.model_validate_json(row.response),
        turn=row.turn,
        fingerprint=row.fingerprint,
        signals=_SIGNALS.validate_json(row.signals),
        confidence=None if row.confidence is None else Confidence.model_validate_json(row.confidence),
        decision=Decision.model_validate_json(row.decision),
        not_run=_NOT_RUN.validate_json(row.not_run),
    )
