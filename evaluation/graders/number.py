"""Arithmetic: the last number of the response equals the gold number."""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ...core.errors import BadInput
from .gold import check_answers, check_response, row_name

# Longer numerals are no answers, and exact arithmetic on them would cost whatever a response asks for.
_LONGEST_NUMERAL = 100
_LARGEST_EXPONENT = 400

_DIGITS = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)"
# Digits glued to a Latin letter (CO2, m2, step3) are no numbers of their own, nor is the tail of 3.14.15. A hyphen is a
# sign unless it follows a digit, a letter or a bracket: 10-5 ends in 5, not in -5.
_NUMBER = re.compile(
    rf"""(?<![A-Za-z_])(?<![0-9])(?<![0-9]\.)
    (?P<sign>(?<![\w)\]}}])[-+](?=[$€£¥]?[0-9.]))?
    [$€£¥]?
    (?:(?P<whole>[0-9]+)[ ](?=[0-9]+/[1-9]))?
    (?P<number>{_DIGITS}(?:\.[0-9]+)?|(?<![\w.])\.[0-9]+)
    (?:[eE](?P<exponent>[+-]?[0-9]+)(?![0-9A-Za-z])|/(?P<denominator>[0-9]+)(?![0-9/]))?
    [ ]?(?P<percent>%)?""",
    re.VERBOSE,
)
_EXPONENT = re.compile(r"\^\{?[-+]?[0-9.]+\}?")
_LATEX_FRACTION = re.compile(r"\\[dt]?frac\{([0-9]+)\}\{([0-9]+)\}")
_MINUS_SIGNS = str.maketrans({"−": "-", "﹣": "-", "－": "-", "‐": "-", "‑": "-", "–": "-", "⁄": "/", "∕": "/"})


@dataclass(frozen=True)
class _Number:
    value: Fraction
    percent: bool


class NumberGrader:
    """Right iff the last number of the response equals a gold number exactly.

    Understands signs, decimals, thousands separators ("1,234"), fractions ("3/4", "1 1/2", "½", `\\frac{3}{4}`),
    scientific notation, per cent, currency signs and GSM8K's "#### 42", in the response and in the gold answer; after
    a "####" only what follows the last one counts. A comma never is a decimal point. "50%" equals 50 and 0.5;
    "0.5%" equals neither 50 % nor 50. Numbers in words, "NaN" and "infinity" are no numbers.
    """

    name = "number"
    version = "1"

    def grade(self, response: str, answers: Sequence[str], row: Mapping[str, object]) -> bool:
        """Compare.

        Raises:
            BadInput: no gold answer, one without a number in it, or a response that is not a string.
        """
        gold = [self._gold(answer, row) for answer in check_answers(answers, row, grader=self.name)]
        said = _last_number(check_response(response, row))
        return said is not None and any(_equal(said, number) for number in gold)

    def _gold(self, answer: str, row: Mapping[str, object]) -> _Number:
        number = _last_number(answer)
        if number is None:
            raise BadInput(f"{row_name(row)}: gold answer {answer[:80]!r} holds no number; use grader 'alias'")
        return number


def _equal(said: _Number, gold: _Number) -> bool:
    if said.value == gold.value:
        return True
    if said.percent and not gold.percent:
        return said.value / 100 == gold.value
    if gold.percent and not said.percent:
        return said.value == gold.value / 100
    return False


def _last_number(text: str) -> _Number | None:
    if "####" in text:
        text = text.rpartition("####")[2]
    newest = deque(_NUMBER.finditer(_plain(text)), maxlen=1)
    return _read(newest[0]) if newest else None


def _plain(text: str) -> str:
    """Digits and signs of all scripts in ASCII; exponents gone, 1½ as "1 1/2", LaTeX fractions as 3/4."""
    characters = []
    for character in text if not text.isascii() else ():
        kind = unicodedata.decomposition(character).partition(" ")[0]
        if kind == "<super>":
            continue
        if kind == "<fraction>" and characters and characters[-1].isdigit():
            characters.append(" ")
        characters.append(character)
    plain = unicodedata.normalize("NFKC", "".join(characters)).translate(_MINUS_SIGNS) if characters else text
    plain = "".join(str(unicodedata.digit(c)) if c.isdecimal() and not c.isascii() else c for c in plain)
    plain = plain.replace("{,}", ",").replace("\\,", " ").replace("\\%", "%").replace("\\$", "$").replace("**", " ")
    plain = _EXPONENT.sub("", plain)
    return _LATEX_FRACTION.sub(lambda m: (" " if _digit_before(m) else "") + f"{m[1]}/{m[2]}", plain)


def _digit_before(match: re.Match[str]) -> bool:
    return match.start() > 0 and match.string[match.start() - 1].isdigit()


def _read(match: re.Match[str]) -> _Number | None:
    """The exact value, or None where there is none (division by zero, absurdly long)."""
    parts = [match[name] or "" for name in ("whole", "number", "denominator")]
    exponent = int(match["exponent"] or 0) if len(match["exponent"] or "") < 6 else _LARGEST_EXPONENT + 1
    if max(map(len, parts)) > _LONGEST_NUMERAL or abs(exponent) > _LARGEST_EXPONENT:
        return None
    value = Fraction(parts[1].replace(",", "")) * Fraction(10) ** exponent
    if parts[2]:
        if int(parts[2]) == 0:
            return None
        in_date = match.start() > 0 and match.string[match.start() - 1] == "/"  # 24/7/2020 ends in 2020
        value = Fraction(int(parts[2])) if in_date else value / int(parts[2])
    if parts[0]:
        value += int(parts[0])
    return _Number(-value if match["sign"] == "-" else value, bool(match["percent"]))
