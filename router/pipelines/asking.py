"""From a row to what a model is asked: the question with its choices, passages and tools."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.call import Call
from ...core.errors import BadInput
from ...core.evidence import Document
from .rows import QuestionRow

LETTERS = "ABCDEFGHIJ"
OTHER_TOOLS = 1
"""Tools offered beside the wanted one where a row names only that: a call with one tool on offer is no choice."""

_TYPES = {
    "dict": "object", "float": "number", "tuple": "array", "list": "array", "int": "integer", "bool": "boolean",
    "str": "string", "any": "string", "double": "number", "enum": "string", "date": "string", "time": "string",
}  # fmt: skip
_ARGUMENTS = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_ARGUMENT = re.compile(r'"([^"]+)"\s*:\s*([A-Za-z_]+)')


@dataclass(frozen=True)
class Asked:
    """What one row puts to a model."""

    call: Call
    documents: tuple[Document, ...] = ()

    @property
    def length(self) -> int:
        """Characters shown beside the question."""
        return sum(len(document.text) for document in self.documents) + sum(len(str(tool)) for tool in self.call.tools)


def asked_of(rows: Sequence[QuestionRow], passages: Mapping[str, str] | None = None) -> list[Asked]:
    """What every row asks.

    A row may carry, beside its question: `choices` (written out with letters); `context` (a text, or a list of texts or
    {title, text}) or `meta.passage_id` (looked up in `passages`): quoted as passages; `meta.functions` (BFCL) or
    `meta.gold_api` with `meta.api_description` (STE): offered as tools, STE's with another API of the same rows.

    Args:
        passages: text by id.

    Raises:
        BadInput: choices, context or tools cannot be read, or a passage is not there; the message names the row.
    """
    apis = _apis(rows)
    return [_asked(row, passages or {}, apis) for row in rows]


def _asked(row: QuestionRow, passages: Mapping[str, str], apis: Mapping[str, dict[str, Any]]) -> Asked:
    extra = row.model_extra or {}
    meta = extra.get("meta")
    meta = meta if isinstance(meta, Mapping) else {}
    question = row.question
    if extra.get("choices"):
        question = _with_choices(row, extra["choices"])
    tools: tuple[dict[str, Any], ...] = ()
    if meta.get("functions"):
        tools = tuple(_function(row, each) for each in meta["functions"])
    elif meta.get("gold_api") and meta.get("api_description"):
        tools = _some_apis(row, str(meta["gold_api"]), apis)
    return Asked(Call.ask(question, tools=tools), _documents(row, extra.get("context"), meta, passages))


def _with_choices(row: QuestionRow, choices: Any) -> str:
    if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
        raise BadInput(f"row {row.id!r}: choices must be a list of texts")
    if len(choices) > len(LETTERS):
        raise BadInput(f"row {row.id!r}: {len(choices)} choices; at most {len(LETTERS)} can be lettered")
    lettered = (f"{letter}. {choice}" for letter, choice in zip(LETTERS, choices, strict=False))
    return "\n".join([row.question, *lettered])


def _documents(
    row: QuestionRow, context: Any, meta: Mapping[str, Any], passages: Mapping[str, str]
) -> tuple[Document, ...]:
    if isinstance(context, str):
        context = [context]
    if isinstance(context, list):
        texts = [item.get("text") if isinstance(item, Mapping) else item for item in context]
        known = [text for text in texts if isinstance(text, str)]
        if len(known) < len(texts):
            raise BadInput(f"row {row.id!r}: context must be a text, or a list of texts or of {{title, text}}")
        return tuple(Document(id=f"{row.id}/{number}", text=text) for number, text in enumerate(known))
    if context is not None:
        raise BadInput(f"row {row.id!r}: context is a {type(context).__name__}; give a text or a list of texts")
    wanted = meta.get("passage_id")
    if wanted is None:
        return ()
    if wanted not in passages:
        raise BadInput(
            f"row {row.id!r} names the passage {wanted!r}, which is not among the {len(passages)} given; give the file "
            "that holds it (--passages)"
        )
    return (Document(id=str(wanted), text=passages[wanted]),)


def _function(row: QuestionRow, function: Any) -> dict[str, Any]:
    """BFCL's description in OpenAI's shape; dots in names become underscores, as providers ask."""
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise BadInput(f"row {row.id!r}: meta.functions holds something without a name: {str(function)[:80]}")
    return _tool(
        function["name"].replace(".", "_"), str(function.get("description", "")), _schema(function.get("parameters"))
    )


def _schema(value: Any) -> Any:
    """A parameter description with JSON schema's type names."""
    if isinstance(value, Mapping):
        return {
            key: _TYPES.get(item.lower(), item.lower()) if key == "type" and isinstance(item, str) else _schema(item)
            for key, item in value.items()
        }
    return [_schema(item) for item in value] if isinstance(value, list) else value


def _tool(name: str, description: str, parameters: Any) -> dict[str, Any]:
    schema = parameters if isinstance(parameters, Mapping) and parameters else {"type": "object", "properties": {}}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": dict(schema)}}


def _apis(rows: Sequence[QuestionRow]) -> dict[str, dict[str, Any]]:
    """STE's APIs as tools, by name."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        meta = (row.model_extra or {}).get("meta")
        if isinstance(meta, Mapping) and meta.get("gold_api") and meta.get("api_description"):
            name = str(meta["gold_api"])
            found.setdefault(name, _api(name, str(meta["api_description"])))
    return found


def _some_apis(row: QuestionRow, wanted: str, apis: Mapping[str, dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """The wanted API and others, in an order that gives nothing away; drawn by the row's id alone."""
    draws = random.Random(row.id)  # noqa: S311 - which distractors are shown is no secret
    others = draws.sample(sorted(set(apis) - {wanted}), min(OTHER_TOOLS, len(apis) - 1))
    shown = [wanted, *others]
    draws.shuffle(shown)
    return tuple(apis[name] for name in shown)


def _api(name: str, text: str) -> dict[str, Any]:
    """An API of STE (arXiv 2403.04746) in OpenAI's shape; its text comes in two forms: prose, and RapidAPI's JSON."""
    _, _, description = text.partition("Description:")
    description = description.strip() or text
    try:
        told = json.loads(description)
    except ValueError:
        told = None
    if isinstance(told, dict):
        return _tool(name, _rapid_description(told), _rapid_schema(told))
    arguments = _ARGUMENTS.search(description)
    properties = {
        argument: {"type": _TYPES.get(kind.lower(), kind.lower())}
        for argument, kind in _ARGUMENT.findall(arguments[1] if arguments else "")
    }
    prose = re.split(r"\.?\s*Your input should be a json", description, maxsplit=1)[0].strip()
    return _tool(name, prose, {"type": "object", "properties": properties, "required": sorted(properties)})


def _rapid_description(told: Mapping[str, Any]) -> str:
    parts = (str(told.get("description") or "").strip(), str(told.get("parent_tool_description") or "").strip())
    return " ".join(part for part in parts if part)[:400]


def _rapid_schema(told: Mapping[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for kind in ("required_parameters", "optional_parameters"):
        for parameter in told.get(kind) or ():
            given = str(parameter.get("type") or "string").lower()
            properties[str(parameter.get("name"))] = {
                "type": _TYPES.get(given, given),
                "description": str(parameter.get("description") or "")[:200],
            }
    required = [str(parameter.get("name")) for parameter in told.get("required_parameters") or ()]
    return {"type": "object", "properties": properties, "required": required}
