"""What every grader checks before it grades: that there is something to grade against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...core.errors import BadInput


def row_name(row: Mapping[str, object]) -> str:
    """How errors call a row: by its id where it has one."""
    return f"row {row['id']!r}" if "id" in row else "row"


def check_response(response: object, row: Mapping[str, object]) -> str:
    """The response, if it is a string.

    Raises:
        BadInput: it is something else (None, NaN of a data frame, ...).
    """
    if not isinstance(response, str):
        raise BadInput(f"{row_name(row)}: response {response!r} is not a string; leave out rows without a response")
    return response


def check_answers(answers: Sequence[str], row: Mapping[str, object], *, grader: str) -> tuple[str, ...]:
    """The gold answers, if there is at least one and all are strings.

    Raises:
        BadInput: there is none, or one is not a string.
    """
    if isinstance(answers, str):
        raise BadInput(f"{row_name(row)}: answers {answers!r} is one string; give a list of strings")
    for answer in answers:
        if not isinstance(answer, str):
            raise BadInput(f"{row_name(row)}: gold answer {answer!r} is not a string")
    if not answers:
        raise BadInput(
            f"{row_name(row)} has no gold answer, so grader {grader!r} cannot grade it; "
            "use 'abstain_ok' where no answer means that refusing is right"
        )
    return tuple(answers)
