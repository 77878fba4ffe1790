"""Rows: what is read, and what is refused with its line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from demur.core.errors import BadInput
from demur.router.pipelines.rows import GradedRow, QuestionRow, read_rows

Write = Callable[..., Path]
ASKED = {"id": "a", "question": "Q?", "answers": ["x"]}
GRADED = {"id": "b", "prompt": "P", "response": "R", "correct": True}


def test_reads_questions_with_what_else_they_bring(write_jsonl: Write) -> None:
    rows = read_rows(write_jsonl([{**ASKED, "choices": ["x", "y"]}, "", {**ASKED, "id": 7}]))
    assert [row.id for row in rows] == ["a", "7"]
    first = rows[0]
    assert isinstance(first, QuestionRow)
    assert first.model_dump()["choices"] == ["x", "y"]


def test_a_line_separator_inside_a_text_does_not_end_the_line(write_jsonl: Write) -> None:
    rows = read_rows(write_jsonl([{**ASKED, "question": "one\u2028two\u0085three\u2029four"}, {**ASKED, "id": "b"}]))
    assert [getattr(row, "question", None) for row in rows] == ["one\u2028two\u0085three\u2029four", "Q?"]


def test_missing_log_probabilities_stay_missing(write_jsonl: Write) -> None:
    line = '{"id": "b", "prompt": "P", "response": "R", "correct": 1, "logprobs": [NaN, null, -Infinity, -0.5]}'
    row = read_rows(write_jsonl([line]))[0]
    assert isinstance(row, GradedRow)
    assert row.correct is True
    assert row.logprobs is not None
    assert math.isnan(row.logprobs[0] or 0.0)
    assert row.logprobs[1:] == (None, -math.inf, -0.5)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("{", "not JSON"),
        ("[1]", "expected an object, found list"),
        ('{"id": "x", "question": "Q", "answers": "y", "n": ' + "9" * 5000 + "}", "not JSON"),
        ("[" * 100_000, "not JSON"),
        (json.dumps({"id": "x", "question": "Q"}), "answers: Field required"),
        (json.dumps({**ASKED, "id": ""}), "id: "),
        (json.dumps({**ASKED, "id": True}), "id: "),
        (json.dumps(ASKED), "id 'a' was used in line 1"),
        (json.dumps(GRADED), "questions and graded responses are mixed"),
        (json.dumps({**ASKED, "id": "x", "response": "R"}), "prompt: Field required"),
        ('"' + "x" * 4_000_001 + '"', "more than 4,000,000"),
    ],
)
def test_a_bad_line_is_named(write_jsonl: Write, bad: str, said: str) -> None:
    with pytest.raises(BadInput, match=r"rows\.jsonl:3: ") as caught:
        read_rows(write_jsonl([ASKED, "", bad]))
    assert said in str(caught.value)


@pytest.mark.parametrize("correct", [0.5, 2, -1, math.nan, None, "maybe"])
def test_a_grade_is_right_or_wrong(write_jsonl: Write, correct: Any) -> None:
    with pytest.raises(BadInput, match="correct"):
        read_rows(write_jsonl([{**GRADED, "correct": correct}]))


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ({"conversation": "c"}, "both or neither"),
        ({"turn": 1}, "both or neither"),
        ({"conversation": "c", "turn": 0}, "turn: "),
        ({"conversation": "c", "turn": 1.5}, "turn: "),
        ({"conversation": "", "turn": 1}, "conversation: "),
    ],
)
def test_a_place_in_a_conversation_is_whole(write_jsonl: Write, place: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        read_rows(write_jsonl([{**GRADED, **place}]))
    (row,) = read_rows(write_jsonl([{**GRADED, "conversation": 7, "turn": 2}]))
    assert isinstance(row, GradedRow) and (row.conversation, row.turn) == ("7", 2)


def test_files_that_hold_nothing_usable(write_jsonl: Write, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds no rows"):
        read_rows(write_jsonl(["", "  "]))
    with pytest.raises(BadInput, match="cannot be read"):
        read_rows(tmp_path / "nowhere.jsonl")
    with pytest.raises(BadInput, match="cannot be read"):
        read_rows(tmp_path)
    (tmp_path / "latin.jsonl").write_bytes(json.dumps(ASKED).encode() + b"\xe9")
    with pytest.raises(BadInput, match="cannot be read"):
        read_rows(tmp_path / "latin.jsonl")


def test_a_limit_draws_rows_by_the_seed_and_keeps_their_order(write_jsonl: Write) -> None:
    path = write_jsonl([{**ASKED, "id": number} for number in range(100)])
    drawn = [int(row.id) for row in read_rows(path, limit=20, seed=1)]
    assert drawn == sorted(set(drawn))
    assert len(drawn) == 20
    assert drawn == [int(row.id) for row in read_rows(path, limit=20, seed=1)]
    assert drawn != [int(row.id) for row in read_rows(path, limit=20, seed=2)]
    assert len(read_rows(path, limit=1000)) == 100
    for limit in (0, -3):
        with pytest.raises(BadInput, match=f"limit={limit}"):
            read_rows(path, limit=limit)


def test_a_byte_order_mark_and_windows_line_ends_are_no_trouble(tmp_path: Path) -> None:
    path = tmp_path / "windows.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(ASKED).encode() + b"\r\n")
    assert [row.id for row in read_rows(path)] == ["a"]
