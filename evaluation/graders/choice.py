"""Multiple choice: the letter or the text of the right choice."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Mapping, Sequence

from ...core.errors import BadInput
from ..text import first_line, last_line, normalise
from .gold import check_response, row_name

_STATED = re.compile(
    r"(?:\b(?:answer|choice|option)\b[*_\s]*(?:is|would be|must be|[:=])[*_\s:]*?(?=[^\s:*_]|\n|\Z)"
    r"|\\boxed(?=\{))(?:[ \t*_:]|\b(?:the|option|choice|letter)\b[ \t])*(?P<rest>[^\n]*)",
    re.IGNORECASE,
)
_NEXT_QUESTION = re.compile(r"\n\s*(?:Question|Q)\s*:")
_WRAPPING = " \t*_`\"'“”‘’{}$"
_LETTER = re.compile(r"(?:(?i:option|choice)\s+)?(?P<open>[(\[]?)(?P<letter>[A-Za-z])(?![A-Za-z0-9'’])(?P<tail>.*)")
_TAIL_OF_A_LETTER = re.compile(
    r"[)\]]*[*_]*(?:[.:),;\]]|\s+[-–—]|\s+(?:because|since|as)\b|\s+is\s+(?:the\s+)?(?:correct|right|best|answer)\b)"
)
_ANOTHER_LETTER = re.compile(r"(?:or\b|and\b|&|/)?\s*[(\[]?(?P<letter>[A-Z])(?:[)\].,;:!?]|\s*$|\s+(?:or|and)\b)")


class ChoiceGrader:
    """Right iff the response names the choice `row["answer_index"]` of `row["choices"]`, and only that one.

    Read in this order; the first that applies decides:
    the last "answer is ..." / "Answer: ..." / `\\boxed{...}`; the first line; the last line (after reasoning). Each may
    hold a letter ("B", "(b)", "B. text", "B because ...") or the text of one choice. In a sentence only capitals are
    letters ("a" is a word). A letter with the text of another choice, or two letters ("A or B"), names nothing.
    """

    name = "choice"
    version = "1"

    def grade(self, response: str, answers: Sequence[str], row: Mapping[str, object]) -> bool:
        """Compare. `answers` is not used: texts of choices can be ambiguous where the index is not.

        Raises:
            BadInput: `choices` or `answer_index` is missing or does not fit, or the response is not a string.
        """
        choices, index = _gold(row)
        return _chosen(check_response(response, row), choices) == index


def _gold(row: Mapping[str, object]) -> tuple[list[str], int]:
    choices, index = row.get("choices"), row.get("answer_index")
    if (
        not isinstance(choices, Sequence)
        or isinstance(choices, str)
        or not 2 <= len(choices) <= 26
        or not all(isinstance(choice, str) for choice in choices)
    ):
        raise BadInput(f"{row_name(row)}: choices={choices!r} must be a list of 2 to 26 texts for grader 'choice'")
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(choices):
        raise BadInput(f"{row_name(row)}: answer_index={index!r} must be a position in the {len(choices)} choices")
    return list(choices), index


def _chosen(response: str, choices: list[str]) -> int | None:
    """The position of the choice that the response names, or None."""
    # Base models go on with the next question of a few-shot prompt.
    response = _NEXT_QUESTION.split(response.rpartition("</think>")[2], maxsplit=1)[0]
    for statement in reversed(list(_STATED.finditer(response))):
        # "Answer:" may stand on a line of its own, above the answer.
        stated = statement["rest"].strip() or first_line(response[statement.end() :])
        index = _named(stated, choices)
        if index is not None:
            return index
        if _ANOTHER_LETTER.match(stated.lstrip(_WRAPPING)):
            return None  # "the answer is A or B"
    first = _named(first_line(response), choices)
    return first if first is not None else _named(last_line(response), choices)


def _named(line: str, choices: list[str]) -> int | None:
    line = unicodedata.normalize("NFKC", line).strip(_WRAPPING)
    by_text = _by_text(line, choices)
    match = _LETTER.match(line)
    if match is None:
        return by_text
    letter, tail = match["letter"], match["tail"]
    index = string.ascii_uppercase.index(letter.upper())
    rest = tail.strip(_WRAPPING + string.punctuation)
    if index >= len(choices):
        return by_text
    if not rest:
        return index
    if not _TAIL_OF_A_LETTER.match(tail) or (letter.islower() and tail[0] not in ".:)]"):
        return by_text
    told = _by_text(rest, choices)
    other = _ANOTHER_LETTER.match(tail.lstrip(_WRAPPING + ".:),;]-–—"))
    if told is None and other is not None and other["letter"] != letter:
        return None
    return index if told in (None, index) else None


def _by_text(line: str, choices: list[str]) -> int | None:
    """The only choice with this text: as it stands, or else in normal form."""
    for form in (str.strip, normalise):
        wanted = form(line)
        equal = [i for i, choice in enumerate(choices) if form(choice) == wanted]
        if wanted and len(equal) == 1:
            return equal[0]
    return None
