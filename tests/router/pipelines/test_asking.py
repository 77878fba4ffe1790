from __future__ import annotations

import json
from typing import Any

import pytest

from demur.core.errors import BadInput
from demur.router.pipelines.asking import asked_of
from demur.router.pipelines.rows import QuestionRow


def row(id: str = "r1", question: str = "Which?", **extra: Any) -> QuestionRow:
    return QuestionRow(id=id, question=question, answers=("x",), **extra)


def test_a_plain_row_asks_its_question() -> None:
    (asked,) = asked_of([row()])
    assert (asked.call.question, asked.call.tools, asked.documents, asked.length) == ("Which?", (), (), 0)


def test_choices_are_lettered() -> None:
    (asked,) = asked_of([row(choices=["cat", "dog"])])
    assert asked.call.question == "Which?\nA. cat\nB. dog"
    for bad in ([1], "cat", [str(n) for n in range(11)]):
        with pytest.raises(BadInput, match="'r1'"):
            asked_of([row(choices=bad)])


@pytest.mark.parametrize(
    ("context", "texts"),
    [
        ("one", ["one"]),
        (["one", "two"], ["one", "two"]),
        ([{"title": "t", "text": "one"}, "two"], ["one", "two"]),
    ],
)
def test_context_is_quoted_as_passages(context: Any, texts: list[str]) -> None:
    (asked,) = asked_of([row(context=context)])
    assert [document.text for document in asked.documents] == texts
    assert asked.length == sum(map(len, texts))


def test_context_that_is_no_text_is_refused() -> None:
    for bad in (3, [3], [{"title": "t"}], {"text": "x"}):
        with pytest.raises(BadInput, match="'r1'"):
            asked_of([row(context=bad)])


def test_passages_are_looked_up_by_their_id() -> None:
    rows = [row(meta={"passage_id": "p7"})]
    (asked,) = asked_of(rows, {"p7": "the text"})
    assert [(document.id, document.text) for document in asked.documents] == [("p7", "the text")]
    with pytest.raises(BadInput, match=r"'r1' names the passage 'p7'.*--passages"):
        asked_of(rows, {"p8": "another"})


def test_functions_become_tools_with_json_schema_types() -> None:
    function = {
        "name": "math.area",
        "description": "Area.",
        "parameters": {
            "type": "dict",
            "properties": {"base": {"type": "float"}, "points": {"type": "tuple", "items": {"type": "any"}}},
            "required": ["base"],
        },
    }
    (asked,) = asked_of([row(meta={"functions": [function]})])
    (tool,) = asked.call.tools
    assert tool == {
        "type": "function",
        "function": {
            "name": "math_area",
            "description": "Area.",
            "parameters": {
                "type": "object",
                "properties": {"base": {"type": "number"}, "points": {"type": "array", "items": {"type": "string"}}},
                "required": ["base"],
            },
        },
    }
    (bare,) = asked_of([row(meta={"functions": [{"name": "now"}]})])
    assert bare.call.tools[0]["function"]["parameters"] == {"type": "object", "properties": {}}
    with pytest.raises(BadInput, match=r"'r1'.*without a name"):
        asked_of([row(meta={"functions": [{"description": "?"}]})])


PROSE = (
    "API_name: add_date\nDescription: Add days to a date. Your input should be a json (args json schema): "
    '{{"date" : string, "days" : integer, }} The Action to trigger this API should be add_date.'
)
RAPID = "API_name: songs\nDescription: " + json.dumps(
    {
        "description": "Find songs.",
        "parent_tool_description": "Music.",
        "required_parameters": [{"name": "q", "type": "STRING", "description": "what"}],
        "optional_parameters": [{"name": "limit", "type": "NUMBER"}],
    }
)


def test_apis_come_in_two_forms_and_one_other_is_offered_beside() -> None:
    rows = [
        row("a", meta={"gold_api": "add_date", "api_description": PROSE}),
        row("b", meta={"gold_api": "songs", "api_description": RAPID}),
        row("c", meta={"gold_api": "add_date", "api_description": PROSE}),
    ]
    asked = asked_of(rows)
    for each in asked:
        assert {tool["function"]["name"] for tool in each.call.tools} == {"add_date", "songs"}
    tools = {tool["function"]["name"]: tool["function"] for tool in asked[0].call.tools}
    assert tools["add_date"]["description"] == "Add days to a date"
    assert tools["add_date"]["parameters"] == {
        "type": "object",
        "properties": {"date": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["date", "days"],
    }
    assert tools["songs"]["description"] == "Find songs. Music."
    assert tools["songs"]["parameters"]["required"] == ["q"]
    assert tools["songs"]["parameters"]["properties"]["limit"]["type"] == "number"


def test_the_wanted_api_does_not_stand_in_one_place_and_the_draw_is_the_same_again() -> None:
    rows = [row(f"r{n}", meta={"gold_api": f"api{n % 5}", "api_description": PROSE}) for n in range(40)]
    places = [
        [tool["function"]["name"] for tool in asked.call.tools].index(f"api{n % 5}")
        for n, asked in enumerate(asked_of(rows))
    ]
    assert set(places) == {0, 1}
    assert [each.call.tools for each in asked_of(rows)] == [each.call.tools for each in asked_of(rows)]
