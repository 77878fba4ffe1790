"""Tool calls as models write them, JSON or Python, read without running anything."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from typing import Any

from .strict_json import NotJson, fenced, read_json, read_prefix

_TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_LONGEST_CALL = 200_000


@dataclass(frozen=True)
class ParsedCall:
    """One call. `arguments` is None where they cannot be told (positional, unpacked or given twice)."""

    name: str
    arguments: dict[str, Any] | None


def read_calls(text: str) -> list[ParsedCall]:
    """All calls in a response, in order; [] when it calls nothing.

    The whole text, the blocks inside `<tool_call>` tags, or the fenced blocks, whichever is found first. JSON:
    `{"name", "arguments" | "parameters"}`, OpenAI's `{"function": {...}}` and `{"tool_calls": [...]}`, BFCL's
    `{function: arguments}`, lists of these, several one after the other. Python: `f(x=1)`, `[f(x=1), g.h(y="a")]`,
    one call a line. Prose around a call without fence or tag makes it prose: nothing would run it.
    """
    text = text.rpartition("</think>")[2]
    if len(text) > _LONGEST_CALL:
        return []
    calls = _read_block(text)
    for blocks in (_TAGGED.findall(text), fenced(text)):
        if not calls:
            calls = [call for block in blocks for call in _read_block(block)]
    return calls


def _read_block(text: str) -> list[ParsedCall]:
    text = text.strip()
    return (_from_json(text) or _from_python(text)) if text else []


def _from_json(text: str) -> list[ParsedCall]:
    calls: list[ParsedCall] = []
    rest = text
    while rest:
        try:
            value, rest = read_prefix(rest)
        except NotJson:
            return []
        for item in value if isinstance(value, list) else [value]:
            found = _from_value(item)
            if not found:
                return []
            calls.extend(found)
        rest = rest.lstrip(" \t\r\n;,")
    return calls


def _from_value(value: Any) -> list[ParsedCall]:
    if not isinstance(value, dict):
        return []
    if isinstance(value.get("tool_calls"), list):
        return [call for item in value["tool_calls"] for call in _from_value(item)]
    if isinstance(value.get("function"), dict) and "name" in value["function"]:
        return _from_value(value["function"])
    if isinstance(value.get("name"), str):
        for key in ("arguments", "parameters"):
            if key in value:
                return [ParsedCall(value["name"], _arguments(value[key]))]
    if value and all(isinstance(arguments, dict) for arguments in value.values()):
        return [ParsedCall(name, arguments) for name, arguments in value.items()]
    return []


def _arguments(given: Any) -> dict[str, Any] | None:
    if isinstance(given, str):
        try:
            given = read_json(given)
        except NotJson:
            return None
    return given if isinstance(given, dict) else None


def _from_python(text: str) -> list[ParsedCall]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "3(x)" and odd escapes in a response are no concern of the user
            body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    calls: list[ParsedCall] = []
    for statement in body:
        if not isinstance(statement, ast.Expr):
            return []
        value = statement.value
        for node in value.elts if isinstance(value, ast.List | ast.Tuple) else [value]:
            name = _dotted(node.func) if isinstance(node, ast.Call) else None
            if not isinstance(node, ast.Call) or name is None:
                return []
            calls.append(ParsedCall(name, _keywords(node)))
    return calls


def _dotted(node: ast.expr) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def _keywords(call: ast.Call) -> dict[str, Any] | None:
    names = [keyword.arg for keyword in call.keywords]
    if call.args or None in names or len(set(names)) != len(names):
        return None
    try:
        return {str(keyword.arg): _literal(keyword.value) for keyword in call.keywords}
    except (ValueError, TypeError, RecursionError):
        return None


def _literal(node: ast.expr) -> Any:
    """A literal's value; as in BFCL, anything else (a variable, `data['sales']`) is its source text."""
    if isinstance(node, ast.List | ast.Tuple):
        return [_literal(item) for item in node.elts]
    if isinstance(node, ast.Dict) and None not in node.keys:
        return {
            ast.literal_eval(key): _literal(value) for key, value in zip(node.keys, node.values, strict=True) if key
        }
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp):
        return ast.literal_eval(node)
    return ast.unparse(node)
