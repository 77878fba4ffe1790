"""Short answers: the first line equals one of the gold answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..text import first_line, same_text
from .gold import check_answers, check_response


class AliasGrader:
    """Right iff the first non-empty line equals any alias in SQuAD's normal form.

    Strict on purpose: "The answer is Paris" is not "Paris". An answer that never ends, lists several candidates or
    talks the grader round is wrong.
    """

    name = "alias"
    version = "1"

    def grade(self, response: str, answers: Sequence[str], row: Mapping[str, object]) -> bool:
        """Compare.

        Raises:
            BadInput: no gold answer, or a response or answer that is not a string.
        """
        aliases = check_answers(answers, row, grader=self.name)
        line = first_line(check_response(response, row))
        return bool(line) and any(same_text(line, alias) for alias in aliases)
