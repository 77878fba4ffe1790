"""Tool calls of STE: the call and its arguments equal the gold call as JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.errors import BadInput
from .gold import check_answers, check_response, row_name
from .strict_json import NotJson, fenced, read_json, read_prefix, same_json

_ACTION = re.compile(
    r"^[ \t]*Action:[ \t]*(?P<action>[^\n]+)\n\s*Action Input:[ \t]*(?P<input>.*)",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
_TAGGED = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_FORMS = (("action", "action_input"), ("name", "arguments"))
_AFTER_INPUT = re.compile(r"\s*(?:Observation:|Thought:|Action:|```|\Z)", re.IGNORECASE)


class SteExactGrader:
    """Right iff action and parsed action input equal the gold call (STE's exact match, arXiv 2403.04746, 2504.20168).

    Reads `{"action": ..., "action_input": ...}` or, as models write that are offered tools,
    `{"name": ..., "arguments": ...}`, alone, as the only fenced block or the only `<tool_call>`, or the first
    `Action: ... / Action Input: ...` pair of a ReAct trace. The input may be an object or a string that holds one. Keys
    in any order; 1 equals 1.0; true, "1" and 1 all differ; a missing argument is wrong even where it has a default.
    """

    name = "ste_exact"
    version = "2"

    def grade(self, response: str, answers: Sequence[str], row: Mapping[str, object]) -> bool:
        """Compare.

        Raises:
            BadInput: no gold call, one that is not such JSON, or a response that is not a string.
        """
        gold = [self._gold(answer, row) for answer in check_answers(answers, row, grader=self.name)]
        call = _read_call(check_response(response, row))
        return call is not None and any(call[0] == name and same_json(call[1], given) for name, given in gold)

    def _gold(self, answer: str, row: Mapping[str, object]) -> tuple[str, Any]:
        call = _from_object(answer)
        if call is None:
            raise BadInput(
                f"{row_name(row)}: gold answer {answer[:80]!r} is not JSON with the keys action and action_input"
            )
        return call


def _read_call(response: str) -> tuple[str, Any] | None:
    response = response.rpartition("</think>")[2]
    call = _from_object(response)
    if call is not None:
        return call
    blocks = _TAGGED.findall(response) or fenced(response)
    if len(blocks) == 1 and (call := _from_object(blocks[0])) is not None:
        return call
    match = _ACTION.search(response)
    if match is None:
        return None
    try:
        given, rest = read_prefix(match["input"])
    except NotJson:
        return None
    return (match["action"].strip(), _unwrapped(given)) if _AFTER_INPUT.match(rest) else None


def _from_object(text: str) -> tuple[str, Any] | None:
    try:
        value = read_json(text)
    except NotJson:
        return None
    if (
        not isinstance(value, dict)
        or (keys := next((keys for keys in _FORMS if value.keys() == set(keys)), None)) is None
        or not isinstance(value[keys[0]], str)
    ):
        return None
    return value[keys[0]].strip(), _unwrapped(value[keys[1]])


def _unwrapped(given: Any) -> Any:
    """STE writes the input as a string that holds JSON."""
    if isinstance(given, str):
        try:
            return read_json(given)
        except NotJson:
            return given
    return given
