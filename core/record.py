"""The frozen base that everything which is stored shares."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, JsonValue
from pydantic_core import from_json


class Record(BaseModel):
    """An immutable, validated value that survives JSON unchanged.

    NaN and infinities become null on the way to storage: SQL's JSON knows neither.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="null", protected_namespaces=())


def new_id(prefix: str) -> str:
    """A fresh random identifier such as `run_8c1f…` (122 random bits)."""
    return f"{prefix}_{uuid.uuid4().hex}"


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces, so that equal values give equal text.

    Raises:
        TypeError: the value holds something JSON cannot express.
        ValueError: it holds NaN or an infinity.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def content_hash(value: Any) -> str:
    """SHA-256 (hex) of the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def _comes_back(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Refuse what would be stored and never read again, or read as something else."""
    try:
        # A few levels more: the value is stored inside other records.
        from_json(f"[[[[[{canonical_json(value)}]]]]]".encode())
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"not JSON that can be stored ({type(error).__name__}: {str(error)[:200]}); NaN, infinities, lone "
            "surrogates, integers of thousands of digits and values nested hundreds deep go in as text"
        ) from error
    return value


JsonObject = Annotated[dict[str, JsonValue], AfterValidator(_comes_back)]
"""A JSON object that survives storage unchanged."""
