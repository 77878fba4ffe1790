"""Numbers as people say them: "about 7 in 10", and always of how many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def about(right: int, n: int) -> str:
    """A share as a natural frequency: "about 7 in 10", "about 3 in 100", "none", "all"."""
    if n == 0 or right == 0:
        return "none"
    if right == n:
        return "all"
    share = right / n
    for denominator, error in ((10, 0.021), (20, 0.026)):
        nearest = round(share * denominator)
        if 0.045 <= share <= 0.955 and abs(share - nearest / denominator) <= error:
            if 2 * nearest == denominator:
                return "about half"
            # 5 and 15 in 20 are better known as quarters.
            quarters = denominator == 20 and nearest % 5 == 0
            return f"about {nearest // 5} in 4" if quarters else f"about {nearest} in {denominator}"
    if n < 100:
        return "hardly any" if share < 0.5 else "nearly all"
    hundredths = round(100 * share)
    if hundredths == 0:
        return "fewer than 1 in 100"
    return "more than 99 in 100" if hundredths == 100 else f"about {hundredths} in 100"


def of(part: int, n: int, things: str = "") -> str:
    """The counts, and the share in words: "412 of 600 answers (about 7 in 10)"."""
    if n == 0:
        return "–"
    counts = f"{part:,} of {n:,} {things}".rstrip()
    return counts if part in (0, n) else f"{counts} ({about(part, n)})"


def answers(n: int) -> str:
    """ "1 answer", "600 answers"."""
    return f"{n:,} answer" if n == 1 else f"{n:,} answers"


def hundred(value: float) -> str:
    """How many in 100, without figures that nobody could tell: "84", "0.4"."""
    number = 100.0 * value
    return f"{number:.1f}" if 0.0 < number < 1.0 else f"{number:.0f}"


def number(value: float | int | None) -> str:
    """A figure in a table."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3f}".replace("-", "−")


def interval(low: float | None, high: float | None) -> str:
    """[low, high] in a table."""
    return "–" if low is None or high is None else f"[{number(low)}, {number(high)}]"


def with_interval(row: Mapping[str, Any]) -> str:
    """Value and interval of one row of metrics."""
    if row.get("low") is None or isinstance(row["value"], int):
        return number(row["value"])
    return f"{number(row['value'])} {interval(row['low'], row['high'])}"
