"""Tool calls of the Berkeley Function-Calling Leaderboard: match on the syntax tree, run nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.errors import BadInput
from .gold import check_answers, check_response, row_name
from .strict_json import NotJson, read_json
from .tool_syntax import ParsedCall, read_calls

_IGNORED_IN_TEXT = re.compile(r"[ ,./\-_*^]")

GoldCall = tuple[str, dict[str, list[Any]]]


class BfclAstGrader:
    """BFCL's AST match (gorilla-llm, `bfcl_eval/eval_checker/ast_eval`), for Python and JSON calls.

    Gold is `[{function: {parameter: [allowed values]}}]` in `answers[0]`; functions are described in
    `row["meta"]["functions"]`. A call matches when the function is the one, no parameter is unknown, every parameter
    that the description requires is there, and each value is among the allowed ones, where an allowed "" means that the
    parameter may be left out. Texts are compared without case, spaces and `,./-_*^`, and with one kind of quote.
    Parallel calls match in any order, one to one. Rows with `meta.expected == "no_tool_call"` (irrelevance) are right
    iff nothing is called.

    Named deviations from BFCL: integers and floats of equal value match either way (BFCL refuses 5.0 for an
    integer); nothing is evaluated (BFCL evaluates arithmetic); an optimal one-to-one match instead of a greedy
    one; "a_b" stands for "a.b" because providers forbid dots in names.
    """

    name = "bfcl_ast"
    version = "1"

    def grade(self, response: str, answers: Sequence[str], row: Mapping[str, object]) -> bool:
        """Compare.

        Raises:
            BadInput: no gold call on a row that is not an irrelevance row, a gold call that is not BFCL's JSON, or a
                response that is not a string.
        """
        calls = read_calls(check_response(response, row))
        meta = row.get("meta")
        meta = meta if isinstance(meta, Mapping) else {}
        if not answers and meta.get("expected") == "no_tool_call":
            return not calls
        gold = _gold(check_answers(answers, row, grader=self.name)[0], row)
        if len(calls) != len(gold):
            return False
        required = _required(meta.get("functions"))
        return _one_to_one([[_matches(call, target, required) for target in gold] for call in calls])


def _gold(answer: str, row: Mapping[str, object]) -> list[GoldCall]:
    try:
        value = read_json(answer)
    except NotJson as error:
        raise BadInput(f"{row_name(row)}: gold answer {answer[:80]!r} is not JSON: {error}") from None
    gold: list[GoldCall] = []
    for item in value if isinstance(value, list) else [value]:
        if not isinstance(item, dict) or len(item) != 1 or not isinstance(next(iter(item.values())), dict):
            raise BadInput(
                f"{row_name(row)}: gold call {str(item)[:80]!r} must be {{function: {{parameter: [values]}}}}"
            )
        name, parameters = next(iter(item.items()))
        gold.append(
            (name, {key: allowed if isinstance(allowed, list) else [allowed] for key, allowed in parameters.items()})
        )
    return gold


def _required(functions: object) -> dict[str, set[str]]:
    """Required parameters by function; functions without a usable description require what gold does not waive."""
    found: dict[str, set[str]] = {}
    for function in functions if isinstance(functions, Sequence) else ():
        parameters = function.get("parameters") if isinstance(function, Mapping) else None
        if isinstance(parameters, Mapping):
            found[str(function.get("name"))] = set(map(str, parameters.get("required") or ()))
    return found


def _matches(call: ParsedCall, gold: GoldCall, required: Mapping[str, set[str]]) -> bool:
    name, allowed = gold
    if call.arguments is None or call.name not in (name, name.replace(".", "_")):
        return False
    needed = required.get(name, set()) & allowed.keys()
    return needed <= call.arguments.keys() and _object_allowed(call.arguments, allowed)


def _object_allowed(given: Mapping[Any, Any], allowed: Mapping[str, Any]) -> bool:
    """No unknown key, every value allowed, and only keys with an allowed "" left out."""
    if not given.keys() <= allowed.keys():
        return False
    return all(
        _any_allowed(given[key], values) if key in given else _may_be_left_out(values)
        for key, values in allowed.items()
    )


def _may_be_left_out(values: Any) -> bool:
    return isinstance(values, list) and any(isinstance(value, str) and value == "" for value in values)


def _any_allowed(value: Any, allowed: Any) -> bool:
    return any(_equal(value, option) for option in (allowed if isinstance(allowed, list) else [allowed]))


def _equal(value: Any, option: Any) -> bool:
    if isinstance(value, bool) or isinstance(option, bool):
        return value is option
    if isinstance(value, int | float) and isinstance(option, int | float):
        return math.isfinite(value) and value == option
    if isinstance(value, str) and isinstance(option, str):
        return _plain(value) == _plain(option)
    if isinstance(value, list) and isinstance(option, list):
        return len(value) == len(option) and all(map(_equal, value, option))
    if isinstance(value, Mapping) and isinstance(option, Mapping):
        return _object_allowed(value, option)
    return value is None and option is None


def _plain(text: str) -> str:
    return _IGNORED_IN_TEXT.sub("", text).lower().replace("'", '"')


def _one_to_one(matches: list[list[bool]]) -> bool:
    """Whether every call can be given a gold call of its own."""
    if len(matches) <= 1:
        return all(map(any, matches))
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    partners = maximum_bipartite_matching(csr_array(matches, dtype=int), perm_type="column")
    return bool((partners >= 0).all())
