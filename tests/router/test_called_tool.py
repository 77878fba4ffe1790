"""Which tool a call is about, asked for a fit and asked for a decision alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from demur.core.call import Call, CallKind
from demur.core.decision import Stage
from demur.core.evidence import Evidence
from demur.core.response import Response, TokenTrace, ToolCall
from demur.evaluation.graders.registry import get_grader
from demur.router.called_tool import tool_in_text, tool_of
from demur.router.pipelines.fit import fit_artefact
from demur.router.pipelines.gather import gather
from demur.router.pipelines.rows import QuestionRow
from demur.testing import ScriptedModel

OFFERED = tuple({"type": "function", "function": {"name": name}} for name in ("search", "refund"))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('<tool_call>\n{"name": "refund", "arguments": {"order": 1}}\n</tool_call>', "refund"),
        ('{"name": "search", "arguments": {}}', "search"),
        ("search(query='a')", "search"),
        ("[search(query='a'), search(query='b')]", "search"),
        ("[search(query='a'), refund(order=1)]", None),
        ('{"name": "delete_all", "arguments": {}}', None),
        ("I would search for it.", None),
        ("", None),
    ],
)
def test_a_call_written_as_text(text: str, named: str | None) -> None:
    call = Call.ask("Q", tools=OFFERED)
    assert tool_in_text(call, text) == named
    assert tool_of(Evidence(call=call, response=Response(text=text))) == named
    # Without tools on offer, an answer that looks like a call is an answer.
    assert tool_of(Evidence(call=Call.ask("Q"), response=Response(text=text))) is None


def test_what_is_called_outright_comes_first() -> None:
    given = Call(kind=CallKind.TOOL, tool_name="mail", arguments={})
    assert tool_of(Evidence(call=given)) == "mail"
    proposed = Response(text="search()", tool_calls=(ToolCall(name="refund", arguments={}),))
    assert tool_of(Evidence(call=Call.ask("Q", tools=OFFERED), response=proposed)) == "refund"
    several = Response(text="", tool_calls=(ToolCall(name="a", arguments={}), ToolCall(name="b", arguments={})))
    assert tool_of(Evidence(call=Call.ask("Q", tools=OFFERED), response=several)) is None
    assert tool_of(Evidence(call=Call.ask("Q", tools=OFFERED))) is None


def question(number: int) -> QuestionRow:
    name = ("easy.api", "hard.api", "other.api")[number % 3]
    # The hard one is answered as often as not with an argument that is wrong.
    right = (number * 7919) % 10 < {"easy.api": 9, "hard.api": 2, "other.api": 6}[name]
    answer = [{name: {"x": [number if right else -1]}}]
    row: dict[str, Any] = {
        "id": f"r{number}",
        "question": f"Question {number} of {name}?",
        "answers": [json.dumps(answer)],
        "meta": {"functions": [{"name": name, "parameters": {"type": "dict", "properties": {}}}]},
    }
    return QuestionRow(**row)


def reply(call: Call) -> Response:
    number = int(call.question.split()[1])
    text = json.dumps({"name": call.tools[0]["function"]["name"], "arguments": {"x": number}})  # type: ignore[index,call-overload]
    spread = -0.1 - (number * 31 % 17) / 10
    return Response(text=text, trace=TokenTrace(logprobs=(spread, -0.2)))


def test_what_a_model_calls_is_told_apart_when_fitting(tmp_path: Path) -> None:
    model = ScriptedModel(reply, logprob=-0.1)
    rows = gather([question(n) for n in range(240)], model, get_grader("bfcl_ast"), tmp_path)
    assert set(rows.tools) == {"easy_api", "hard_api", "other_api"}
    artefact = fit_artefact(rows, task="t", grader=("bfcl_ast", "1"), model=model.fingerprint())
    head = artefact.head("answer", Stage.AFTER)
    assert head is not None and head.pooling is not None
    assert head.pooling.offsets["hard_api"] < -1.0 < 1.0 < head.pooling.offsets["easy_api"]
