"""Where the answer is: by position, without scaffolding, cut at the first stop string."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.core.errors import ConfigurationError
from demur.integrations.models.huggingface.answer import AnswerText, Detokenizer, answer_span

PIECES = st.lists(st.text(alphabet="ab \n:Q", max_size=4), max_size=12)
STOPS = st.lists(st.text(alphabet="ab\n:Q", min_size=1, max_size=3), max_size=3)


def _fed(pieces: list[str], stop: tuple[str, ...] = ()) -> AnswerText:
    answer = AnswerText(stop)
    for piece in pieces:
        answer.feed(piece)
    return answer


@pytest.mark.parametrize(
    ("pieces", "stop", "text", "span"),
    [
        ([" Paris", "\n"], ("\n",), "Paris", (0, 1)),
        (["\n", "\n", " Par", "is", " ", "\n", "Q"], ("\n",), "Paris", (2, 4)),
        ([" Paris", ".\n", "x"], ("\n",), "Paris.", (0, 2)),
        ([" a", ":", " b"], (), "a: b", (0, 3)),
        ([" ", "\n"], ("\n",), "", (0, 0)),
        ([], (), "", (0, 0)),
        (["END"], ("END",), "", (0, 0)),
        ([" yes", " E", "N", "D"], ("END",), "yes", (0, 1)),
        ([" one", "\n", "\n", " two"], ("\n\n",), "one", (0, 1)),
        ([" b", "STOP", " a", "HALT"], ("HALT", "STOP"), "b", (0, 1)),
    ],
)
def test_goldens(pieces: list[str], stop: tuple[str, ...], text: str, span: tuple[int, int]) -> None:
    answer = _fed(pieces, stop)
    assert answer.text == text
    assert answer_span(pieces, answer) == span


def _expected(raw: str, stop: tuple[str, ...]) -> str:
    body = raw.lstrip()
    cuts = [i for s in stop if (i := body.find(s)) >= 0]
    return body[: min(cuts, default=len(body))].rstrip()


@given(PIECES, STOPS)
def test_text_does_not_depend_on_how_it_was_cut_into_tokens(pieces: list[str], stop: list[str]) -> None:
    # Only what was fed up to the first stop string counts, and that is a prefix: the whole text gives the same.
    assert _fed(pieces, tuple(stop)).text == _expected("".join(pieces), tuple(stop))


@given(PIECES, STOPS)
def test_streamed_pieces_join_to_the_text(pieces: list[str], stop: list[str]) -> None:
    answer, given_out = AnswerText(tuple(stop)), []
    for piece in pieces:
        answer.feed(piece)
        given_out.append(answer.fresh())
    given_out.append(answer.fresh(final=True))
    assert "".join(given_out) == answer.text


@given(PIECES, STOPS)
def test_span_covers_the_text_and_no_more(pieces: list[str], stop: list[str]) -> None:
    answer = _fed(pieces, tuple(stop))
    first, last = answer_span(pieces, answer)
    assert answer.text in "".join(pieces[first:last])
    if answer.text:
        assert pieces[first].strip() or not pieces[first]
        assert answer.text not in "".join(pieces[first : last - 1])


def test_detokenizer_waits_for_whole_characters(tiny_tokenizer: Any) -> None:
    text = " caf\u00e9 \U0001f680 na\u00efve\n"
    ids = tiny_tokenizer(text)["input_ids"]
    detokenizer = Detokenizer(tiny_tokenizer)
    pieces = [detokenizer.feed(i) for i in [*ids, tiny_tokenizer.eos_token_id]]
    assert "".join(pieces) == text
    assert "\ufffd" not in "".join(pieces)
    assert "" in pieces  # the rocket needs several bytes, so some tokens complete nothing
    answer = _fed(pieces)
    first, last = answer_span(pieces, answer)
    assert tiny_tokenizer.decode(ids[first:last]).strip() == text.strip()


def test_a_character_of_several_tokens_belongs_to_the_answer_whole(tiny_tokenizer: Any) -> None:
    ids = tiny_tokenizer("\U0001f680")["input_ids"]
    assert len(ids) > 1
    detokenizer = Detokenizer(tiny_tokenizer)
    pieces = [detokenizer.feed(i) for i in ids]
    assert answer_span(pieces, _fed(pieces)) == (0, len(ids))


def test_empty_stop_string_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="empty stop"):
        AnswerText(("",))
