"""A result on its way into its text column and back; its value may be of any type (see `stored_value`)."""

from __future__ import annotations

import json
from typing import Any

from .errors import StoreError
from .run import Result
from .stored_value import pack, unpack


def pack_result(result: Result[Any]) -> str:
    """JSON text from which `unpack_result` gives an equal result, its value replaced where JSON cannot hold it."""
    return json.dumps({"value": pack(result.value), "rest": json.loads(result.model_dump_json(exclude={"value"}))})


def unpack_result(text: str) -> Result[Any]:
    """The stored result; `value` is a `NotStored` where the value could not be kept.

    Raises:
        StoreError: the text is damaged.
    """
    try:
        document = json.loads(text)
        rest = Result[Any].model_validate_json(json.dumps({**document["rest"], "value": None}))
        return rest.model_copy(update={"value": unpack(document["value"])})
    except (TypeError, ValueError, KeyError) as error:
        raise StoreError(f"a stored result is damaged: {error}") from error
