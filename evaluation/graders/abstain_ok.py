"""Short answers where refusing is right when there is nothing to answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...core.errors import BadInput, ConfigurationError
from ..text import first_line, same_text
from .alias import AliasGrader
from .gold import check_response, row_name

DEFAULT_REFUSAL = "unanswerable"


class AbstainOkGrader:
    """`answers: []` is right iff the first non-empty line is the task's refusal string; other rows as `alias`.

    Args:
        refusal: the string that the task's prompt asks for when there is no answer; `row["refusal"]` comes before it.
            Default "unanswerable". Compared in SQuAD's normal form.

    Raises:
        ConfigurationError: `refusal` is blank.
    """

    name = "abstain_ok"
    version = "1"

    def __init__(self, refusal: str = DEFAULT_REFUSAL) -> None:
        if not isinstance(refusal, str) or not refusal.strip():
            raise ConfigurationError(f"refusal={refusal!r} must be the text the task refuses with, not blank")
        self.refusal = refusal
        self._alias = AliasGrader()

    def grade(self, response: str, answers: Sequence[str], row: Mapping[str, object]) -> bool:
        """Compare.

        Raises:
            BadInput: `row["refusal"]` is blank or no string, or a response or answer is not a string.
        """
        if answers:
            return self._alias.grade(response, answers, row)
        refusal = row.get("refusal", self.refusal)
        if not isinstance(refusal, str) or not refusal.strip():
            raise BadInput(f"{row_name(row)}: refusal {refusal!r} must be the text the task refuses with")
        line = first_line(check_response(response, row))
        return bool(line) and same_text(line, refusal)
